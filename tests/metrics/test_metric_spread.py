"""Miscalibration area, ENCE and Spearman's correlation against closed forms and other libraries."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import graphsde as gs
from graphsde.base.errors import BadInput
from graphsde.metrics import METRICS, spread
from graphsde.prediction import RegressionPrediction


def gaussians(deviations: np.ndarray) -> RegressionPrediction:
    nodes = len(deviations)
    return RegressionPrediction(np.zeros((1, nodes)), deviations[None] ** 2, np.arange(nodes), "deterministic")


def test_area_of_values_at_even_levels() -> None:
    nodes = 50
    levels = (np.arange(nodes) + 0.5) / nodes
    values = stats.norm.ppf((1 + levels) / 2)
    # steps of height and width 1/n around the diagonal: two triangles of side 1/(2n) each
    assert spread.miscalibration_area(gaussians(np.ones(nodes)), values) == pytest.approx(1 / (4 * nodes), abs=1e-12)


@pytest.mark.parametrize("level", [0.0, 0.3, 0.5, 1.0])
def test_area_of_values_at_one_level(level: float) -> None:
    """The curve is 0 below the level and 1 above it: ``(p² + (1 − p)²) / 2``."""
    values = np.full(7, stats.norm.ppf((1 + level) / 2))
    values[:3] *= -1  # on either side of the mean
    found = spread.miscalibration_area(gaussians(np.ones(7)), np.clip(values, -40, 40))
    assert found == pytest.approx((level**2 + (1 - level) ** 2) / 2, abs=1e-12)


def test_area_of_deviations_that_are_too_small_against_quadrature() -> None:
    rng = np.random.default_rng(0)
    values = rng.normal(size=400)
    prediction = gaussians(np.full(400, 0.4))
    grid = (np.arange(200_000) + 0.5) / 200_000
    inside = np.searchsorted(np.sort(spread.central_levels(prediction, values)), grid, side="right") / 400
    found = spread.miscalibration_area(prediction, values)
    assert found == pytest.approx(np.abs(inside - grid).mean(), abs=1e-5)
    assert found > 0.2 > spread.miscalibration_area(gaussians(np.ones(400)), values)


def test_ence_of_errors_that_are_a_multiple_of_the_deviation() -> None:
    """Errors of exactly k deviations: every bin is off by ``|1 − k|``."""
    deviations = np.linspace(1.0, 3.0, 100)
    signs = np.where(np.arange(100) % 2, 1.0, -1.0)
    for k in (0.5, 1.0, 2.5):
        assert spread.ence(gaussians(deviations), k * signs * deviations) == pytest.approx(abs(1 - k), abs=1e-12)


def test_ence_by_hand_in_two_bins() -> None:
    deviations, errors = np.array([1.0, 1.0, 2.0, 2.0]), np.array([1.0, 3.0, 2.0, 0.0])
    expected = (abs(1 - np.sqrt(5)) / 1 + abs(2 - np.sqrt(2)) / 2) / 2
    assert spread.ence(gaussians(deviations), errors, bins=2) == pytest.approx(expected, abs=1e-12)
    # the order of nodes with equal deviations is of no consequence
    same = gaussians(np.ones(6))
    values = np.array([0.0, 1.0, 2.0, 3.0, 4.0, 5.0])
    assert spread.ence(same, values, bins=3) == pytest.approx(spread.ence(same, values[::-1].copy(), bins=3), abs=1e-12)


def test_spearman_against_scipy() -> None:
    rng = np.random.default_rng(3)
    deviations = np.round(rng.uniform(0.5, 3.0, size=60), 1)
    values = deviations * rng.normal(size=60)
    found = spread.spread_spearman(gaussians(deviations), values)
    assert found == pytest.approx(stats.spearmanr(np.abs(values), deviations).statistic, abs=1e-12)
    assert spread.spread_spearman(gaussians(deviations), deviations) == pytest.approx(1.0)
    assert np.isnan(spread.spread_spearman(gaussians(np.ones(4)), values[:4]))
    assert spread.spread_spearman(gaussians(np.array([1.0, 2.0])), np.array([0.5, -3.0])) == pytest.approx(1.0)


def test_they_are_registered_and_evaluated() -> None:
    graph = gs.load("diabetes")
    prediction = gs.GCN(epochs=5).fit(graph).predict(graph)
    figures = gs.evaluate(prediction, graph)
    assert set(spread.SPREAD_METRICS) <= set(figures) and list(figures)[-1] == "n_test"
    assert METRICS.names()[-3:] == list(spread.SPREAD_METRICS)
    judged = prediction.subset(graph.role("test") & graph.labelled)
    assert graph.values is not None
    truth = graph.values[graph.role("test") & graph.labelled]
    assert figures["ence"] == METRICS.get("ence")(judged, truth)
    assert set(spread.SPREAD_METRICS) <= set(gs.intervals(prediction, graph))


def test_values_must_fit() -> None:
    with pytest.raises(BadInput):
        spread.ence(gaussians(np.ones(3)), np.zeros(2))
    with pytest.raises(BadInput):
        spread.spread_spearman(gaussians(np.ones(2)), np.array([0.0, np.nan]))
