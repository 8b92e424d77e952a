"""Detection metrics against threshold scans and scikit-learn."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as sk

from graphsde import metrics
from graphsde.base.errors import BadInput

VALUES = st.lists(st.integers(0, 6), min_size=1, max_size=45).map(lambda xs: np.array(xs, dtype=float))
ALL = (
    metrics.ood_auroc,
    metrics.aupr_in,
    metrics.aupr_out,
    metrics.fpr95,
    metrics.detection_accuracy,
    metrics.detection_accuracy_grid,
)


@settings(max_examples=80, deadline=None)
@given(VALUES, VALUES)
def test_areas_against_scikit_learn(inside: np.ndarray, outside: np.ndarray) -> None:
    u = np.concatenate([inside, outside])
    is_out = np.arange(len(u)) >= len(inside)
    assert metrics.ood_auroc(inside, outside) == pytest.approx(sk.roc_auc_score(is_out, u), abs=1e-12)
    assert metrics.ood_auroc(inside, outside) == pytest.approx(metrics.ood_auroc(-outside, -inside), abs=1e-12)
    assert metrics.aupr_out(inside, outside) == pytest.approx(sk.average_precision_score(is_out, u), abs=1e-12)
    assert metrics.aupr_in(inside, outside) == pytest.approx(sk.average_precision_score(~is_out, -u), abs=1e-12)


@settings(max_examples=80, deadline=None)
@given(VALUES, VALUES)
def test_threshold_figures_against_a_scan_over_confidence(inside: np.ndarray, outside: np.ndarray) -> None:
    s_in, s_out = -inside, -outside
    candidates = np.concatenate([s_in, s_out, [-np.inf, np.inf]])
    loosest = max(d for d in candidates if 100 * np.sum(s_in >= d) >= 95 * len(s_in))
    assert metrics.fpr95(inside, outside) == pytest.approx(np.mean(s_out >= loosest), abs=1e-12)

    def right(deltas: np.ndarray) -> float:
        return 1 - min(0.5 * (np.mean(s_in < d) + np.mean(s_out >= d)) for d in deltas)

    exact = metrics.detection_accuracy(inside, outside)
    assert exact == pytest.approx(right(candidates), abs=1e-12)
    both = np.concatenate([inside, outside])
    grid = metrics.detection_accuracy_grid(inside, outside)
    # the same thresholds in the same arithmetic: a grid point may fall on a value
    assert grid == pytest.approx(max(0.5, right(-np.linspace(both.min(), both.max(), 10))), abs=1e-12)
    assert 0.5 <= grid <= exact <= 1.0


def test_perfect_and_constant_scores() -> None:
    low, high = np.linspace(0, 1, 30), np.linspace(2, 3, 10)
    assert [metric(low, high) for metric in ALL] == [1.0, 1.0, 1.0, 0.0, 1.0, 1.0]
    flat = [metric(np.zeros(30), np.zeros(10)) for metric in ALL]
    assert flat == [0.5, 0.75, 0.25, 1.0, 0.5, 0.5]
    assert metrics.fpr95(high, low) == 1.0 and metrics.ood_auroc(high, low) == 0.0


def test_fpr95_accepts_exactly_enough_familiar_nodes() -> None:
    for n in range(1, 201):
        inside = np.arange(n, dtype=float)
        needed = next(k for k in range(n + 1) if 100 * k >= 95 * n)
        outside = np.arange(n) + 0.5
        assert metrics.fpr95(inside, outside) == (needed - 1) / n


def test_grid_understates_a_skewed_score() -> None:
    inside, outside = np.array([0.0, 0.01, 0.02]), np.array([0.03, 0.04, 100.0])
    assert metrics.detection_accuracy(inside, outside) == 1.0
    assert metrics.detection_accuracy_grid(inside, outside) == pytest.approx(2 / 3)
    assert metrics.detection_accuracy_grid(inside, outside, points=100_001) == 1.0


def test_grid_has_ten_points_from_lowest_to_highest_and_accepts_at_the_threshold() -> None:
    # thresholds 0, 1, …, 9: only the one at 1 separates
    assert metrics.detection_accuracy_grid(np.array([0.0, 0.95]), np.array([1.05, 9.0])) == 1.0
    assert metrics.detection_accuracy_grid(np.array([0.0, 1.0]), np.array([1.5, 2.0]), points=3) == 1.0


def test_chance_level_of_published_protocols() -> None:
    for n_in, n_out, chance in ((316, 986, 0.2427), (1000, 2708, 0.2697), (3002, 9692, 0.2365), (11002, 13752, 0.4445)):
        figures = metrics.summarise_detection(np.zeros(n_in), np.zeros(n_out))
        assert figures["ood_aupr_in"] == pytest.approx(figures["ood_aupr_in_chance"], abs=1e-12)
        assert figures["ood_aupr_in_chance"] == pytest.approx(chance, abs=5e-5)
        assert figures["ood_aupr_out"] == pytest.approx(figures["ood_aupr_out_chance"], abs=1e-12)


def test_an_empty_group_gives_nan_and_two_empty_groups_an_error() -> None:
    none, some = np.array([]), np.array([0.1, np.inf])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for metric in ALL:
            assert np.isnan(metric(none, some)) and np.isnan(metric(some, none))
            with pytest.raises(BadInput, match="empty"):
                metric(none, none)
            with pytest.raises(BadInput, match="not a number"):
                metric(np.array([np.nan]), some)
        assert np.isnan(metrics.detection_accuracy_grid(some, some))
        assert metrics.detection_accuracy(some, some) == 0.5
