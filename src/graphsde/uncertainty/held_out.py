"""Held-out nodes (labelled, unused by training and selection), and the nodes that a score learns from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphsde.base.errors import BadInput, BadUsage
from graphsde.base.registry import Rules
from graphsde.datasets.splits.calibration import CALIBRATION_SIZE, CalibrationNodes, calibration_nodes
from graphsde.graph.graph import Graph
from graphsde.graph.masks import mask_of
from graphsde.prediction import ClassPrediction, Prediction, RegressionPrediction, require_prediction_of

UNKNOWN = -1


@dataclass(frozen=True, eq=False)
class TrainingNodes:
    """Training nodes of classes that the prediction knows.

    Args:
        embedding: float64.  # [n, h]
        group: position of a node's class in ``classes``.  # [n]
        classes: columns of the prediction that have training nodes, ascending.  # [G]
    """

    embedding: np.ndarray
    group: np.ndarray
    classes: np.ndarray

    @property
    def count(self) -> np.ndarray:
        """Nodes per class.  # [G]"""
        return np.bincount(self.group, minlength=len(self.classes))

    @property
    def means(self) -> np.ndarray:
        """Mean embedding per class.  # [G, h]"""
        total = np.zeros((len(self.classes), self.embedding.shape[1]))
        np.add.at(total, self.group, self.embedding)
        return total / self.count[:, None]

    @property
    def residuals(self) -> np.ndarray:
        """Embeddings minus the mean of their class.  # [n, h]"""
        return self.embedding - self.means[self.group]


def training_nodes(prediction: ClassPrediction, graph: Graph) -> TrainingNodes:
    """The labelled training nodes of ``graph`` in the embedding of ``prediction``, which must be of that graph."""
    embedding = embedding_of(prediction)
    require_same_nodes(prediction, graph)
    labels = align_labels(graph, prediction.class_names)
    nodes = np.flatnonzero(graph.role("train") & (labels != UNKNOWN))
    if len(nodes) == 0:
        raise BadUsage(
            f"the graph '{graph.name}' has no labelled training nodes to learn from",
            code="E-SCORE",
            fix="pass reference=(prediction, graph) of the graph that the model was fitted on",
        )
    classes, group = np.unique(labels[nodes], return_inverse=True)
    return TrainingNodes(embedding[nodes], group, classes)


def embedding_of(prediction: Prediction) -> np.ndarray:
    """The embedding in float64.  # [N, h]"""
    if prediction.embedding is None:
        raise BadUsage("this prediction has no embedding", code="E-SCORE", fix="use a score that reads probabilities")
    return prediction.embedding.astype(np.float64)


def require_same_nodes(prediction: Prediction, graph: Graph) -> None:
    require_prediction_of(prediction, graph)
    if prediction.num_items != graph.num_nodes:
        raise BadInput(
            f"a prediction of {prediction.num_items} nodes does not match a graph of {graph.num_nodes} nodes",
            code="E-LEN",
            expected="the graph that was predicted on",
        )


def align_labels(graph: Graph, class_names: tuple[str, ...]) -> np.ndarray:
    """Labels of ``graph`` as positions in ``class_names``, which may hold more classes or another order.  # [N]

    −1 if there is no label, or it is not in ``class_names``.
    """
    if graph.labels is None:
        return np.full(graph.num_nodes, UNKNOWN, dtype=np.int64)
    if graph.class_names == class_names:
        return graph.labels
    place = {name: position for position, name in enumerate(class_names)}
    table = np.array([place.get(name, UNKNOWN) for name in graph.class_names] + [UNKNOWN], dtype=np.int64)
    return table[graph.labels]  # -1 selects the last entry, which is "unknown"


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Calibration nodes with their labels.

    Args:
        nodes: their positions.  # [n]
        labels: their true columns of the prediction, or values.  # [n]
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
    prediction: Prediction,
    graph: Graph,
    calibration: np.ndarray | None = None,
    *,
    size: int | None = CALIBRATION_SIZE,
    seed: int = 0,
) -> HeldOut:
    """The calibration nodes of ``graph`` for ``prediction``.

    Args:
        prediction: of all nodes of ``graph``.
        graph: with the masks that the model was fitted with; nodes that the fit used are refused where they are known.
        calibration: mask or positions; refused if it includes training or validation nodes, on which a model looks
            better than it is. If not given, :func:`~graphsde.datasets.splits.calibration.calibration_nodes`.
        size, seed: of the draw, if the graph has no calibration mask; without a size, all test nodes.
    """
    require_same_nodes(prediction, graph)
    if calibration is None:
        source = calibration_nodes(graph, size=size, seed=seed)
    else:
        source = CalibrationNodes(_given(calibration, graph), "given")
    truth, known = TRUTH.of(prediction)(prediction, graph)
    if graph.target_kind != prediction.target_kind:
        raise BadInput(f"{graph.name} has no {prediction.speaks_of} to calibrate with", code="E-NO-LABELS")
    mask = source.mask & known if graph.ood_mask is None else source.mask & known & ~graph.ood_mask
    _require_unseen(prediction, graph, mask)
    nodes = np.flatnonzero(mask)
    return HeldOut(nodes, truth[nodes], CalibrationNodes(mask, source.origin))


