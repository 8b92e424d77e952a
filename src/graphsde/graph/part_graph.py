"""The nodes of one part of a graph, with what was computed on the whole graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from graphsde.graph.adjacency import Adjacency
from graphsde.graph.graph import Graph

if TYPE_CHECKING:
    from graphsde.graph.halo import PartMatrix
    from graphsde.graph.sparse import SparseMatrix


class PartAdjacency(Adjacency):
    """A part's rows of the operator, without the edges themselves."""

    def __init__(self, operator: PartMatrix) -> None:
        self._part = operator

    @property
    def num_nodes(self) -> int:
        return self._part.shape[0]

    @property
    def num_edges(self) -> int:
        return self._part.nnz

    @property
    def operator(self) -> SparseMatrix:
        return self._part


@dataclass(frozen=True, eq=False)
class PartGraph(Graph):
    """Like a :class:`~graphsde.graph.graph.Graph`, of some nodes.

    Args:
        keys: of the nodes, for noise.  # [n] int64
        encoded: features as a network reads them, by scaling.
        whole: what was determined on the whole graph: settings, encoders, members of a race.
        tail_share: of the evidence, if needed.  # [n]
    """

    keys: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    encoded: Mapping[str, Any] = field(default_factory=dict)
    whole: Any = None
    tail_share: np.ndarray | None = None

    @property
    def familiar(self) -> np.ndarray:
        """All: masks are those of the whole graph already."""
        return np.ones(self.num_nodes, dtype=bool)
