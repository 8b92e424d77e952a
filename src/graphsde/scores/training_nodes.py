"""What a score learns from: the embeddings of the training nodes and their classes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from graphsde.errors import BadInput, BadUsage
from graphsde.prediction import NumericPrediction, Prediction

if TYPE_CHECKING:
    from graphsde.data.graph import Graph

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
        """Embeddings less the mean of their class.  # [n, h]"""
        return self.embedding - self.means[self.group]


def training_nodes(prediction: Prediction, graph: Graph) -> TrainingNodes:
    """The labelled training nodes of ``graph`` in the embedding of ``prediction``, which must be of that graph."""
    embedding = embedding_of(prediction)
    require_same_nodes(prediction, graph)
    labels = align_labels(graph, prediction.class_names)
    train = np.zeros(graph.num_nodes, dtype=bool) if graph.train_mask is None else graph.train_mask
    nodes = np.flatnonzero(train & (labels != UNKNOWN))
    if len(nodes) == 0:
        raise BadUsage(
            f"the graph '{graph.name}' has no labelled training nodes to learn from",
            code="E-SCORE",
            fix="give reference=(prediction, graph) of the graph that the model was fitted on",
        )
    classes, group = np.unique(labels[nodes], return_inverse=True)
    return TrainingNodes(embedding[nodes], group, classes)


def embedding_of(prediction: Prediction) -> np.ndarray:
    """The embedding in float64.  # [N, h]"""
    if prediction.embedding is None:
        raise BadUsage("this prediction has no embedding", code="E-SCORE", fix="use a score that reads probabilities")
    return prediction.embedding.astype(np.float64)


def require_same_nodes(prediction: Prediction | NumericPrediction, graph: Graph) -> None:
    if prediction.num_nodes != graph.num_nodes:
        raise BadInput(
            f"a prediction of {prediction.num_nodes} nodes does not fit a graph of {graph.num_nodes} nodes",
            code="E-LEN",
            expected="the graph that was predicted on",
        )


def align_labels(graph: Graph, class_names: tuple[str, ...]) -> np.ndarray:
    """Labels of ``graph`` as positions in ``class_names``, which may hold more classes or another order.  # [N]

    −1 where there is no label, or one that is not in ``class_names``.
    """
    if graph.labels is None:
        return np.full(graph.num_nodes, UNKNOWN, dtype=np.int64)
    if graph.class_names == class_names:
        return graph.labels
    place = {name: position for position, name in enumerate(class_names)}
    table = np.array([place.get(name, UNKNOWN) for name in graph.class_names] + [UNKNOWN], dtype=np.int64)
    return table[graph.labels]  # -1 picks the last entry, which is "unknown"
