"""OOD nodes: flag what looks like nothing the model was taught, at a stated rate of false alarms."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from graphsde.datasets.splits.calibration import CALIBRATION_SIZE
from graphsde.graph.graph import Graph
from graphsde.prediction import ClassPrediction, Predictor
from graphsde.uncertainty.conformal.intervals import conformal_quantile
from graphsde.uncertainty.held_out import held_out, require_share
from graphsde.uncertainty.scores import score
from graphsde.uncertainty.scores.registry import default_score

OOD_SCORES = ("ood", "entropy+propagated")
"""What flags go by where nobody names a score: the first that is defined."""


@dataclass(frozen=True, eq=False)
class OODFlag:
    """Which nodes are too strange to judge.

    Args:
        by: name of the score.
        values: of every node.  # [N]
        threshold: a node above it is flagged.
        false_alarm: how often a familiar node is flagged, at most, on average over draws of the calibration nodes.
        flagged: ``values > threshold``.  # [N] bool
        calibration_rate: share of the calibration nodes that are flagged.
        calibration: which nodes the threshold was read from.  # [N] bool
    """

    by: str
    values: np.ndarray
    threshold: float
    false_alarm: float
    flagged: np.ndarray
    calibration_rate: float
    calibration: np.ndarray

    @property
    def cleared(self) -> np.ndarray:
        """Nodes that a later step may accept: those that are not flagged.  # [N] bool"""
        return ~self.flagged


def flag_ood(
    prediction: ClassPrediction,
    graph: Graph,
    *,
    false_alarm: float = 0.05,
    by: str | None = None,
    calibration: np.ndarray | None = None,
    size: int = CALIBRATION_SIZE,
    seed: int = 0,
    model: Predictor | None = None,
) -> OODFlag:
    """Flag the nodes whose score is higher than almost every calibration node's.

    The threshold is the ``⌈(n + 1)(1 − a)⌉``-th smallest of the n calibration scores: a familiar node, exchangeable
    with them, exceeds it with a chance of at most ``a``. How many OOD nodes are caught is not guaranteed: that
    depends on how OOD they are. Calibration of the probabilities is undone first: it is fitted on familiar nodes
    and costs detection. The scores treat calibration nodes as they treat test nodes: neither trains or is a reference.

    Args:
        prediction: of all nodes of ``graph``.
        graph: with the masks that the model was fitted with.
        false_alarm: a.
        by: any score, as for :func:`graphsde.score`; ``ood`` where it is defined, else ``entropy+propagated``.
        calibration, size, seed: as for :func:`graphsde.uncertainty.held_out.held_out`.
        model: who predicted, for scores that ask it for further predictions.

    Example:
        >>> import graphsde as gs
        >>> graph = gs.load("digits")
        >>> flag = flag_ood(gs.LabelPropagation().fit(graph).predict(graph), graph, false_alarm=0.1)
        >>> flag.calibration_rate <= 0.1
        True
    """
    require_share("false_alarm", false_alarm)
    held = held_out(prediction, graph, calibration, size=size, seed=seed)
    untempered = prediction.untempered()
    by = default_score(untempered, graph, model, among=OOD_SCORES) if by is None else by
    values = score(by, untempered, graph, model)
    threshold = conformal_quantile(
        values[held.nodes], 1.0 - false_alarm, purpose="to clear familiar nodes at this rate"
    )
    flagged = values > threshold
    return OODFlag(by, values, threshold, false_alarm, flagged, float(flagged[held.nodes].mean()), held.mask)
