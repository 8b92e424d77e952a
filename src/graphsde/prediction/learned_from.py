"""Which nodes a fit has used: nothing may be calibrated on them, whatever the roles of the graph given later."""

from __future__ import annotations

import base64
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from graphsde.graph.graph import Graph

# rows whose features tell a copy of a graph from another graph on the same edges, such as a later snapshot
ROWS_COMPARED = 256


@dataclass(frozen=True, eq=False)
class LearnedFrom:
    """Nodes that a fit or a calibrator has used, recognised on any copy of the graph.

    Args:
        edges: fingerprint of the graph's edges.
        rows: sums over some rows of its features.  # [R]
        used: training and validation nodes, also of an earlier fit that was continued, and of a calibrator.
            # [N] bool
    """

    edges: str
    rows: np.ndarray
    used: np.ndarray

    @classmethod
    def of(cls, graph: Graph) -> Self | None:
        """What a fit on ``graph`` uses; ``None`` without edges, where nothing tells two graphs apart."""
        if not graph.num_edges:
            return None
        return cls(graph.adjacency.fingerprint, _some_rows(graph.features), graph.role("train") | graph.role("val"))

    def and_also(self, graph: Graph, nodes: np.ndarray) -> Self:
        """With the nodes of a calibrator or an earlier fit, if they are of the same graph.  # [N] bool"""
        if not (known := self.among(graph)).any():
            return self
        return replace(self, used=known | np.asarray(nodes, dtype=bool))

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for the file of a model."""
        bits = base64.b64encode(np.packbits(self.used).tobytes()).decode()
        return {"edges": self.edges, "rows": self.rows.tolist(), "nodes": len(self.used), "used": bits}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """What :meth:`as_dict` wrote."""
        packed = np.frombuffer(base64.b64decode(values["used"], validate=True), dtype=np.uint8)
        if len(packed) != -(-values["nodes"] // 8) or not isinstance(values["edges"], str):
            raise ValueError("it can't say which nodes were used")
        used = np.unpackbits(packed, count=values["nodes"]).astype(bool)
        return cls(values["edges"], np.array(values["rows"], dtype=np.float64), used)

    def among(self, graph: Graph) -> np.ndarray:
        """Nodes of ``graph`` that were used; none if it is another graph.  # [N] bool"""
        same = (
            len(self.used) == graph.num_nodes
            and graph.adjacency.fingerprint == self.edges
            and np.allclose(_some_rows(graph.features), self.rows, rtol=1e-5, atol=1e-6, equal_nan=True)
        )
        return self.used if same else np.zeros(graph.num_nodes, dtype=bool)


def _some_rows(features: Any) -> np.ndarray:
    """Sums over evenly spaced rows: cheap even where features are read from a file.  # [R]"""
    places = np.linspace(0, features.shape[0] - 1, min(features.shape[0], ROWS_COMPARED)).astype(np.int64)
    return np.asarray(features[places].sum(axis=1), dtype=np.float64).ravel()
