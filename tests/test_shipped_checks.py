"""The checks for parts of one's own, called as others call them: kept guarantees are counted, a broken one is named."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphsde as gs
from graphsde.base.registry import Registry
from graphsde.models import MODELS
from graphsde.sde.diffusion import ConstantDiffusion
from graphsde.sde.drift import GCNDrift
from graphsde.sde.prior import ConstantPrior
from graphsde.sde.solvers import Euler
from graphsde.testing import models, parts, scores, solvers
from graphsde.uncertainty.scores import SCORES


def test_kept_guarantees_are_counted() -> None:
    testing = gs.testing
    assert testing.check_model(gs.LabelPropagation, uses_features=False, inductive=False) == len(models.MODEL_CHECKS)
    assert testing.check_drift(GCNDrift, layers=1) == len(parts.DRIFT_CHECKS)
    assert testing.check_prior(ConstantPrior, width=3, drift=0.5) == len(parts.PRIOR_CHECKS)
    assert testing.check_diffusion(ConstantDiffusion, sigma=0.7) == len(parts.DIFFUSION_CHECKS)
    assert testing.check_solver(Euler) == len(solvers.SOLVER_CHECKS)


class Forgetful(gs.LabelPropagation):
    """Paper: none. It does not end with ``_calibrated``."""

    name, summary = "forgetful", "breaks one guarantee"

    def _calibrated(self, prediction: Any, graph: gs.Graph) -> Any:
        return prediction


@pytest.fixture
def forgetful() -> Any:
    gs.register(Forgetful)
    yield Forgetful
    MODELS._entries.pop("forgetful")


def test_a_violated_guarantee_is_named(forgetful: type[gs.Model]) -> None:
    with pytest.raises(AssertionError, match=r"^a_calibrator_is_kept_with_the_model: predict applies"):
        gs.testing.check_model(forgetful, uses_features=False, inductive=False)
    with pytest.raises(AssertionError, match=r"^has_name_summary_paper_and_year: .*'Paper: …'"):
        gs.testing.check_drift(type("Undocumented", (GCNDrift,), {}))
    with pytest.raises(AssertionError, match=r"^is_registered_under_its_name: register it with @gs.register"):
        gs.testing.check_diffusion(type("Unknown", (ConstantDiffusion,), {"__doc__": "Paper: none."}))
    with pytest.raises(AssertionError, match=r"^has_name_summary_paper_and_year: TypeError"):  # of whatever kind
        gs.testing.check_prior(ConstantPrior, no_such_setting=1)
    with pytest.raises(AssertionError, match=r"^keeps_its_order_without_noise: order"):
        gs.testing.check_solver(type("Proud", (Euler,), {"strong_order": {"none": 3.0}}))


@pytest.mark.parametrize("check", scores.SCORE_CHECKS, ids=lambda c: c.__name__)
@pytest.mark.parametrize("name", SCORES.names())
def test_every_score_keeps_its_contract(name: str, check: scores.ScoreCheck) -> None:
    check(scores.ScoreCase(name))


BROKEN: dict[str, Any] = {
    "is_one_number_per_node": lambda p: p.mean[:, :1] + np.zeros((1, 3)),
    "the_same_question_has_the_same_answer": lambda p: p.total + np.random.default_rng().random(p.num_items),
    "does_not_touch_global_randomness": lambda p: p.total + 0 * np.random.random(p.num_items),
    "leaves_the_prediction_alone": lambda p: np.copyto(p.probs, p.probs[:, ::-1].copy()) or p.total,
    "the_order_of_nodes_does_not_matter": lambda p: p.total + np.arange(p.num_items),
    "higher_is_more_uncertain": lambda p: p.confidence,
}


@pytest.mark.parametrize("check", BROKEN)
def test_a_wrong_score_is_noticed(check: str) -> None:
    registry: Registry[Any] = SCORES
    function = BROKEN[check]
    try:
        gs.register.score("wrong", summary="wrong", needs=("probs",))(function)
        with pytest.raises(AssertionError, match=f"^{check}"):
            gs.testing.check_score(function)
    finally:
        registry._entries.pop("wrong")
    with pytest.raises(AssertionError, match=r"^is_registered"):
        gs.testing.check_score(function)


def test_a_score_that_looks_at_hidden_labels_is_noticed() -> None:
    try:

        @gs.register.score("peeking", needs=("probs", "graph"))
        def peeking(prediction: gs.Prediction, graph: gs.Graph) -> np.ndarray:
            """uses the truth"""
            assert graph.labels is not None
            return prediction.mean[np.arange(prediction.num_items), graph.labels]

        with pytest.raises(AssertionError, match=r"^only_training_labels_are_read"):
            gs.testing.check_score(peeking)
    finally:
        SCORES._entries.pop("peeking")
