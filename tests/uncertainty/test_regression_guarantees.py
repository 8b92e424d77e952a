"""Guarantees about numbers: intervals that cover, accepted answers that are near enough, deviations that are right."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import graphsde as gs
from graphsde.acting.abstain import abstain
from graphsde.base.errors import BadInput, BadUsage
from graphsde.graph.graph import Graph
from graphsde.models import load_model
from graphsde.prediction import RegressionPrediction
from graphsde.uncertainty.calibration import fit_calibrator
from graphsde.uncertainty.calibration.calibrators import Deviation
from graphsde.uncertainty.conformal.intervals import INTERVAL_SCORES


def world(seed: int, nodes: int = 1200, told: float = 1.0) -> tuple[RegressionPrediction, Graph]:
    """Values with a spread of their own, and a prediction that is right but for a factor ``told`` on its deviations."""
    rng = np.random.default_rng(seed)
    mean, spread = rng.normal(size=nodes) * 5, rng.uniform(0.5, 3.0, nodes)
    role = rng.permutation(nodes) % 4
    graph = gs.from_arrays(
        rng.normal(size=(nodes, 2)).astype(np.float32), rng.integers(0, nodes, (2, nodes)),
        labels=mean + spread * rng.normal(size=nodes), target="regression",
        train_mask=role == 0, val_mask=role == 1, calibration_mask=role == 2, test_mask=role == 3,
    )  # fmt: skip
    variances = (told * spread[None]) ** 2
    return RegressionPrediction(mean[None], variances, graph.node_ids, "deterministic"), graph


@pytest.mark.parametrize("by", INTERVAL_SCORES)
@pytest.mark.parametrize("told", [0.3, 1.0, 3.0])
def test_intervals_cover_whatever_the_model_says_of_its_spread(by: str, told: float) -> None:
    shares = []
    for seed in range(40):
        prediction, graph = world(seed, told=told)
        low, high = gs.conformalize(prediction, graph, confidence_level=0.9, by=by).predict_interval(prediction)
        assert graph.values is not None and graph.test_mask is not None and (low <= high).all()
        inside = (low <= graph.values) & (graph.values <= high)
        shares.append(inside[graph.test_mask].mean())
    mean, error = np.mean(shares), np.std(shares) / np.sqrt(40)
    assert 0.9 - 4 * error <= mean <= 0.9 + 1 / 301 + 4 * error


def test_the_quantile_is_that_of_normal_deviations() -> None:
    prediction, graph = world(0, nodes=40_000)
    found = gs.conformalize(prediction, graph, confidence_level=0.9)
    assert found.quantile == pytest.approx(stats.norm.isf(0.05), abs=0.03)
    assert gs.conformalize(prediction, graph, by="quantiles").quantile == pytest.approx(0, abs=0.05)


def test_the_guarantee_on_accepted_numbers_holds_in_simulation() -> None:
    broken = 0
    for seed in range(100):
        prediction, graph = world(seed)
        found = abstain(prediction, graph, tolerance=2.5, max_error=0.1, delta=0.1)
        assert graph.values is not None and graph.test_mask is not None
        accepted = found.accepted
        assert 0.1 < found.coverage < 0.95
        # the error rate over all nodes like these is known: the chance that the true spread gives
        truly = 2 * stats.norm.sf(2.5 / np.sqrt(prediction.total))
        broken += truly[accepted].mean() > 0.1
        wrong = np.abs(prediction.mean - graph.values) > 2.5
        figures = found.realised(graph.test_mask, wrong)
        assert figures["wrong"] == int(wrong[accepted & graph.test_mask].sum())
    assert broken <= stats.binom.isf(1e-4, 100, 0.1)


def test_the_chance_of_a_larger_error_by_hand() -> None:
    prediction, _ = world(0, nodes=50)
    np.testing.assert_allclose(prediction.beyond(2.0), 2 * stats.norm.sf(2.0 / np.sqrt(prediction.total)), atol=1e-12)
    two = RegressionPrediction(np.array([[0.0], [4.0]]), np.ones((2, 1)), np.array([1]), "samples")
    expected = 1 - (stats.norm.cdf([4, 0]) - stats.norm.cdf([0, -4])).mean()
    assert two.beyond(2.0)[0] == pytest.approx(expected)


def test_widening_multiplies_every_deviation_and_leaves_the_mean() -> None:
    rng = np.random.default_rng(0)
    given = RegressionPrediction(
        rng.normal(size=(5, 7)), rng.uniform(0.5, 2, (5, 7)), np.arange(7), "samples", known=rng.uniform(0, 1, (5, 7))
    )
    wide = given.widened(3.0)
    np.testing.assert_allclose(wide.mean, given.mean)
    for part in ("total", "aleatoric", "epistemic"):
        np.testing.assert_allclose(getattr(wide, part), 9 * getattr(given, part))
    low, high = given.interval(0.9)
    stretched = wide.interval(0.9)
    np.testing.assert_allclose(stretched[0], given.mean + 3 * (low - given.mean), atol=1e-9)
    np.testing.assert_allclose(stretched[1], given.mean + 3 * (high - given.mean), atol=1e-9)


@pytest.mark.parametrize("told", [0.4, 1.0, 2.5])
def test_the_factor_is_found(told: float) -> None:
    prediction, graph = world(1, nodes=8000, told=told)
    calibrator = fit_calibrator(prediction, graph, by="deviation")
    assert isinstance(calibrator, Deviation) and calibrator.factor == pytest.approx(1 / told, rel=0.05)
    better = calibrator.apply_to(prediction, graph)
    assert gs.evaluate(better, graph)["coverage90"] == pytest.approx(0.9, abs=0.02)


@pytest.mark.parametrize("model", ["gcn", "lgnsde", "graph-gp", "ensemble"])
def test_every_model_for_numbers_keeps_its_calibrator(model: str, tmp_path: Path) -> None:
    from graphsde.models import MODELS

    graph = gs.load("diabetes")
    settings = {"epochs": 4} if model != "ensemble" else {"members": 2, "base_settings": {"epochs": 4}}
    fitted = MODELS.get(model)(**settings).fit(graph)
    bare = fitted.predict(graph, samples=4)
    fitted.calibrate(graph, by="deviation", samples=4)
    calibrated = fitted.predict(graph, samples=4)
    assert isinstance(fitted.calibrator, Deviation)
    np.testing.assert_allclose(calibrated.mean, bare.mean)
    np.testing.assert_allclose(calibrated.total, fitted.calibrator.factor**2 * bare.total)
    fitted.save(tmp_path)
    again = load_model(tmp_path).predict(graph, samples=4)
    assert np.array_equal(again.total, calibrated.total)
    assert np.array_equal(fitted.calibrate(graph, by=None).predict(graph, samples=4).total, bare.total)


def test_what_is_refused() -> None:
    prediction, graph = world(0)
    with pytest.raises(BadUsage, match="E-TARGET"):
        gs.abstain(prediction, graph)
    with pytest.raises(BadUsage, match="E-TARGET"):
        gs.abstain(prediction, graph, tolerance=1.0, by="entropy")
    for wrong in (-1.0, float("nan"), float("inf")):
        for by in (None, np.ones(graph.num_nodes)):
            with pytest.raises(BadUsage, match="a tolerance must be positive"):
                gs.abstain(prediction, graph, tolerance=wrong, by=by)
    with pytest.raises(BadUsage, match=r"does not apply to regression.*one of deviation"):
        fit_calibrator(prediction, graph, by="temperature")
    with pytest.raises(BadUsage, match="unknown interval score"):
        gs.conformalize(prediction, graph, by="aps")
    with pytest.raises(BadUsage, match="options of class scores"):
        gs.conformalize(prediction, graph, share=0.3)
    with pytest.raises(BadInput, match="E-NO-LABELS"):
        bare = graph.without_target()
        gs.conformalize(prediction, bare, calibration=graph.calibration_mask)
    digits = gs.load("digits")
    classes = gs.LabelPropagation().fit(digits)
    with pytest.raises(BadUsage, match="does not apply to classification"):
        classes.calibrate(digits, by="deviation")
    with pytest.raises(BadUsage, match="tolerance is for regression"):
        gs.abstain(classes.predict(digits), digits, tolerance=1.0)
