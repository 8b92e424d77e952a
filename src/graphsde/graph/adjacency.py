"""Edges: cleaned once, normalised once, shared by everything that needs them."""

from __future__ import annotations

import hashlib
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

if TYPE_CHECKING:
    from graphsde.graph.sparse import SparseMatrix

_NUMBERS_AT_ONCE = 1 << 20


class Adjacency:
    """The edges of a graph as a sparse matrix, and operators derived from it.

    Args:
        matrix: square, entry ``(i, j)`` is the weight of the edge from ``i`` to ``j``. It must be clean: no self loops,
            no duplicate entries, finite positive weights (:mod:`graphsde.graph.edges` makes it so).
        directed: whether ``matrix`` may be unsymmetric.

    The operators have the *receiving* node as row, so that ``operator @ H`` sends messages along the edges.
    They are built on first use and kept: a graph that only changes its masks shares this object.
    """

    def __init__(self, matrix: sp.csr_array, *, directed: bool = False) -> None:
        matrix = sp.csr_array(matrix, dtype=np.float32)
        matrix.sort_indices()
        self.matrix = matrix
        self.directed = directed

    @property
    def num_nodes(self) -> int:
        return int(self.matrix.shape[0])

    @property
    def num_edges(self) -> int:
        """Directed entries: an undirected edge counts twice, as PyG counts it."""
        return int(self.matrix.nnz)

    @cached_property
    def is_weighted(self) -> bool:
        return bool(self.num_edges) and not bool(np.all(self.matrix.data == 1.0))

    @cached_property
    def incoming(self) -> sp.csr_array:
        """Entry ``(i, j)`` is the weight of the edge from ``j`` to ``i``."""
        if not self.directed:
            return self.matrix
        transposed = sp.csr_array(self.matrix.T)
        transposed.sort_indices()
        return transposed

    @cached_property
    def degree(self) -> np.ndarray:
        """Number of incoming neighbours, self excluded.  # [N]"""
        return np.diff(self.incoming.indptr)

    @cached_property
    def isolated(self) -> np.ndarray:
        """Nodes with no edge in either direction.  # [N] bool"""
        return (self.degree == 0) & (np.diff(self.matrix.indptr) == 0)

    @cached_property
    def normalized(self) -> sp.csr_array:
        r"""Â = D̃^{-1/2} (A + I) D̃^{-1/2} with unit self loops, D̃ the incoming weight (Kipf and Welling, 2017)."""
        looped = sp.csr_array(self.incoming + sp.eye_array(self.num_nodes, dtype=np.float32, format="csr"))
        # float64 for the scaling, so that the operator does not depend on the order of summation
        scale = 1.0 / np.sqrt(looped.sum(axis=1, dtype=np.float64))
        rows = np.repeat(np.arange(self.num_nodes), np.diff(looped.indptr))
        looped.data = (looped.data * scale[rows] * scale[looped.indices]).astype(np.float32)
        looped.sort_indices()
        return looped

    @cached_property
    def random_walk(self) -> sp.csr_array:
        """P = D^{-1} A without self loops; the row of a node without neighbours is zero."""
        walk = self.incoming.copy()
        total = walk.sum(axis=1, dtype=np.float64)
        scale = np.divide(1.0, total, out=np.zeros_like(total), where=total > 0)
        rows = np.repeat(np.arange(self.num_nodes), np.diff(walk.indptr))
        walk.data = (walk.data * scale[rows]).astype(np.float32)
        return walk

    @cached_property
    def operator(self) -> SparseMatrix:
        """:attr:`normalized` as a torch operator with its transpose."""
        from graphsde.graph.sparse import SparseMatrix

        return SparseMatrix.from_scipy(self.normalized, symmetric=not self.directed)

    @cached_property
    def components(self) -> np.ndarray:
        """Label of the (weakly) connected component of each node.  # [N]"""
        return connected_components(self.matrix, directed=self.directed, connection="weak")[1]

    @cached_property
    def fingerprint(self) -> str:
        digest = hashlib.sha256(f"{self.num_nodes} {self.directed}".encode())
        update_digest(digest, self.matrix.indptr, "<i8")
        update_digest(digest, self.matrix.indices, "<i8")
        update_digest(digest, self.matrix.data)
        return digest.hexdigest()

    def neighbours(self, node: int) -> np.ndarray:
        """Positions of the incoming neighbours of ``node``."""
        start, stop = self.incoming.indptr[node : node + 2]
        return self.incoming.indices[start:stop]

    def edge_index(self) -> np.ndarray:
        """Edges as ``[2, E]`` rows of source and target, the layout of PyG."""
        coo = self.matrix.tocoo()
        return np.stack([coo.row, coo.col]).astype(np.int64)

    def subgraph(self, nodes: np.ndarray) -> Adjacency:
        """The edges among ``nodes`` (positions), renumbered in the order given."""
        return Adjacency(self.matrix[nodes][:, nodes], directed=self.directed)


def update_digest(digest: hashlib._Hash, values: np.ndarray, kind: str | None = None) -> None:
    """Update with the bytes of an array in C order, as ``kind`` if given; in blocks of rows.

    Example:
        >>> digest = hashlib.sha256()
        >>> update_digest(digest, np.arange(6).reshape(2, 3), "<i8")
        >>> digest.digest() == hashlib.sha256(np.arange(6, dtype="<i8").tobytes()).digest()
        True
    """
    if not values.ndim or not values.size:
        digest.update(values.tobytes())
        return
    rows = max(1, _NUMBERS_AT_ONCE // max(1, values[:1].size))
    for start in range(0, len(values), rows):
        part = values[start : start + rows]
        part = np.ascontiguousarray(part if kind is None else part.astype(kind, copy=False))
        digest.update(part.view(np.uint8).data)
