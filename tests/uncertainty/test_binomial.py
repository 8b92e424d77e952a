"""Exact binomial arithmetic against scipy and against brute force."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from graphsde.uncertainty.binomial import (
    binomial_p_value,
    clopper_pearson_interval,
    clopper_pearson_upper,
    most_errors,
    nodes_for_power,
    power_of_test,
)


def test_the_interval_is_scipys() -> None:
    for events, trials in ((0, 12), (3, 40), (40, 40), (17, 1000)):
        exact = stats.binomtest(events, trials).proportion_ci(0.95, method="exact")
        assert clopper_pearson_interval(events, trials) == pytest.approx((exact.low, exact.high), abs=1e-12)


def test_the_test_passes_exactly_where_the_bound_is_within_the_limit() -> None:
    nodes = np.arange(1, 200)
    for limit in (0.01, 0.1, 0.3):
        for errors in (0, 1, 5):
            k = np.minimum(errors, nodes)
            passes = binomial_p_value(k, nodes, limit) <= 0.05
            assert np.array_equal(passes, clopper_pearson_upper(k, nodes, 0.05) <= limit)
    assert binomial_p_value(0, 0, 0.1) == 1.0


def test_the_most_errors_are_the_most() -> None:
    nodes = np.arange(0, 400)
    for limit, delta in ((0.05, 0.05), (0.3, 0.01)):
        most = most_errors(nodes, limit, delta)
        counts = np.arange(400)[:, None]
        passing = (stats.binom.cdf(counts, nodes[1:], limit) <= delta) & (counts <= nodes[1:])  # [k, n]
        assert most.tolist() == [-1, *(passing.sum(axis=0) - 1)]


def test_power_is_the_chance_of_so_few_errors() -> None:
    assert power_of_test(124, 0.02, 0.05, 0.05) == pytest.approx(stats.binom.cdf(2, 124, 0.02))
    assert power_of_test(58, 0.0, 0.05, 0.05) == 0.0


@pytest.mark.parametrize(("limit", "share", "power"), [(0.1, 0.25, 0.8), (0.05, 0.5, 0.95), (0.05, 0.75, 0.5)])
def test_from_the_nodes_for_a_power_on_it_never_falls_below(limit: float, share: float, power: float) -> None:
    found = nodes_for_power(limit, limit * share, 0.05, power)
    assert found is not None
    reached = power_of_test(np.arange(1, 6 * found), limit * share, limit, 0.05) >= power
    assert reached[found - 1 :].all() and not reached[found - 2]


def test_no_number_of_nodes_shows_what_is_not_so() -> None:
    assert nodes_for_power(0.05, 0.05, 0.05, 0.5) is None
    assert nodes_for_power(0.05, 0.0499, 0.05, 0.5) is None  # millions