def validation_held(prediction: Prediction, graph: Graph) -> HeldOut:
    """The validation nodes with their labels, for what is fixed before any calibration label is used."""
    require_same_nodes(prediction, graph)
    truth, known = TRUTH.of(prediction)(prediction, graph)
    mask = graph.role("val") & graph.familiar & known & ~graph.role("ood")
    if not mask.any():
        raise BadUsage(
            f"'{graph.name}' has no labelled validation nodes to take thresholds from",
            code="E-SPLIT-EMPTY",
            expected="a mask named val",
            fix="fit with a split that has validation nodes, such as 'fractions'",
        )
    nodes = np.flatnonzero(mask)
    return HeldOut(nodes, truth[nodes], CalibrationNodes(mask, "validation"))


TRUTH: Rules[Callable[[Any, Graph], tuple[np.ndarray, np.ndarray]]] = Rules("the truth about a prediction")
"""The truth for every item, in the terms of a prediction, and for which items it is known.  # [N], [N] bool"""


def known_items(prediction: Prediction, graph: Graph) -> np.ndarray:
    """Items whose truth is known in the terms of a prediction.  # [N] bool"""
    return TRUTH.of(prediction)(prediction, graph)[1]


@TRUTH.register("classification")
def _true_classes(prediction: ClassPrediction, graph: Graph) -> tuple[np.ndarray, np.ndarray]:
    labels = align_labels(graph, prediction.class_names)
    return labels, labels != UNKNOWN


@TRUTH.register("regression")
def _true_values(prediction: RegressionPrediction, graph: Graph) -> tuple[np.ndarray, np.ndarray]:
    unknown = np.full(graph.num_nodes, np.nan) if graph.values is None else graph.values
    return unknown, ~np.isnan(unknown)


def too_few(found: int, needed: int, purpose: str, fix: str, *, of: str = "calibration nodes") -> BadInput:
    """``E-CAL-SMALL``: says how many nodes there are and how many are needed."""
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


def _require_unseen(prediction: Prediction, graph: Graph, calibration: np.ndarray) -> None:
    """Refuse nodes that the fit has used, which the roles of another graph object may not show."""
    if prediction.learned_from is None:
        return
    if seen := int((calibration & prediction.learned_from.among(graph)).sum()):
        raise BadUsage(
            f"{seen:,} of the {int(calibration.sum()):,} calibration nodes are nodes that the model was fitted on: "
            "this graph does not have the roles of the fit",
            code="E-CAL-USED",
            expected="the graph that the model was fitted on, or one with the same roles",
            fix="make the graph once, graph = gs.as_graph(data) or gs.split(graph), and use it to fit, predict and "
            "decide",
        )


def _given(calibration: np.ndarray, graph: Graph) -> np.ndarray:
    chosen = np.asarray(calibration)
    if chosen.dtype != bool:
        if chosen.size and (
            not np.issubdtype(chosen.dtype, np.integer) or chosen.min() < 0 or chosen.max() >= graph.num_nodes
        ):
            raise BadInput(
                "not valid positions of nodes",
                code="E-LEN",
                expected=f"integers from 0 to {graph.num_nodes - 1}",
            )
        chosen = mask_of(chosen.astype(np.int64), graph.num_nodes)
    if chosen.shape != (graph.num_nodes,):
        raise BadInput(
            f"the calibration mask has shape {chosen.shape}", code="E-LEN", expected=f"{graph.num_nodes} entries"
        )
    for role in ("train", "val"):
        if used := int((chosen & graph.role(role)).sum()):
            raise BadUsage(
                f"{used} of the calibration nodes are {role} nodes, on which the model looks better than it is",
                code="E-CAL-USED",
                fix="calibrate on nodes that training and selection have not seen",
            )
    return chosen
