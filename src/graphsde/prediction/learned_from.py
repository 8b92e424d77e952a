"""Which nodes a fit has used: nothing may be calibrated on them, whatever the roles of the graph given later."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from graphsde.graph.graph import Graph


@dataclass(frozen=True, eq=False)
class LearnedFrom:
    """Training and validation nodes of a fit, recognised on any copy of its graph.

    Args:
        edges: fingerprint of the graph's edges.
        used: training and validation nodes.  # [N] bool
    """

    edges: str
    used: np.ndarray

    @classmethod
    def of(cls, graph: Graph) -> Self | None:
        """What a fit on ``graph`` uses; ``None`` without edges, where nothing tells two graphs apart."""
        if not graph.num_edges:
            return None
        return cls(graph.adjacency.fingerprint, graph.role("train") | graph.role("val"))

    def among(self, graph: Graph) -> np.ndarray:
        """Nodes of ``graph`` that were used; none if it is another graph.  # [N] bool"""
        same = len(self.used) == graph.num_nodes and graph.adjacency.fingerprint == self.edges
        return self.used if same else np.zeros(graph.num_nodes, dtype=bool)
