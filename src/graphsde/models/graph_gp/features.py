"""Features as a kernel of nodes sees them: encoded, averaged over neighbours, centred."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from graphsde.data.encoding import FeatureEncoder, Scaling
from graphsde.data.graph import Graph
from graphsde.memory import require_memory


@dataclass(frozen=True)
class FeatureMap:
    """φ = (Â^hops X − m)/s, with the mean m over the nodes of the graph fitted on and s so that |φ|² is one on average.

    Args:
        encoder: makes X.
        hops: how often X is averaged.
        mean: m.  # [d]
        scale: s.
    """

    encoder: FeatureEncoder
    hops: int
    mean: np.ndarray
    scale: float

    @classmethod
    def fit(cls, graph: Graph, scaling: Scaling, hops: int) -> FeatureMap:
        encoder = FeatureEncoder.fit(graph, scaling)
        values = _averaged(encoder, graph, hops)
        mean = values.mean(axis=0, dtype=np.float64)
        scale = float(np.sqrt(np.square(values - mean).sum(axis=1).mean()))
        return cls(encoder, hops, mean, scale if scale > 0 else 1.0)

    def of(self, graph: Graph) -> Tensor:
        """φ of every node.  # [N, d] float32"""
        values = _averaged(self.encoder, graph, self.hops)
        return torch.from_numpy(((values - self.mean) / self.scale).astype(np.float32))

    def as_dict(self) -> dict[str, Any]:
        return {
            "encoder": self.encoder.as_dict(),
            "hops": self.hops,
            "mean": self.mean.tolist(),
            "scale": self.scale,
        }

    @classmethod
    def from_dict(cls, state: dict[str, Any]) -> FeatureMap:
        encoder = FeatureEncoder.from_dict(state["encoder"])
        return cls(encoder, state["hops"], np.array(state["mean"], dtype=np.float64), float(state["scale"]))


def _averaged(encoder: FeatureEncoder, graph: Graph, hops: int) -> np.ndarray:
    require_memory(24 * graph.num_nodes * encoder.width, "a kernel of features", "use features='none'")
    values: Any = encoder.transform(graph)
    for _ in range(hops):
        values = graph.adjacency.normalized @ values
    return values.toarray() if sp.issparse(values) else np.asarray(values)
