"""OOD nodes: flag nodes unlike the training data, at a stated rate of false alarms."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphsde.acting.guarantee import Guarantee, fdr_guarantee
from graphsde.datasets.splits.calibration import CALIBRATION_SIZE
from graphsde.graph.graph import Graph
from graphsde.prediction import ClassPrediction, Predictor
from graphsde.uncertainty.conformal.intervals import conformal_quantile
from graphsde.uncertainty.held_out import HeldOut, held_out, require_share, too_few, validation_held
from graphsde.uncertainty.multiple_testing import (
    benjamini_hochberg,
    conformal_p_values,
    rank_p_values,
    smallest_rejectable,
)
from graphsde.uncertainty.scores import score
from graphsde.uncertainty.scores.registry import default_score

OOD_SCORES = ("ood", "entropy+propagated")
"""Default scores for flags: the first that is defined."""
FDR = 0.1
"""Share of a flagged group that may be in-distribution, on average."""


@dataclass(frozen=True, eq=False)
class OODFlag:
    """Which nodes are flagged as out-of-distribution.

    Args:
        by: name of the score.
        values: of every node.  # [N]
        threshold: a node above it is flagged.
        false_alarm: largest probability that an in-distribution node is flagged, over draws of the calibration nodes.
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
        """Nodes that a later step may accept: those not flagged.  # [N] bool"""
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

    The threshold is the ``⌈(n + 1)(1 − a)⌉``-th smallest of n calibration scores: an in-distribution node, exchangeable
    with them, exceeds it with probability at most ``a``. How many OOD nodes are detected is not guaranteed: that
    depends on how OOD they are. Calibration of the probabilities is undone first: it is fitted on in-distribution nodes
    and hurts detection. The scores treat calibration nodes like test nodes: neither is trained on or a reference.

    Args:
        prediction: of all nodes of ``graph``.
        graph: with the masks that the model was fitted with.
        false_alarm: a.
        by: any score, as for :func:`graphsde.score`; ``ood`` where it is defined, else ``entropy+propagated``.
        calibration, size, seed: as for :func:`graphsde.uncertainty.held_out.held_out`.
        model: the one that predicted, for scores that need further predictions of it.

    Example:
        >>> import graphsde as gs
        >>> graph = gs.load("digits")
        >>> flag = flag_ood(gs.LabelPropagation().fit(graph).predict(graph), graph, false_alarm=0.1)
        >>> flag.calibration_rate <= 0.1
        True
    """
    require_share("false_alarm", false_alarm)
    held = held_out(prediction, graph, calibration, size=size, seed=seed)
    return _flag(held, false_alarm, *_ood_scores(prediction, graph, by, model))


def flag_per_node(
    prediction: ClassPrediction,
    graph: Graph,
    *,
    false_alarm: float = 0.05,
    by: str | None = None,
    model: Predictor | None = None,
) -> OODFlag:
    """The rule ``per-node``: flag a node by its own score, with a threshold fixed on validation nodes.

    The threshold is the ``⌈(n + 1)(1 − a)⌉``-th smallest score of the n validation nodes, so that calibration nodes
    remain untouched for :func:`graphsde.acting.certified.certify`. Selection has seen the validation nodes: if a
    model fits them better than others, false alarms are a little more frequent than stated, and
    ``OODPValues.false_alarms`` of the calibration nodes shows it.

    Args:
        prediction, graph, false_alarm, by, model: as of :func:`flag_ood`.

    Returns:
        The flag; its ``calibration`` are the validation nodes.

    Example:
        >>> import graphsde as gs
        >>> graph = gs.load("digits")
        >>> flag = flag_per_node(gs.LabelPropagation().fit(graph).predict(graph), graph)
        >>> bool(flag.flagged[graph.val_mask].mean() <= 0.05)
        True
    """
    require_share("false_alarm", false_alarm)
    held = validation_held(prediction, graph)
    return _flag(held, false_alarm, *_ood_scores(prediction, graph, by, model), of="validation nodes")


def _flag(held: HeldOut, false_alarm: float, by: str, values: np.ndarray, *, of: str = "calibration nodes") -> OODFlag:
    threshold = conformal_quantile(
        values[held.nodes], 1.0 - false_alarm, of=of, purpose="to clear in-distribution nodes at this rate"
    )
    flagged = values > threshold
    return OODFlag(by, values, threshold, false_alarm, flagged, float(flagged[held.nodes].mean()), held.mask)


def no_flag(
    prediction: ClassPrediction, graph: Graph, by: str | None = None, model: Predictor | None = None
) -> OODFlag:
    """The scores of :func:`flag_per_node` without a threshold, if too few validation nodes have a label."""
    name, values = _ood_scores(prediction, graph, by, model)
    nobody = np.zeros(graph.num_nodes, dtype=bool)
    return OODFlag(name, values, math.inf, 0.0, nobody, 0.0, nobody)


@dataclass(frozen=True, eq=False)
class OODPValues:
    """A conformal p-value per node: how many calibration nodes are at least as unusual; made by :func:`ood_p_values`.

    Args:
        by: name of the score.
        values: of every node.  # [N]
        p_values: of every node; for an in-distribution node ``P(p ≤ a) ≤ a``. Training and validation nodes have been
            seen, so theirs are not valid.  # [N]
        decided: nodes that a group may come from: not used for training, validation or calibration.  # [N] bool
        calibration: which nodes are compared with.  # [N] bool
        calibration_source: in words.
    """

    by: str
    values: np.ndarray
    p_values: np.ndarray
    decided: np.ndarray
    calibration: np.ndarray
    calibration_source: str

    def fdr(self, level: float = FDR) -> OODGroup:
        """The rule ``fdr``: flag a group of which on average at most a share ``level`` is in-distribution."""
        require_share("level", level)
        nodes = np.flatnonzero(self.decided)
        flagged = np.zeros(len(self.values), dtype=bool)
        flagged[nodes] = benjamini_hochberg(self.p_values[nodes], level)
        smallest = smallest_rejectable(len(nodes), int(self.calibration.sum()), level)
        return OODGroup(level, flagged, len(nodes), smallest, fdr_guarantee(level))

    def false_alarms(self, flag: OODFlag) -> tuple[int, int]:
        """Number of calibration nodes that another flag flags, and their total: its realised rate of false alarms."""
        return int(flag.flagged[self.calibration].sum()), int(self.calibration.sum())


@dataclass(frozen=True, eq=False)
class OODGroup:
    """Nodes flagged by Benjamini–Hochberg.

    Args:
        level: share of the flagged nodes that may be in-distribution, on average.
        flagged: which nodes.  # [N] bool
        among: how many nodes were tested.
        smallest: the smallest group that this many calibration nodes allow to flag, however unusual.
        guarantee: in words.
    """

    level: float
    flagged: np.ndarray
    among: int
    smallest: int
    guarantee: Guarantee

    def as_dict(self) -> dict[str, Any]:
        return {
            "rule": self.guarantee.name,
            "level": self.level,
            "flagged": int(self.flagged.sum()),
            "among": self.among,
            "smallest": self.smallest,
            "guarantee": self.guarantee.as_dict(),
        }


def ood_p_values(
    prediction: ClassPrediction,
    graph: Graph,
    *,
    by: str | None = None,
    calibration: np.ndarray | None = None,
    size: int | None = None,
    seed: int = 0,
    model: Predictor | None = None,
) -> OODPValues:
    """``(1 + #{calibration nodes at least as unusual}) / (n + 1)`` for every node (Bates et al., 2023).

    A calibration node is compared with the others.

    Args:
        prediction, graph, by, model: as of :func:`flag_ood`.
        calibration, size, seed: as of :func:`graphsde.uncertainty.held_out.held_out`; all test nodes where the split
            has no calibration nodes.

    Example:
        >>> import graphsde as gs
        >>> graph = gs.load("digits")
        >>> found = ood_p_values(gs.LabelPropagation().fit(graph).predict(graph), graph, size=500)
        >>> bool(found.p_values.min() >= 1 / 501), found.fdr(0.1).smallest
        (True, 16)
    """
    held = held_out(prediction, graph, calibration, size=size, seed=seed)
    if not len(held):
        raise too_few(0, 1, "to compare with", "label some nodes for calibration")
    return p_values_among(*_ood_scores(prediction, graph, by, model), graph, held.mask, held.source.words)


def p_values_among(name: str, values: np.ndarray, graph: Graph, calibration: np.ndarray, source: str) -> OODPValues:
    """:func:`ood_p_values` of given scores; without calibration nodes all are 1.

    Args:
        name, values: of the score.  # [N]
        graph: with the masks that the model was fitted with.
        calibration: which nodes to compare with.  # [N] bool
        source: where these came from, in words.
    """
    p_values = conformal_p_values(values, values[calibration])
    p_values[calibration] = rank_p_values(values[calibration])
    decided = ~(calibration | graph.role("train") | graph.role("val"))
    return OODPValues(name, values, p_values, decided, calibration, source)


def _ood_scores(
    prediction: ClassPrediction, graph: Graph, by: str | None, model: Predictor | None
) -> tuple[str, np.ndarray]:
    """Name and values of the score; calibration is undone, as it is fitted on in-distribution nodes."""
    own = prediction.for_detection()
    name = default_score(own, graph, model, among=OOD_SCORES) if by is None else by
    return name, score(name, own, graph, model)
