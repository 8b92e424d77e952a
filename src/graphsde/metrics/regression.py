"""How good are predicted numbers, and are their intervals calibrated?"""

from __future__ import annotations

import numpy as np

from graphsde.base.errors import BadInput
from graphsde.metrics import arrays
from graphsde.metrics.arrays import higher, lower, metric
from graphsde.prediction import RegressionPrediction

LEVELS = np.linspace(0.05, 0.95, 19)
REGRESSION_METRICS = ("rmse", "mae", "r2", "nll", "crps", "coverage90", "interval_width90", "calibration_error")
_PAIRS_AT_ONCE = 4_000_000


@lower(
    "rmse",
    "root of the mean squared error, in the target's unit",
    range=(0.0, None),
    chance="standard deviation of the target",
)
def rmse(predicted: np.ndarray, values: np.ndarray) -> float:
    """``√mean (m_i − y_i)²``."""
    predicted, values = _points(predicted, values)
    return float(np.sqrt(np.mean(np.square(predicted - values))))


@lower(
    "mae",
    "mean absolute error, in the target's unit",
    range=(0.0, None),
    chance="mean distance of the target from its median",
)
def mae(predicted: np.ndarray, values: np.ndarray) -> float:
    """``mean |m_i − y_i|``."""
    predicted, values = _points(predicted, values)
    return float(np.mean(np.abs(predicted - values)))


@higher("r2", "share of the target's variance that the mean explains", range=(None, 1.0), chance=0.0)
def r2(predicted: np.ndarray, values: np.ndarray) -> float:
    """``1 − Σ (m_i − y_i)² / Σ (y_i − ȳ)²``; NaN where all values are the same."""
    predicted, values = _points(predicted, values)
    if np.ptp(values) == 0:  # the mean of equal values may differ from them by rounding
        return float("nan")
    return 1.0 - float(np.sum(np.square(predicted - values))) / float(np.sum(np.square(values - values.mean())))


@lower(
    "density_nll",
    "mean negative logarithm of the predicted density at the true value, in nats",
    range=(None, None),
    chance="that of a Gaussian with the target's mean and variance",
)
def density_nll(prediction: RegressionPrediction, values: np.ndarray) -> float:
    """``−mean ln (1/S) Σ_s N(y_i; m_si, σ²_si)``; it depends on the target's unit."""
    return float(-np.mean(prediction.log_density(_values(prediction, values))))


@lower(
    "crps",
    "continuous ranked probability score: distance of the predicted distribution from the true value",
    range=(0.0, None),
    chance="half the mean difference of two values of the target",
)
def crps(prediction: RegressionPrediction, values: np.ndarray) -> float:
    r"""Mean of :math:`\int (F_i(x) - 1[x \ge y_i])^2 dx`, in the target's unit; of a point it is the absolute error.

    Gneiting and Raftery, "Strictly proper scoring rules, prediction, and estimation", 2007. For a mixture of Gaussians
    (Grimit et al., 2006): :math:`\frac1S \sum_s A(y - m_s, v_s) - \frac1{2S^2} \sum_{s,t} A(m_s - m_t, v_s + v_t)` with
    :math:`A(d, v) = E|N(d, v)| = 2\sqrt v\,\phi(d/\sqrt v) + d\,(2\Phi(d/\sqrt v) - 1)`.

    Example:
        >>> one = RegressionPrediction(np.zeros((1, 1)), np.ones((1, 1)), np.array([7]), "deterministic")
        >>> round(crps(one, np.zeros(1)), 4)
        0.2337
    """
    return float(np.mean(crps_of_each(prediction, values)))


