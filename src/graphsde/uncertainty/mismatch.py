"""How far a node's features are from those of its neighbours: the first sign of mixed or wrong features."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from graphsde.graph.graph import Graph
from graphsde.nn.encoding import FeatureEncoder

_ROWS_AT_ONCE = 8_192


def feature_mismatch(graph: Graph, encoder: FeatureEncoder) -> np.ndarray:
    """``1 − cos(x_i, mean of x_j over neighbours j)``, from 0 to 2.  # [N]

    0 if there is nothing to compare: no neighbours, or no features on one side. On a graph whose neighbours
    differ anyway, it is large for all nodes and says little.

    Args:
        graph: whose features and edges; of a directed graph the incoming ones, of a weighted graph with their weights.
        encoder: scales the features, so that long texts among the neighbours count no more than short ones.

    Example:
        >>> from graphsde.graph.build import from_arrays
        >>> graph = from_arrays(np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]), np.array([[0, 1], [1, 2]]))
        >>> plain = FeatureEncoder.fit(graph, "none")
        >>> feature_mismatch(graph, plain).round(6).tolist()
        [1.0, 1.0, 1.0]
    """
    features = encoder.transform(graph)
    walk = graph.adjacency.random_walk
    found = np.zeros(graph.num_nodes)
    for start in range(0, graph.num_nodes, _ROWS_AT_ONCE):
        part = slice(start, start + _ROWS_AT_ONCE)
        found[part] = _cosine_distance(features[part], walk[part] @ features)
    return found


def _cosine_distance(own: np.ndarray | sp.csr_array, others: np.ndarray | sp.csr_array) -> np.ndarray:
    product = _row_sums(_times(own, others))
    lengths = np.sqrt(_row_sums(_times(own, own)) * _row_sums(_times(others, others)))
    similar = np.divide(product, lengths, out=np.ones_like(product), where=lengths > 0)
    return 1.0 - np.clip(similar, -1.0, 1.0)


def _times(one: Any, two: Any) -> np.ndarray | sp.csr_array:
    return sp.csr_array(one.multiply(two)) if sp.issparse(one) else np.asarray(one * two)


def _row_sums(values: np.ndarray | sp.csr_array) -> np.ndarray:
    return np.asarray(values.sum(axis=1, dtype=np.float64)).ravel()
