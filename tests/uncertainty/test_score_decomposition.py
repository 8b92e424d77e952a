"""Total uncertainty and its parts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphsde.base.errors import BadUsage
from graphsde.prediction import ClassPrediction
from graphsde.uncertainty.scores import decompose, score


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 6), st.floats(0.02, 5.0), st.sampled_from(["entropy", "variance"]))
def test_parts_are_not_negative_and_add_up(seed: int, samples: int, concentration: float, by: str) -> None:
    probs = np.random.default_rng(seed).dirichlet(np.full(3, concentration), size=(samples, 8))
    prediction = ClassPrediction(probs, np.arange(8), ("a", "b", "c"), "samples")
    parts = decompose(prediction, by)  # type: ignore[arg-type]
    assert np.allclose(parts.total, parts.aleatoric + parts.epistemic, atol=1e-12)
    assert (parts.epistemic >= 0).all() and (parts.aleatoric >= -1e-15).all()
    turned = decompose(replace(prediction, probs=probs[::-1]), by)  # type: ignore[arg-type]
    assert np.allclose(turned.epistemic, parts.epistemic, atol=1e-12)


@pytest.mark.parametrize("by", ["entropy", "variance"])
def test_one_hot_samples_that_disagree_are_all_epistemic(by) -> None:
    p = ClassPrediction(np.eye(3)[:, None, :], np.arange(1), ("a", "b", "c"), "samples")
    parts = decompose(p, by)
    assert parts.aleatoric[0] == 0.0 and parts.epistemic[0] == parts.total[0] > 0


@pytest.mark.parametrize("by", ["entropy", "variance"])
def test_samples_that_agree_are_all_aleatoric(by) -> None:
    p = ClassPrediction(np.tile([0.2, 0.3, 0.5], (6, 1, 1)), np.arange(1), ("a", "b", "c"), "samples")
    parts = decompose(p, by)
    assert np.allclose(parts.epistemic, 0, atol=1e-15) and np.allclose(parts.aleatoric, parts.total, atol=1e-15)


def test_entropy_parts_are_the_scores(make_prediction) -> None:
    for kind in ("samples", "dirichlet"):
        prediction = make_prediction(kind)
        parts = decompose(prediction)
        for values, name in zip(
            (parts.total, parts.aleatoric, parts.epistemic),
            ("entropy", "expected-entropy", "mutual-information"),
            strict=True,
        ):
            assert np.allclose(values, score(name, prediction), atol=1e-12)


def test_variance_parts_of_spread_out_samples_follow_their_definition(make_prediction) -> None:
    prediction = make_prediction("samples", samples=8)
    parts = decompose(prediction, "variance")
    mean = prediction.probs.mean(0)
    assert np.allclose(parts.total, (mean * (1 - mean)).sum(-1), atol=1e-14)
    assert np.allclose(parts.epistemic, prediction.probs.var(0, ddof=1).sum(-1), atol=1e-14)


def test_variance_parts_of_a_dirichlet_have_closed_forms(make_prediction) -> None:
    prediction = make_prediction("dirichlet")
    parts = decompose(prediction, "variance")
    strength = prediction.alpha.sum(-1)
    assert np.allclose(parts.epistemic, parts.total / (strength + 1), atol=1e-14)
    assert np.allclose(parts.aleatoric, parts.total * strength / (strength + 1), atol=1e-14)


@pytest.mark.parametrize("by", ["entropy", "variance"])
def test_a_deterministic_model_has_no_epistemic_part(by, make_prediction) -> None:
    parts = decompose(make_prediction("deterministic"), by)
    assert np.isnan(parts.epistemic).all() and np.array_equal(parts.aleatoric, parts.total)


def test_refusals(make_prediction) -> None:
    with pytest.raises(BadUsage, match="two samples"):
        decompose(make_prediction("samples", samples=1), "variance")
    with pytest.raises(BadUsage, match="unknown"):
        decompose(make_prediction("samples"), "range")