def crps_of_each(prediction: RegressionPrediction, values: np.ndarray) -> np.ndarray:
    """:func:`crps` of every node by itself.  # [N]"""
    values = _values(prediction, values)
    means, deviations = prediction.components
    samples, nodes = means.shape
    near = _mean_distance(values - means, deviations).mean(axis=0)
    apart = np.zeros(nodes)
    block = max(1, _PAIRS_AT_ONCE // max(1, samples * nodes))
    for first in range(0, samples, block):
        rows = slice(first, first + block)
        difference = means[rows, None] - means  # [b, S, N]
        apart += _mean_distance(difference, np.hypot(deviations[rows, None], deviations)).sum(axis=(0, 1))
    return near - 0.5 * apart / samples**2


@metric(
    "towards 0.9",
    "coverage90",
    "share of true values inside the central interval that should hold 90 % of them: best at 0.9",
    best=0.9,
)
def coverage90(prediction: RegressionPrediction, values: np.ndarray) -> float:
    """Best at 0.9: more means intervals that are too wide."""
    values = _values(prediction, values)
    low, high = prediction.interval(0.9)
    return float(np.mean((low <= values) & (values <= high)))


@lower(
    "interval_width90",
    "mean width of the 90 % intervals, in the target's unit; read together with their coverage",
    range=(0.0, None),
)
def interval_width90(prediction: RegressionPrediction, values: np.ndarray | None = None) -> float:
    """``mean (q_0.95 − q_0.05)``; no true value is needed."""
    low, high = prediction.interval(0.9)
    return float(np.mean(high - low))


@lower(
    "calibration_error",
    "mean distance between a quantile's level and the share of true values below it, levels 5 % to 95 %",
)
def calibration_error(prediction: RegressionPrediction, values: np.ndarray) -> float:
    """``mean_p |share of i with F_i(y_i) ≤ p − p|`` over 19 levels p (Kuleshov, Fenner and Ermon, 2018)."""
    return float(np.mean(np.abs(observed_shares(prediction, values) - LEVELS)))


def observed_shares(prediction: RegressionPrediction, values: np.ndarray, levels: np.ndarray = LEVELS) -> np.ndarray:
    """Share of true values below the predicted quantile of each level.  # [L]"""
    return np.mean(prediction.cdf(_values(prediction, values))[:, None] <= levels, axis=0)


def summarise_regression(prediction: RegressionPrediction, values: np.ndarray, mask: np.ndarray) -> dict[str, float]:
    """All regression metrics on some nodes.

    Args:
        prediction: of all nodes.
        values: the truth, NaN if unknown, which leaves out the node.  # [N]
        mask: the nodes to evaluate.  # [N] bool

    Returns:
        ``rmse``, ``mae``, ``r2``, ``nll``, ``crps``, ``coverage90``, ``interval_width90``, ``calibration_error``,
        ``n_test``. All but the shares are in the target's own unit.
    """
    nodes = np.flatnonzero(mask & ~np.isnan(values))
    if not len(nodes):
        raise BadInput("no node of the mask has a value", code="E-EMPTY", fix="check the mask and the split")
    judged, truth = prediction.subset(nodes), values[nodes]
    return {
        "rmse": rmse(judged.mean, truth),
        "mae": mae(judged.mean, truth),
        "r2": r2(judged.mean, truth),
        "nll": density_nll(judged, truth),
        "crps": crps(judged, truth),
        "coverage90": coverage90(judged, truth),
        "interval_width90": interval_width90(judged),
        "calibration_error": calibration_error(judged, truth),
        "n_test": len(nodes),
    }


def _mean_distance(difference: np.ndarray, deviation: np.ndarray) -> np.ndarray:
    """E|X| for X ~ N(difference, deviation²)."""
    from scipy.special import erf

    z = difference / deviation
    return deviation * np.sqrt(2 / np.pi) * np.exp(-0.5 * z**2) + difference * erf(z / np.sqrt(2))


def _points(predicted: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    said, true = arrays.numbers(predicted, "predicted"), arrays.numbers(values, "values")
    arrays.same_length(said, true, "predicted", "values")
    return said, true


def _values(prediction: RegressionPrediction, values: np.ndarray) -> np.ndarray:
    return _points(prediction.mean, values)[1]
