"""Which nodes the report looks at, and on which of them the model can be told right from wrong."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from graphsde.data.graph import Graph
from graphsde.prediction import Prediction
from graphsde.tasks.evaluation import align_labels, judged_nodes


@dataclass(frozen=True, eq=False)
class JudgedNodes:
    """Nodes that are shown and nodes that count.

    Args:
        shown: test nodes, or all nodes where there is no test mask.  # [m] positions
        rows: those test nodes whose class is known to graph and model.  # [n] positions
        truth: their true class, as a column of the prediction.  # [n]
        right: whether the most probable class is the true one.  # [n] bool
        has_test: whether ``shown`` are test nodes.
    """

    shown: np.ndarray
    rows: np.ndarray
    truth: np.ndarray
    right: np.ndarray
    has_test: bool

    def __len__(self) -> int:
        return len(self.rows)


def judge(graph: Graph, prediction: Prediction) -> JudgedNodes:
    """Compare the prediction with the labels of test nodes.

    Without a test mask nothing is judged: labels that a model may have learned from prove nothing about it. Foreign
    nodes and classes that the model has no column for can't be right or wrong and are left out.
    """
    mask = graph.test_mask
    if mask is None or not mask.any():
        nobody = np.zeros(0, dtype=np.int64)
        return JudgedNodes(np.arange(graph.num_nodes), nobody, nobody, np.zeros(0, dtype=bool), has_test=False)
    column = align_labels(graph, prediction.class_names)
    rows = np.flatnonzero(judged_nodes(prediction, graph))
    right = prediction.index[rows] == column[rows]
    return JudgedNodes(np.flatnonzero(mask), rows, column[rows], right, has_test=True)
