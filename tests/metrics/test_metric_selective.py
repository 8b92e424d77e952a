"""Misclassification and selective metrics: every order of ties enumerated, closed forms, scikit-learn."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as sk

from graphsde import metrics
from graphsde.base.errors import BadInput

SMALL = st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=1, max_size=6)
LARGE = st.lists(st.tuples(st.integers(0, 6), st.booleans()), min_size=1, max_size=60)


def split(pairs: list[tuple[int, bool]]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([u for u, _ in pairs], dtype=float), np.array([e for _, e in pairs])


def orders(uncertainty: np.ndarray) -> list[tuple[int, ...]]:
    """Every ascending order of the nodes."""
    everything = itertools.permutations(range(len(uncertainty)))
    return [order for order in everything if np.all(np.diff(uncertainty[list(order)]) >= 0)]


def aurc_of(e: np.ndarray) -> float:
    return float(np.mean([e[:k].mean() for k in range(1, len(e) + 1)]))


def augrc_of(e: np.ndarray) -> float:
    return float(np.mean([e[:k].sum() / len(e) for k in range(1, len(e) + 1)]))


def rejection_area_of(e: np.ndarray) -> float:
    n = len(e)
    remaining = [e[: n - rejected].sum() / n for rejected in range(n + 1)]
    return float(np.trapezoid(remaining, dx=1 / n))


def prr_of(e: np.ndarray) -> float:
    random, oracle = e.mean() / 2, rejection_area_of(np.sort(e))
    return (random - rejection_area_of(e)) / (random - oracle)


@settings(max_examples=60, deadline=None)
@given(SMALL)
def test_ties_give_the_expected_value_over_all_their_orders(pairs: list[tuple[int, bool]]) -> None:
    u, e = split(pairs)
    ordered = [e[list(order)].astype(float) for order in orders(u)]
    assert metrics.aurc(u, e) == pytest.approx(np.mean([aurc_of(o) for o in ordered]), abs=1e-12)
    assert metrics.augrc(u, e) == pytest.approx(np.mean([augrc_of(o) for o in ordered]), abs=1e-12)
    optimum = aurc_of(np.sort(e).astype(float))
    assert metrics.optimal_aurc(len(e), int(e.sum())) == pytest.approx(optimum, abs=1e-12)
    assert metrics.e_aurc(u, e) == pytest.approx(metrics.aurc(u, e) - optimum, abs=1e-12)
    if 0 < e.sum() < len(e):
        assert metrics.prr(u, e) == pytest.approx(np.mean([prr_of(o) for o in ordered]), abs=1e-12)
    curve = metrics.risk_coverage(u, e)
    for k in range(1, len(e) + 1):
        assert curve.coverage[k - 1] == k / len(e)
        assert curve.risk[k - 1] == pytest.approx(np.mean([o[:k].mean() for o in ordered]), abs=1e-12)


@settings(max_examples=60, deadline=None)
@given(LARGE)
def test_areas_against_scikit_learn_and_the_double_loop(pairs: list[tuple[int, bool]]) -> None:
    u, e = split(pairs)
    figures = (metrics.misclassification_auroc(u, e), metrics.aupr_error(u, e), metrics.aupr_success(u, e))
    if e.all() or not e.any():
        assert np.isnan(figures).all()
        return
    wins = np.mean([(a > b) + 0.5 * (a == b) for a in u[e] for b in u[~e]])
    assert figures[0] == pytest.approx(wins, abs=1e-12)
    assert figures[0] == pytest.approx(sk.roc_auc_score(e, u), abs=1e-12)
    assert figures[1] == pytest.approx(sk.average_precision_score(e, u), abs=1e-12)
    assert figures[2] == pytest.approx(sk.average_precision_score(~e, -u), abs=1e-12)


@settings(max_examples=40, deadline=None)
@given(LARGE, st.integers(0, 1000))
def test_figures_depend_on_the_order_of_values_only(pairs: list[tuple[int, bool]], seed: int) -> None:
    u, e = split(pairs)
    order = np.random.default_rng(seed).permutation(len(u))
    for name in ("misclassification_auroc", "aupr_error", "aupr_success", "aurc", "e_aurc", "augrc", "prr"):
        metric = metrics.METRICS.get(name)
        expected = metric(u, e)
        assert metric(np.exp(u)[order], e[order]) == pytest.approx(expected, abs=1e-12, nan_ok=True)
        low, high = metrics.METRICS.entry(name).facts["range"]
        assert np.isnan(expected) or low - 1e-12 <= expected <= high + 1e-12
    assert metrics.e_aurc(u, e) >= 0


def test_perfect_constant_and_reversed_scores() -> None:
    e = np.arange(20) >= 14
    perfect, constant = np.arange(20.0), np.zeros(20)
    assert metrics.misclassification_auroc(perfect, e) == 1.0
    assert metrics.aupr_error(perfect, e) == metrics.aupr_success(perfect, e) == 1.0
    assert metrics.e_aurc(perfect, e) == pytest.approx(0.0, abs=1e-15)
    assert metrics.prr(perfect, e) == pytest.approx(1.0, abs=1e-12)
    assert metrics.prr(-perfect, e) == pytest.approx(-1.0, abs=1e-12)
    assert metrics.misclassification_auroc(constant, e) == 0.5
    assert metrics.aupr_error(constant, e) == pytest.approx(0.3) and metrics.aupr_success(constant, e) == pytest.approx(
        0.7
    )
    assert metrics.aurc(constant, e) == pytest.approx(0.3, abs=1e-12)
    assert metrics.augrc(constant, e) == pytest.approx(0.3 * 21 / 40, abs=1e-12)
    assert metrics.prr(constant, e) == pytest.approx(0.0, abs=1e-12)


def test_optimal_aurc_tends_to_its_continuous_form() -> None:
    r = 0.2
    assert metrics.optimal_aurc(100_000, 20_000) == pytest.approx(r + (1 - r) * np.log(1 - r), abs=1e-5)
    assert metrics.optimal_aurc(10, 0) == 0.0


def test_a_random_order_gets_the_chance_level() -> None:
    rng = np.random.default_rng(0)
    e = rng.random(400) < 0.25
    runs = [[f(rng.random(400), e) for f in (metrics.aurc, metrics.prr, metrics.augrc)] for _ in range(200)]
    aurc, prr, augrc = np.mean(runs, axis=0)
    assert aurc == pytest.approx(e.mean(), abs=0.01)
    assert prr == pytest.approx(0.0, abs=0.02)
    assert augrc == pytest.approx(e.mean() / 2, abs=0.005)


def test_undefined_figures_are_nan_without_a_word() -> None:
    u = np.array([0.1, np.inf, -np.inf])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for e in (np.zeros(3, dtype=bool), np.ones(3, dtype=bool)):
            for metric in (metrics.misclassification_auroc, metrics.aupr_error, metrics.aupr_success, metrics.prr):
                assert np.isnan(metric(u, e))
            assert metrics.aurc(u, e) == e.mean() and metrics.e_aurc(u, e) == 0.0


def test_accuracy_rejection_reads_off_at_thresholds() -> None:
    u, e = np.array([0.05, 0.3, 0.3, 1.0, 2.5]), np.array([False, True, False, False, True])
    curve = metrics.accuracy_rejection(u, e, metrics.PAPER_THRESHOLDS)
    for t, coverage, accuracy in zip(curve.threshold, curve.coverage, curve.accuracy, strict=True):
        assert coverage == (u <= t).mean()
        assert accuracy == pytest.approx((~e[u <= t]).mean(), abs=1e-15)
    assert metrics.PAPER_THRESHOLDS[:3] == (float("inf"), 2.0, 1.6) and metrics.PAPER_THRESHOLDS[-1] == 0.1
    whole = metrics.accuracy_rejection(u, e)
    assert whole.threshold.tolist() == [0.05, 0.3, 1.0, 2.5] and whole.coverage[-1] == 1.0
    assert np.isnan(metrics.accuracy_rejection(u, e, [0.0]).accuracy).all()


def test_bad_arguments_are_refused() -> None:
    for metric in (metrics.aurc, metrics.prr, metrics.misclassification_auroc, metrics.aupr_error):
        with pytest.raises(BadInput, match="empty"):
            metric(np.array([]), np.array([], dtype=bool))
        with pytest.raises(BadInput, match="not a number"):
            metric(np.array([np.nan, 1.0]), np.array([True, False]))
        with pytest.raises(BadInput, match="entries"):
            metric(np.zeros(3), np.array([True, False]))
        with pytest.raises(BadInput, match="0 and 1"):
            metric(np.zeros(2), np.array([0.5, 0.0]))
