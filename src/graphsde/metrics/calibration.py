"""Are the probabilities calibrated?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from graphsde.base.errors import BadUsage
from graphsde.metrics import arrays
from graphsde.metrics.arrays import lower, tied_blocks

_SMALLEST = 1e-12


@dataclass(frozen=True, eq=False)
class Reliability:
    """Confidence against accuracy in bins; empty bins are left out.

    Args:
        confidence: mean of the largest probability.  # [B]
        accuracy: share of right predictions.  # [B]
        count: nodes in the bin.  # [B]
        lower, upper: smallest and largest confidence that fall into the bin.  # [B]
    """

    confidence: np.ndarray
    accuracy: np.ndarray
    count: np.ndarray
    lower: np.ndarray
    upper: np.ndarray

    @property
    def error(self) -> float:
        """Mean distance of confidence and accuracy, weighted by nodes."""
        return float(np.sum(self.count * np.abs(self.accuracy - self.confidence)) / self.count.sum())


@lower(
    "nll",
    "mean negative logarithm of the probability of the true class, in nats",
    range=(0.0, None),
    chance="logarithm of the number of classes",
)
def nll(probs: np.ndarray, labels: np.ndarray) -> float:
    """``−mean ln p_iy``, probabilities clamped at 1e-12."""
    probs, labels = arrays.probs_and_labels(probs, labels)
    return float(-np.mean(np.log(np.clip(probs[np.arange(len(labels)), labels], _SMALLEST, 1.0))))


@lower(
    "brier",
    "mean squared distance of the probabilities from the one-hot truth",
    range=(0.0, 2.0),
    chance="one minus one over the number of classes",
)
def brier(probs: np.ndarray, labels: np.ndarray) -> float:
    """``mean_i Σ_c (p_ic − 1[y_i = c])²`` (Brier, 1950)."""
    probs, labels = arrays.probs_and_labels(probs, labels)
    distance = probs.copy()
    distance[np.arange(len(labels)), labels] -= 1.0
    return float(np.mean(np.sum(np.square(distance), axis=-1)))


@lower("ece", "expected calibration error: confidence against accuracy in 15 bins of equal width")
def ece(probs: np.ndarray, labels: np.ndarray, *, bins: int = 15) -> float:
    """``Σ_b (n_b / N) |accuracy_b − confidence_b|`` over bins of equal width (Guo et al., 2017)."""
    return reliability(probs, labels, bins=bins).error


@lower("adaptive_ece", "expected calibration error in 15 bins with equally many nodes")
def adaptive_ece(probs: np.ndarray, labels: np.ndarray, *, bins: int = 15) -> float:
    """:func:`ece` over bins of equal mass (Nguyen and O'Connor, 2015); with fewer nodes than bins, one bin per node."""
    return reliability(probs, labels, bins=bins, spacing="mass").error


def reliability(
    probs: np.ndarray, labels: np.ndarray, *, bins: int = 15, spacing: Literal["width", "mass"] = "width"
) -> Reliability:
    """The curve behind a reliability diagram.

    Args:
        probs: mean probabilities.  # [N, C]
        labels: class positions.  # [N]
        bins: how many.
        spacing: ``width`` cuts (0, 1] into equal intervals, open on the left; ``mass`` gives bins whose sizes
            differ by one at most; nodes of equal confidence on either side of a cut share their accuracy.

    Example:
        >>> curve = reliability(np.array([[0.9, 0.1], [0.9, 0.1]]), np.array([0, 1]))
        >>> curve.confidence.tolist(), curve.accuracy.tolist(), round(curve.error, 2)
        ([0.9], [0.5], 0.4)
    """
    if bins < 1:
        raise BadUsage("a curve needs at least one bin", place="reliability", found=bins, expected="1 or more")
    probs, labels = arrays.probs_and_labels(probs, labels)
    confidence, right = probs.max(axis=-1), probs.argmax(axis=-1) == labels
    if spacing == "mass":
        values, size, hits = tied_blocks(confidence, right)
        confidence, right = np.repeat(values, size), np.repeat(hits / size, size)
        bin_of = np.arange(len(labels)) * bins // len(labels)
    elif spacing == "width":
        bin_of = np.clip(np.searchsorted(np.linspace(0.0, 1.0, bins + 1), confidence, side="left") - 1, 0, bins - 1)
    else:
        raise BadUsage("unknown spacing of bins", found=spacing, expected="'width' or 'mass'")
    return _binned(confidence, right.astype(np.float64), bin_of)


def _binned(confidence: np.ndarray, right: np.ndarray, bin_of: np.ndarray) -> Reliability:
    order = np.argsort(bin_of, kind="stable")
    first = np.flatnonzero(np.diff(bin_of[order], prepend=-1))
    count = np.diff(first, append=len(order))
    return Reliability(
        confidence=np.add.reduceat(confidence[order], first) / count,
        accuracy=np.add.reduceat(right[order], first) / count,
        count=count,
        lower=np.minimum.reduceat(confidence[order], first),
        upper=np.maximum.reduceat(confidence[order], first),
    )
