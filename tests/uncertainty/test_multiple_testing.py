"""Conformal p-values, Benjamini–Hochberg, fixed-sequence testing: closed forms and simulations."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from graphsde.uncertainty.binomial import clopper_pearson_interval
from graphsde.uncertainty.multiple_testing import (
    benjamini_hochberg,
    conformal_p_values,
    fixed_sequence,
    rank_p_values,
    smallest_rejectable,
)

DRAWS = 1000


def test_conformal_p_values_are_uniform_on_their_grid() -> None:
    """Of n + 1 exchangeable values, each place in the order is as likely as the others."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(20_000, 10))
    p = np.array([conformal_p_values(row[:1], row[1:])[0] for row in values])
    counts = np.bincount(np.rint(10 * p).astype(int), minlength=11)[1:]
    assert stats.chisquare(counts).pvalue > 1e-4
    tied = np.rint(values)  # ties make them larger, never smaller
    q = np.array([conformal_p_values(row[:1], row[1:])[0] for row in tied])
    for level in (0.1, 0.3, 0.5):
        assert clopper_pearson_interval(int((q <= level + 1e-9).sum()), len(q), 0.001)[0] <= level


def test_a_calibration_node_is_compared_with_the_others() -> None:
    values = np.random.default_rng(1).normal(size=40)
    found = rank_p_values(values)
    for node in range(40):
        assert found[node] == conformal_p_values(values[[node]], np.delete(values, node))[0]


def test_benjamini_hochberg_is_scipys() -> None:
    rng = np.random.default_rng(2)
    for _ in range(50):
        p = rng.random(30) ** rng.integers(1, 6)
        assert np.array_equal(benjamini_hochberg(p, 0.1), stats.false_discovery_control(p) <= 0.1)
    assert benjamini_hochberg(np.array([]), 0.1).tolist() == []


def flag_rates(level: float, strange: int, seed: int) -> tuple[int, float]:
    """Draws in which anything is flagged, and the mean share of false flags."""
    rng = np.random.default_rng(seed)
    any_flagged, false = 0, []
    for _ in range(DRAWS):
        calibration, nodes = rng.normal(size=999), rng.normal(size=20)
        nodes[:strange] += 4.0
        flagged = benjamini_hochberg(conformal_p_values(nodes, calibration), level)
        any_flagged += bool(flagged.any())
        false.append(flagged[strange:].sum() / max(1, flagged.sum()))
    return any_flagged, float(np.mean(false))


def test_without_strange_nodes_nothing_is_flagged_in_nine_of_ten_draws() -> None:
    flagged, _ = flag_rates(0.1, strange=0, seed=3)
    low, high = clopper_pearson_interval(flagged, DRAWS, 0.001)
    assert low <= 0.1 and high > 0.03, (low, high)
    careless, _ = flag_rates(0.3, strange=0, seed=3)  # a weaker bound would be found out
    assert clopper_pearson_interval(careless, DRAWS, 0.001)[0] > 0.1


def test_the_false_discovery_rate_is_kept_with_strange_nodes() -> None:
    flagged, false = flag_rates(0.1, strange=6, seed=4)
    assert flagged > 0.99 * DRAWS and 0.04 < false <= 0.1 * 0.7 + 0.01  # level × share of in-distribution nodes


def test_the_smallest_group_is_the_smallest() -> None:
    calibration = np.zeros(499)
    for strange, expected in ((19, 0), (20, 20)):
        values = np.concatenate([np.ones(strange), -np.ones(1000 - strange)])
        assert benjamini_hochberg(conformal_p_values(values, calibration), 0.1).sum() == expected
    assert smallest_rejectable(1000, 499, 0.1) == 20


def test_a_sequence_ends_at_its_first_failure() -> None:
    assert fixed_sequence([0.05, 0.05, 0.06, 0.0], 0.05).tolist() == [True, True, False, False]
    rng = np.random.default_rng(5)
    p = rng.random((4000, 6))  # all hypotheses are true: any rejection is false
    wrong = sum(bool(fixed_sequence(row, 0.05).any()) for row in p)
    assert wrong / 4000 == pytest.approx(0.05, abs=0.015)
