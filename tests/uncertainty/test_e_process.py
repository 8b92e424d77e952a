"""The e-process: its integral, its expectation, and labels that are looked at again and again."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats

from graphsde.uncertainty.binomial import binomial_p_value, clopper_pearson_interval, clopper_pearson_upper
from graphsde.uncertainty.e_process import anytime_p_value, anytime_upper, log_e_process


@pytest.mark.parametrize(("errors", "nodes", "limit"), [(0, 1, 0.1), (2, 60, 0.05), (30, 100, 0.3), (0, 500, 0.01)])
def test_it_is_the_mixture_of_likelihood_ratios(errors: int, nodes: int, limit: float) -> None:
    def ratio(q: float) -> float:
        return float((q / limit) ** errors * ((1 - q) / (1 - limit)) ** (nodes - errors) / limit)

    expected = integrate.quad(ratio, 0, limit, epsabs=0, epsrel=1e-10)[0]
    assert float(log_e_process(errors, nodes, limit)) == pytest.approx(np.log(expected), abs=1e-8)


def test_its_expectation_is_one_at_the_limit_and_below_one_beyond() -> None:
    for nodes in (1, 10, 80):
        k = np.arange(nodes + 1)
        evidence = np.exp(log_e_process(k, nodes, 0.2))
        assert float(stats.binom.pmf(k, nodes, 0.2) @ evidence) == pytest.approx(1.0, abs=1e-9)
        assert float(stats.binom.pmf(k, nodes, 0.25) @ evidence) < 1.0
        assert float(stats.binom.pmf(k, nodes, 0.1) @ evidence) > 1.0


def test_one_more_label_leaves_the_expectation_as_it_is() -> None:
    """A martingale: at the limit, the mean over the next label is what there is."""
    for errors, nodes in ((0, 0), (3, 50), (40, 60)):
        after = 0.1 * np.exp(log_e_process(errors + 1, nodes + 1, 0.1))
        after = after + 0.9 * np.exp(log_e_process(errors, nodes + 1, 0.1))
        assert after == pytest.approx(np.exp(log_e_process(errors, nodes, 0.1)), rel=1e-9)


def test_the_bound_is_where_the_evidence_is_enough() -> None:
    errors, nodes = np.array([0, 3, 20, 5]), np.array([90, 100, 100, 5])
    bound = anytime_upper(errors, nodes, 0.05)
    assert anytime_p_value(errors[:3], nodes[:3], bound[:3]) == pytest.approx(0.05, rel=1e-6)
    assert bound[3] == 1.0 and anytime_upper(0, 0, 0.05) == 1.0
    assert np.all(bound >= clopper_pearson_upper(errors, nodes, 0.05))
    grid = np.linspace(0.04, 0.999, 400)
    assert np.all(np.diff(anytime_p_value(3, 100, grid)) <= 1e-12)  # one crossing only


def test_a_look_after_every_fifty_labels_keeps_delta() -> None:
    """1,000 runs of 1,000 labels each, with an error rate that is just not below the limit."""
    rng = np.random.default_rng(0)
    errors = np.cumsum(rng.random((1000, 1000)) < 0.1, axis=1)[:, 49::50]
    nodes = np.arange(50, 1001, 50)
    broken = int((anytime_p_value(errors, nodes, 0.1) <= 0.05).any(axis=1).sum())
    low, high = clopper_pearson_interval(broken, 1000, 0.001)
    assert low <= 0.05 and high > 0.01, (low, high)
    peeked = int((binomial_p_value(errors, nodes, 0.1) <= 0.05).any(axis=1).sum())
    assert clopper_pearson_interval(peeked, 1000, 0.001)[0] > 0.05  # what an ordinary test would come to


def test_the_evidence_grows_where_the_limit_holds() -> None:
    rng = np.random.default_rng(1)
    errors = np.cumsum(rng.random((500, 1000)) < 0.05, axis=1)[:, 49::50]
    certified = (anytime_p_value(errors, np.arange(50, 1001, 50), 0.1) <= 0.05).any(axis=1)
    assert certified.mean() > 0.95
