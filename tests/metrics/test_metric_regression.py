"""Metrics of numbers against closed forms, quadrature and other libraries."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats
from sklearn.metrics import mean_absolute_error, r2_score, root_mean_squared_error

from graphsde.base.errors import BadInput, BadUsage, Diverged
from graphsde.metrics import regression as numeric
from graphsde.prediction import Prediction, RegressionPrediction
from graphsde.uncertainty.scores import score


def mixture(samples: int, nodes: int, seed: int = 0, known: bool = False) -> RegressionPrediction:
    rng = np.random.default_rng(seed)
    return RegressionPrediction(
        rng.normal(size=(samples, nodes)) * 2,
        rng.uniform(0.2, 3.0, size=(samples, nodes)),
        np.arange(nodes),
        "samples",
        rng.uniform(0.0, 2.0, size=(samples, nodes)) if known else None,
    )


def gaussian(mean: float, deviation: float) -> RegressionPrediction:
    return RegressionPrediction(np.array([[mean]]), np.array([[deviation**2]]), np.array([0]), "deterministic")


def test_points_against_scikit_learn() -> None:
    rng = np.random.default_rng(1)
    said, true = rng.normal(size=50), rng.normal(size=50)
    assert numeric.rmse(said, true) == pytest.approx(root_mean_squared_error(true, said), abs=1e-12)
    assert numeric.mae(said, true) == pytest.approx(mean_absolute_error(true, said), abs=1e-12)
    assert numeric.r2(said, true) == pytest.approx(r2_score(true, said), abs=1e-12)
    assert np.isnan(numeric.r2(said, np.ones(50)))


def test_variance_of_a_mixture_is_the_sum_of_its_parts() -> None:
    prediction = mixture(7, 5, known=True)
    means, deviations = prediction.components
    by_moments = (deviations**2 + means**2).mean(0) - means.mean(0) ** 2
    np.testing.assert_allclose(prediction.total, by_moments, rtol=1e-12)
    np.testing.assert_allclose(prediction.total, prediction.aleatoric + prediction.epistemic, rtol=1e-12)
    assert prediction.known is not None
    np.testing.assert_allclose(prediction.epistemic, means.var(0) + prediction.known.mean(0), rtol=1e-12)
    draws = means[:, :, None] + deviations[:, :, None] * np.random.default_rng(0).standard_normal((7, 5, 40_000))
    np.testing.assert_allclose(draws.transpose(1, 0, 2).reshape(5, -1).var(1), prediction.total, rtol=0.02)


def test_a_deterministic_prediction_has_no_notion_of_epistemic() -> None:
    one = gaussian(3.0, 2.0)
    assert np.isnan(one.epistemic).all() and one.total.tolist() == one.aleatoric.tolist() == [4.0]


@pytest.mark.parametrize(("mean", "deviation", "value"), [(0, 1, 0), (1, 2, -3), (-2, 0.3, -1.9), (5, 4, 30)])
def test_gaussian_crps_is_the_closed_form_of_gneiting_and_raftery(mean: float, deviation: float, value: float) -> None:
    z = (value - mean) / deviation
    closed = deviation * (z * (2 * stats.norm.cdf(z) - 1) + 2 * stats.norm.pdf(z) - 1 / np.sqrt(np.pi))
    assert numeric.crps(gaussian(mean, deviation), np.array([float(value)])) == pytest.approx(closed, rel=1e-12)


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 6), st.integers(0, 10_000), st.floats(-6, 6))
def test_crps_of_a_mixture_against_quadrature(samples: int, seed: int, value: float) -> None:
    prediction = mixture(samples, 1, seed, known=bool(seed % 2))

    def below(x: float) -> float:
        return float(prediction.cdf(np.array([x]))[0]) ** 2

    def above(x: float) -> float:
        return (1 - float(prediction.cdf(np.array([x]))[0])) ** 2

    expected = integrate.quad(below, -40, value, limit=200)[0] + integrate.quad(above, value, 40, limit=200)[0]
    assert numeric.crps(prediction, np.array([value])) == pytest.approx(expected, abs=1e-6)


def test_crps_in_blocks_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    prediction, values = mixture(9, 4), np.linspace(-2, 2, 4)
    whole = numeric.crps(prediction, values)
    monkeypatch.setattr(numeric, "_PAIRS_AT_ONCE", 40)
    assert numeric.crps(prediction, values) == pytest.approx(whole, rel=1e-12)


def test_density_nll_against_scipy() -> None:
    prediction, values = mixture(5, 6, known=True), np.linspace(-3, 3, 6)
    means, deviations = prediction.components
    expected = -np.log(stats.norm.pdf(values, means, deviations).mean(0)).mean()
    assert numeric.density_nll(prediction, values) == pytest.approx(expected, rel=1e-12)
    far = numeric.density_nll(gaussian(0.0, 1.0), np.array([1e4]))
    assert far == pytest.approx(0.5e8 + 0.5 * np.log(2 * np.pi))  # no underflow


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 8), st.integers(0, 10_000), st.floats(0.001, 0.999))
def test_a_quantile_is_where_the_distribution_reaches_its_level(samples: int, seed: int, level: float) -> None:
    prediction = mixture(samples, 4, seed)
    np.testing.assert_allclose(prediction.cdf(prediction.quantile(level)), level, atol=1e-9)
    low, high = prediction.interval(0.9)
    assert (low < high).all()


def test_calibration_of_an_honest_and_of_a_boastful_model() -> None:
    rng = np.random.default_rng(0)
    means, deviations = rng.normal(size=20_000), rng.uniform(0.5, 2.0, 20_000)
    truth = means + deviations * rng.standard_normal(20_000)
    ids = np.arange(20_000)
    honest = RegressionPrediction(means[None], deviations[None] ** 2, ids, "deterministic")
    boastful = RegressionPrediction(means[None], deviations[None] ** 2 / 9, ids, "deterministic")
    assert numeric.calibration_error(honest, truth) < 0.01
    assert numeric.coverage90(honest, truth) == pytest.approx(0.9, abs=0.01)
    assert numeric.coverage90(boastful, truth) == pytest.approx(2 * stats.norm.cdf(1.6449 / 3) - 1, abs=0.01)
    levels = numeric.LEVELS
    gap = np.abs(stats.norm.cdf(stats.norm.ppf(levels) / 3) - levels).mean()
    assert numeric.calibration_error(boastful, truth) == pytest.approx(gap, abs=0.01)
    assert numeric.interval_width90(honest) == pytest.approx(2 * 1.6449 * deviations.mean(), rel=1e-3)
    for metric in (numeric.density_nll, numeric.crps):
        assert metric(honest, truth) < metric(boastful, truth)


def test_the_summary_judges_known_nodes_of_the_mask_alone() -> None:
    prediction = mixture(3, 6)
    values = np.array([0.0, np.nan, 1.0, 2.0, 3.0, 4.0])
    mask = np.array([True, True, True, False, False, True])
    figures = numeric.summarise_regression(prediction, values, mask)
    assert list(figures) == [*numeric.REGRESSION_METRICS, "n_test"] and figures["n_test"] == 3
    chosen = np.array([0, 2, 5])
    assert figures["rmse"] == numeric.rmse(prediction.mean[chosen], values[chosen])
    with pytest.raises(BadInput, match="E-EMPTY"):
        numeric.summarise_regression(prediction, values, values != values)


def test_what_goes_by_classes_refuses_numbers_in_words() -> None:
    prediction = mixture(2, 3)
    for word in ("probs", "logits", "class_names", "label", "confidence", "num_classes", "alpha"):
        assert not hasattr(prediction, word)
        with pytest.raises(BadUsage, match=r"E-TARGET.*predicts numbers"):
            getattr(prediction, word)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        prediction.nothing  # noqa: B018
    assert hasattr(Prediction, "untempered")
    for name in ("entropy", "mutual-information"):
        with pytest.raises(BadUsage, match=r"E-TARGET.*needs classes"):
            score(name, prediction)  # type: ignore[arg-type]


def test_impossible_predictions_are_refused() -> None:
    good, ids = np.ones((2, 3)), np.arange(3)
    with pytest.raises(BadInput, match="E-LEN"):
        RegressionPrediction(good, np.ones((1, 3)), ids, "samples")
    with pytest.raises(BadInput, match="not positive"):
        RegressionPrediction(good, good - 1, ids, "samples")
    with pytest.raises(Diverged, match="not finite"):
        RegressionPrediction(good * np.nan, good, ids, "samples")
    with pytest.raises(BadUsage, match="quantile"):
        RegressionPrediction(good, good, ids, "samples").quantile(1.0)
    part = mixture(4, 6, known=True).subset(np.array([5, 1]))
    assert part.ids.tolist() == [5, 1] and part.num_items == 2 and part.known is not None
