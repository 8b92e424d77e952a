"""A graph as plain scipy and numpy values."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from graphsde.graph.graph import Graph


def to_scipy(graph: Graph) -> tuple[np.ndarray | sp.csr_array, sp.csr_array, np.ndarray | None]:
    """Features, adjacency and labels, as copies that may be written to.

    Returns:
        numeric features, dense or CSR ([N, d] float32); the adjacency, whose row is the source ([N, N] float32);
        class positions with ``-1`` for unlabelled nodes ([N] int64), or ``None``.

    Example:
        >>> from graphsde.graph.build import from_arrays
        >>> features, adjacency, labels = to_scipy(from_arrays([[0.0], [1.0]], [[0], [1]], labels=["a", "b"]))
        >>> adjacency.toarray().tolist(), labels.tolist()
        ([[0.0, 1.0], [1.0, 0.0]], [0, 1])
    """
    labels = None if graph.labels is None else graph.labels.copy()
    return graph.features.copy(), graph.adjacency.matrix.copy(), labels
