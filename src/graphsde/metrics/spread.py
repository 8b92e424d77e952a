"""Does the predicted standard deviation match the actual error?"""

from __future__ import annotations

import numpy as np

from graphsde.metrics import arrays
from graphsde.metrics.arrays import higher, lower
from graphsde.prediction import RegressionPrediction

ENCE_BINS = 10
SPREAD_METRICS = ("miscalibration_area", "ence", "spread_spearman")


@lower(
    "miscalibration_area",
    "area between the shares of true values inside central intervals and the levels of these intervals",
    range=(0.0, 0.5),
)
def miscalibration_area(prediction: RegressionPrediction, values: np.ndarray) -> float:
    r""":math:`\int_0^1 |\hat c(p) - p|\,dp` with ``ĉ(p)`` the share of values inside the central interval of level p.

    Of the empirical curve, exactly; Tran et al., "Methods for comparing uncertainty quantifications for material
    property predictions", 2020, who take points of it. 1/2 for intervals that hold all values or none.

    Example:
        >>> one = RegressionPrediction(np.zeros((1, 1)), np.ones((1, 1)), np.array([7]), "deterministic")
        >>> miscalibration_area(one, np.zeros(1))
        0.5
    """
    levels = np.sort(central_levels(prediction, values))
    shares = np.arange(1, len(levels) + 1) / len(levels)
    return float(area_beside_diagonal(levels[None], shares[None])[0])


def central_levels(prediction: RegressionPrediction, values: np.ndarray) -> np.ndarray:
    """The level of the smallest central interval that holds each value: ``|2 F_i(y_i) − 1|``.  # [N]"""
    return np.abs(2.0 * prediction.cdf(_checked(prediction, values)) - 1.0)


def area_beside_diagonal(levels: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """``∫ |step function − p| dp`` over 0 to 1 of functions that start at 0, one per row.

    Args:
        levels: where they step, ascending.  # [b, n]
        shares: their heights after each step.  # [b, n]
    """
    zeros = np.zeros((len(levels), 1))
    edges, heights = np.hstack([zeros, levels, zeros + 1.0]), np.hstack([zeros, shares])
    above, below = edges[:, 1:] - heights, edges[:, :-1] - heights
    return np.sum(above * np.abs(above) - below * np.abs(below), axis=1) / 2


@lower(
    "ence",
    "expected normalised calibration error: predicted against actual root mean square of errors in 10 bins of the "
    "standard deviation",
    range=(0.0, None),
)
def ence(prediction: RegressionPrediction, values: np.ndarray, *, bins: int = ENCE_BINS) -> float:
    """``mean_b |RMV_b − RMSE_b| / RMV_b`` over bins of equal mass (Levi et al., 2022).

    ``RMV_b`` is the root of the mean predicted variance in a bin, ``RMSE_b`` that of the mean squared error. Nodes of
    equal variance on either side of a cut share their error; with fewer nodes than bins, one bin per node.
    """
    variance, squared = prediction.total, np.square(prediction.mean - _checked(prediction, values))
    distinct, block = np.unique(variance, return_inverse=True)
    shared = np.bincount(block, squared) / np.bincount(block)
    order = np.argsort(variance, kind="stable")
    bin_of = np.arange(len(order)) * bins // len(order)
    first = np.flatnonzero(np.diff(bin_of, prepend=-1))
    stated = np.add.reduceat(distinct[block][order], first)
    actual = np.add.reduceat(shared[block][order], first)
    return float(np.mean(np.abs(1.0 - np.sqrt(actual / stated))))


@higher(
    "spread_spearman",
    "Spearman's rank correlation of the absolute error and the standard deviation",
    range=(-1.0, 1.0),
    chance=0.0,
)
def spread_spearman(prediction: RegressionPrediction, values: np.ndarray) -> float:
    """Correlation of the ranks, equal values at their mean rank; NaN where either is constant."""
    error = np.abs(prediction.mean - _checked(prediction, values))
    first, second = _ranks(error), _ranks(prediction.total)
    first, second = first - first.mean(), second - second.mean()
    scale = float(np.sqrt(np.sum(first**2) * np.sum(second**2)))
    return float(np.sum(first * second)) / scale if scale > 0 else float("nan")


def summarise_spread(prediction: RegressionPrediction, values: np.ndarray, mask: np.ndarray) -> dict[str, float]:
    """``miscalibration_area``, ``ence`` and ``spread_spearman`` on the nodes of a mask whose value is known."""
    nodes = np.flatnonzero(mask & ~np.isnan(values))
    judged, truth = prediction.subset(nodes), values[nodes]
    return {
        "miscalibration_area": miscalibration_area(judged, truth),
        "ence": ence(judged, truth),
        "spread_spearman": spread_spearman(judged, truth),
    }


def _ranks(values: np.ndarray) -> np.ndarray:
    _, block, size = np.unique(values, return_inverse=True, return_counts=True)
    return (np.cumsum(size) - (size - 1) / 2)[block]


def _checked(prediction: RegressionPrediction, values: np.ndarray) -> np.ndarray:
    true = arrays.numbers(values, "values")
    arrays.same_length(prediction.mean, true, "predicted", "values")
    return true
