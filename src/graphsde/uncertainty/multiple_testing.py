"""Many tests at once: conformal p-values, Benjamini–Hochberg, fixed-sequence testing."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np


def conformal_p_values(values: np.ndarray, calibration: np.ndarray, nodes: int | None = None) -> np.ndarray:
    """``p_i = (1 + #{j: c_j ≥ v_i}) / (n + 1)`` (Vovk, Gammerman and Shafer, 2005).  # like values

    For a value exchangeable with the n calibration values, ``P(p ≤ a) ≤ a`` for every a, ties or not.

    Args:
        values: of the nodes to test; higher = more unusual.  # [m]
        calibration: to compare with.  # [c]
        nodes: n, if ``calibration`` holds only those of the n calibration nodes that can count.

    Example:
        >>> conformal_p_values(np.array([0.0, 2.5, 9.0]), np.array([1.0, 2.0, 3.0])).tolist()
        [1.0, 0.5, 0.25]
    """
    ordered = np.sort(np.asarray(calibration, dtype=np.float64))
    above = len(ordered) - np.searchsorted(ordered, np.asarray(values, dtype=np.float64), side="left")
    return np.asarray((1.0 + above) / ((len(ordered) if nodes is None else nodes) + 1.0))


def rank_p_values(values: np.ndarray) -> np.ndarray:
    """The conformal p-value of each calibration node against the others: ``#{j: c_j ≥ c_i} / n``.  # [n]

    Example:
        >>> rank_p_values(np.array([3.0, 1.0, 2.0, 3.0])).tolist()
        [0.5, 1.0, 0.75, 0.5]
    """
    ordered = np.sort(np.asarray(values, dtype=np.float64))
    return np.asarray((len(ordered) - np.searchsorted(ordered, values, side="left")) / max(len(ordered), 1))


def benjamini_hochberg(p_values: np.ndarray, level: float) -> np.ndarray:
    """Which hypotheses are rejected at false discovery rate ``level`` (Benjamini and Hochberg, 1995).  # [m] bool

    The k smallest p-values are rejected, with the largest k such that the k-th smallest is at most ``level · k / m``.
    For independent p-values, and for conformal ones (Bates et al., 2023), the expected share of false ones among
    those rejected is at most ``level``; if all hypotheses are true, so is the probability of rejecting any.

    Example:
        >>> benjamini_hochberg(np.array([0.01, 0.9, 0.04, 0.03]), 0.05).tolist()
        [True, False, False, False]
    """
    p = np.asarray(p_values, dtype=np.float64)
    ordered = np.sort(p)
    below = np.flatnonzero(ordered <= level * np.arange(1, len(p) + 1) / max(len(p), 1) + 1e-12)
    return p <= ordered[below[-1]] if len(below) else np.zeros(len(p), dtype=bool)


def smallest_rejectable(tests: int, calibration: int, level: float) -> int:
    """How many of ``tests`` nodes must have the smallest possible p-value before Benjamini–Hochberg rejects any.

    No conformal p-value is below ``1 / (n + 1)``, and k of them are rejected where that is at most ``level · k / m``.

    Example:
        >>> smallest_rejectable(1000, 499, 0.1), smallest_rejectable(100, 999, 0.1)
        (20, 1)
    """
    return max(1, math.ceil(tests / (level * (calibration + 1)) - 1e-9))


def fixed_sequence(p_values: Sequence[float] | np.ndarray, delta: float) -> np.ndarray:
    """Which hypotheses are rejected when they are tested in this order, each at ``delta``, up to the first failure.

    A true hypothesis is rejected with probability at most ``delta``: the first true one in the order must be rejected
    for that, and it is with probability at most ``delta`` (Maurer, Hothorn and Lehmacher, 1995). The order must not
    depend on the data.  # [K] bool

    Example:
        >>> fixed_sequence([0.01, 0.04, 0.2, 0.01], 0.05).tolist()
        [True, True, False, False]
    """
    passed = np.asarray(p_values, dtype=np.float64) <= delta
    return np.asarray(np.logical_and.accumulate(passed), dtype=bool)
