"""Nodes that speak for those to come: labelled, and untouched by training and selection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from graphsde.data.splits.calibration import CALIBRATION_SIZE, CalibrationNodes, calibration_nodes
from graphsde.errors import BadInput, BadUsage
from graphsde.prediction import NumericPrediction, Prediction
from graphsde.scores.training_nodes import UNKNOWN, align_labels, require_same_nodes

if TYPE_CHECKING:
    from graphsde.data.graph import Graph


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Calibration nodes with their labels.

    Args:
        nodes: their positions.  # [n]
        labels: columns of the prediction; values, where it is of numbers.  # [n]
        source: where they came from.
    """

    nodes: np.ndarray
    labels: np.ndarray
    source: CalibrationNodes

    def __len__(self) -> int:
        return len(self.nodes)

    @property
    def mask(self) -> np.ndarray:
        """Boolean over all nodes.  # [N]"""
        return self.source.mask


def held_out(
    prediction: Prediction | NumericPrediction,
    graph: Graph,
    calibration: np.ndarray | None = None,
    *,
    size: int = CALIBRATION_SIZE,
    seed: int = 0,
) -> HeldOut:
    """The calibration nodes of ``graph`` for ``prediction``.

    Args:
        prediction: of all nodes of ``graph``.
        graph: with the masks that the model was fitted with.
        calibration: mask or positions; refused where it touches training or validation nodes, on which a model looks
            better than it is. If not given, :func:`~graphsde.data.splits.calibration.calibration_nodes`.
        size, seed: of the draw, where the graph has no calibration mask.
    """
    require_same_nodes(prediction, graph)
    if calibration is None:
        source = calibration_nodes(graph, size=size, seed=seed)
    else:
        source = CalibrationNodes(_given(calibration, graph), "given")
    if isinstance(prediction, NumericPrediction):
        if graph.values is None:
            raise BadInput(f"{graph.name} has no values to calibrate with", code="E-NO-LABELS")
        known = source.mask & graph.labelled
        nodes = np.flatnonzero(known)
        return HeldOut(nodes, graph.values[nodes], CalibrationNodes(known, source.origin))
    labels = align_labels(graph, prediction.class_names)
    mask = source.mask & (labels != UNKNOWN)
    if graph.ood_mask is not None:
        mask &= ~graph.ood_mask
    nodes = np.flatnonzero(mask)
    return HeldOut(nodes, labels[nodes], CalibrationNodes(mask, source.origin))


def too_few(found: int, needed: int, purpose: str, fix: str, *, of: str = "calibration nodes") -> BadInput:
    """``E-CAL-SMALL``: says how many nodes there are and how many it takes."""
    return BadInput(
        f"{found} {of} are too few {purpose}: {needed} are needed",
        code="E-CAL-SMALL",
        found=found,
        expected=f"at least {needed} {of}",
        fix=fix,
    )


def require_share(name: str, value: float) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not 0.0 < float(value) < 1.0:
        raise BadUsage(f"{name} can't be {value!r}", found=value, expected="a number between 0 and 1")


def _given(calibration: np.ndarray, graph: Graph) -> np.ndarray:
    chosen = np.asarray(calibration)
    if chosen.dtype != bool:
        if chosen.size and (
            not np.issubdtype(chosen.dtype, np.integer) or chosen.min() < 0 or chosen.max() >= graph.num_nodes
        ):
            raise BadInput(
                "these are no positions of nodes",
                code="E-LEN",
                expected=f"whole numbers from 0 to {graph.num_nodes - 1}",
            )
        mask = np.zeros(graph.num_nodes, dtype=bool)
        mask[chosen.astype(np.int64)] = True
        chosen = mask
    if chosen.shape != (graph.num_nodes,):
        raise BadInput(
            f"the calibration mask has shape {chosen.shape}", code="E-LEN", expected=f"{graph.num_nodes} entries"
        )
    for role in ("train", "val"):
        used = int((chosen & graph.masks.get(role, np.zeros(graph.num_nodes, dtype=bool))).sum())
        if used:
            raise BadUsage(
                f"{used} of the calibration nodes are {role} nodes, on which the model looks better than it is",
                code="E-CAL-USED",
                fix="calibrate on nodes that neither training nor selection has seen",
            )
    return chosen
