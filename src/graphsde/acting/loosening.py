"""One limit, thresholds from strict to loose: testing continues for as long as it passes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from graphsde.uncertainty.binomial import binomial_p_value, nodes_to_certify
from graphsde.uncertainty.e_process import anytime_p_value
from graphsde.uncertainty.multiple_testing import fixed_sequence

STEPS = 50
FORGIVEN = 10
"""Errors that the first threshold should tolerate: a stricter one would fail by chance."""
HALF = 0.5
"""To tolerate errors the first threshold accepts at most this share: a looser one would fail by its errors."""


@dataclass(frozen=True)
class Loosened:
    """The loosest threshold that passed; where none did, the first one that was tested.

    Args:
        threshold: a node is accepted where its uncertainty is at most this.
        accepted, wrong: calibration nodes that are accepted, and how many of these are wrong.
        p_value: of the test that the error rate is at most the limit.
        passed: whether it did.
    """

    threshold: float
    accepted: int
    wrong: int
    p_value: float
    passed: bool


def thresholds_to_test(others: np.ndarray, nodes: int, limit: float, delta: float) -> np.ndarray:
    """Thresholds from strict to loose, fixed without calibration labels: quantiles of other nodes.

    Args:
        others: uncertainties of nodes whose labels are not used; infinite if a node is never accepted.  # [m]
        nodes: how many calibration nodes there are at first.
        limit, delta: of the test; an anytime-valid one is given a smaller δ.

    Returns:
        Ascending; empty if there is nothing to test.  # [T]
    """
    shares = np.arange(1, STEPS + 1) / STEPS
    thresholds = np.quantile(others, shares, method="inverted_cdf") if len(others) else np.array([])
    keep = np.isfinite(thresholds)
    shares, thresholds = shares[keep], thresholds[keep]
    if not len(thresholds) or not nodes:
        return np.array([])
    return np.unique(thresholds[_first_to_test(shares, nodes, limit, delta) :])


def loosen(
    values: np.ndarray,
    wrong: np.ndarray,
    thresholds: np.ndarray,
    limit: float,
    delta: float,
    *,
    anytime: bool = False,
) -> Loosened | None:
    """Test one limit at thresholds from strict to loose, each at full ``delta``, up to the first failure.

    Fixed-sequence testing (Angelopoulos et al., "Learn then test", 2021): a threshold at which the limit does not hold
    passes with probability at most ``delta``, whatever the number of thresholds, because the first such one in the
    fixed order must pass. ``None`` if there is nothing to test.

    Args:
        values: uncertainties of the calibration nodes; infinite if a node is never accepted.  # [n]
        wrong: nodes whose prediction is wrong.  # [n] bool
        thresholds: made by :func:`thresholds_to_test`.  # [T]
        limit: of the share of accepted nodes that are wrong.
        delta: probability that a false one passes.
        anytime: use an e-process, so that the same thresholds may be tested again with more nodes.

    Example:
        >>> values = np.arange(1000) / 1000
        >>> loosen(values, values > 0.7, thresholds_to_test(values, 1000, 0.05, 0.05), 0.05, 0.05).threshold
        0.719
    """
    if not len(thresholds) or not len(values):
        return None
    order = np.argsort(values, kind="stable")
    accepted = np.searchsorted(values[order], thresholds, side="right")
    errors = np.concatenate([[0], np.cumsum(wrong[order])])[accepted]
    p_values = (anytime_p_value if anytime else binomial_p_value)(errors, accepted, np.full(len(thresholds), limit))
    passed = int(fixed_sequence(p_values, delta).sum())
    at = max(passed - 1, 0)
    return Loosened(float(thresholds[at]), int(accepted[at]), int(errors[at]), float(p_values[at]), passed > 0)


@lru_cache(maxsize=256)
def _fewest(limit: float, delta: float, errors: int) -> int:
    return nodes_to_certify(limit, delta, errors=errors)


def _first_to_test(shares: np.ndarray, nodes: int, limit: float, delta: float) -> int:
    """The strictest threshold that can be expected to accept enough calibration nodes to tolerate some errors, as many
    as half of the nodes can."""
    expected = nodes * shares - np.sqrt(nodes * shares * (1.0 - shares))
    first = len(shares) - 1
    for forgiven in range(FORGIVEN, -1, -1):
        enough = np.flatnonzero(expected >= _fewest(limit, delta, forgiven))
        if len(enough):
            first = int(enough[0])
            if shares[first] <= HALF:
                break
    return first
