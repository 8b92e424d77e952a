"""Split conformal prediction for regression, and the quantile behind every conformal set."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from graphsde.base.errors import BadUsage
from graphsde.base.html import card, counted, note
from graphsde.base.registry import Rules
from graphsde.datasets.splits.calibration import CALIBRATION_SIZE
from graphsde.prediction import RegressionPrediction
from graphsde.uncertainty.held_out import held_out, require_share, too_few

if TYPE_CHECKING:
    from graphsde.graph.graph import Graph


def nodes_for_level(confidence_level: float) -> int:
    """The fewest calibration nodes for nontrivial sets at this level: ``⌈1/α⌉ − 1``.

    Example:
        >>> nodes_for_level(0.9), nodes_for_level(0.95), nodes_for_level(0.99)
        (9, 19, 99)
    """
    return math.ceil(1.0 / (1.0 - confidence_level) - 1e-9) - 1


def conformal_quantile(
    scores: np.ndarray,
    confidence_level: float,
    *,
    of: str = "calibration nodes",
    purpose: str = "for sets at this confidence level",
) -> float:
    """The ``⌈(n + 1)(1 − α)⌉``-th smallest score: a further exchangeable one is at most this with probability ≥ 1 − α.

    For scores without ties the probability is also at most ``1 − α + 1/(n + 1)`` (Vovk, Gammerman and Shafer, 2005).

    Raises:
        BadInput: (``E-CAL-SMALL``) there is no such score: n is below ``1/α − 1``.

    Example:
        >>> conformal_quantile(np.arange(1.0, 10.0), 0.9)
        9.0
    """
    place = math.ceil((len(scores) + 1) * confidence_level - 1e-9)
    if place > len(scores):
        raise too_few(
            len(scores),
            nodes_for_level(confidence_level),
            f"{purpose} ({confidence_level:g})",
            "lower the confidence level, or label more nodes for calibration",
            of=of,
        )
    return float(np.partition(scores, place - 1)[place - 1])


CONFORMAL: Rules[Callable[..., Any]] = Rules("conformal prediction")
IntervalScore = Literal["deviations", "quantiles"]
INTERVAL_SCORES: dict[IntervalScore, str] = {
    "deviations": "distance from the mean in predicted standard deviations (Lei et al., 2018)",
    "quantiles": "distance outside the predicted central interval (Romano, Patterson and Candès, 2019)",
}


@dataclass(frozen=True, eq=False, repr=False)
class ConformalIntervals:
    """Calibrated intervals; made by :func:`graphsde.conformalize` from a regression prediction.

    Args:
        by: ``deviations`` or ``quantiles``.
        confidence_level: 1 − α.
        quantile: how many standard deviations to either side, or how far beyond the predicted interval (negative if
            that is wider than needed).
        calibration: which nodes were used.  # [N] bool
        calibration_source: in words.
    """

    by: IntervalScore
    confidence_level: float
    quantile: float
    calibration: np.ndarray
    calibration_source: str

    def predict_interval(self, prediction: RegressionPrediction) -> tuple[np.ndarray, np.ndarray]:
        """Low and high end for every node.  # [N], [N]"""
        if self.by == "deviations":
            reach = self.quantile * np.sqrt(prediction.total)
            return prediction.mean - reach, prediction.mean + reach
        low, high = prediction.interval(self.confidence_level)
        low, high = low - self.quantile, high + self.quantile
        middle = (low + high) / 2
        return np.minimum(low, middle), np.maximum(high, middle)  # an interval that would be inverted becomes a point

    def __repr__(self) -> str:
        nodes = counted(int(self.calibration.sum()), "calibration node")
        return f"ConformalIntervals(at {self.confidence_level:g} by {self.by}, {nodes})"

    def _repr_html_(self) -> str:
        facts: dict[str, object] = {
            "level": f"{self.confidence_level:.1%}",
            "score": self.by,
            "quantile": self.quantile,
            "calibration nodes": int(self.calibration.sum()),
            "taken from": self.calibration_source,
        }
        return card("Conformal intervals", facts, note(self.guarantee))

    @property
    def guarantee(self) -> str:
        """The guarantee and its assumptions, in words."""
        return (
            f"on average over draws of the {int(self.calibration.sum())} calibration nodes, at least "
            f"{self.confidence_level:.1%} of the nodes have their value in the interval. It assumes exchangeability: "
            "future nodes are drawn like the calibration nodes, from the same graph. It holds over all nodes "
            "together, not for each node or neighbourhood, and not for a graph that has changed."
        )


@CONFORMAL.register("regression")
def conformal_intervals(
    prediction: RegressionPrediction,
    graph: Graph,
    *,
    confidence_level: float = 0.9,
    by: str = "deviations",
    seed: int = 0,
    calibration: np.ndarray | None = None,
    size: int = CALIBRATION_SIZE,
    **options: Any,
) -> ConformalIntervals:
    """Intervals that contain the value of at least a share ``confidence_level`` of the nodes.

    Args:
        prediction, graph, confidence_level: as of :func:`graphsde.conformalize`.
        by: ``deviations`` stretches the predicted distribution, ``quantiles`` moves both ends of its central interval
            by the same distance.
        seed, calibration, size: which calibration nodes, as of :func:`graphsde.conformalize`.
    """
    if options:
        raise BadUsage(
            "intervals don't have the options of class scores",
            code="E-TARGET",
            found=", ".join(options),
            fix="leave out these options",
        )
    require_share("confidence_level", confidence_level)
    if by not in INTERVAL_SCORES:
        raise BadUsage(f"unknown interval score '{by}'", found=by, expected=", ".join(INTERVAL_SCORES))
    held = held_out(prediction, graph, calibration, size=size, seed=seed)
    own = prediction.subset(held.nodes)
    if by == "deviations":
        scores = np.abs(held.labels - own.mean) / np.sqrt(own.total)
    else:
        low, high = own.interval(confidence_level)
        scores = np.maximum(low - held.labels, held.labels - high)
    quantile = conformal_quantile(scores, confidence_level, purpose="for intervals at this confidence level")
    return ConformalIntervals(by, float(confidence_level), quantile, held.mask, held.source.words)
