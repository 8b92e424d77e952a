"""The standard questions about a prediction: how often right, how well ranked, how well calibrated, what is foreign."""

from __future__ import annotations

import numpy as np

from graphsde.data.graph import UNLABELLED, Graph
from graphsde.errors import BadInput
from graphsde.prediction import Prediction
from graphsde.scores.metrics.summary import summarise, summarise_ood


def evaluate(prediction: Prediction, graph: Graph) -> dict[str, float]:
    """All metrics of ``prediction`` on the test nodes of ``graph``; foreign-node metrics where the split has any.

    Example:
        >>> import graphsde as gs
        >>> graph = gs.load("digits")
        >>> metrics = gs.evaluate(gs.LabelPropagation().fit(graph).predict(graph), graph)
        >>> metrics["n_test"]
        1297
    """
    labels = align_labels(graph, prediction.class_names)
    if graph.test_mask is None or not (graph.test_mask & (labels != UNLABELLED)).any():
        raise BadInput(
            f"{graph.name} has no labelled test nodes",
            code="E-SPLIT-EMPTY",
            fix="give test nodes in a split column, or choose --split fractions",
        )
    known = graph.test_mask & (labels != UNLABELLED)
    if graph.ood_mask is not None:
        known = known & ~graph.ood_mask
    metrics = summarise(prediction, labels, known)
    if graph.ood_mask is not None and graph.ood_mask.any():
        metrics |= summarise_ood(prediction, graph)
    return metrics


def align_labels(graph: Graph, class_names: tuple[str, ...]) -> np.ndarray:
    """Labels of ``graph`` as positions in ``class_names``, which may hold more classes or another order.  # [N]"""
    if graph.labels is None:
        return np.full(graph.num_nodes, UNLABELLED, dtype=np.int64)
    if graph.class_names == class_names:
        return graph.labels
    place = {name: position for position, name in enumerate(class_names)}
    table = np.array([place.get(name, UNLABELLED) for name in graph.class_names] + [UNLABELLED], dtype=np.int64)
    return table[graph.labels]  # -1 picks the last entry, which is "unlabelled"
