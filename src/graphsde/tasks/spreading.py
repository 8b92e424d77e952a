"""A ranked list of nodes made diverse: ten twins tell no more than one of them."""

from __future__ import annotations

import numpy as np

from graphsde.data.graph import Graph

CONNECTED = 0.5
"""How alike two connected nodes are at least: a label travels along edges by itself."""
LAST = 0.5
"""What the last node of the ranking is worth beside the first."""


def spread_out(ranked: np.ndarray, points: np.ndarray, graph: Graph, budget: int) -> np.ndarray:
    r"""Some of ``ranked``, greedily: high in the ranking and unlike what was chosen before.

    The next node maximises :math:`u_i (1 - \max_{j\,\text{chosen}} s_{ij})`, where u falls evenly from 1 for the first
    of the ranking to 0.5 for its last. The likeness :math:`s_{ij} = \exp(-d_{ij}^2 / 2h^2)`, with h half the median
    distance between ranked nodes, is 1 for twins and at least 0.5 for two nodes that share an edge.

    Args:
        ranked: positions, best first.  # [n]
        points: where every node lies.  # [N, k]
        graph: for the edges.
        budget: how many to choose.

    Returns:
        Positions in the order of the choice; the first of ``ranked`` is always among them.
    """
    worth = np.linspace(1.0, LAST, len(ranked))
    own = np.asarray(points[ranked], dtype=np.float64)
    links = (graph.adjacency.matrix + graph.adjacency.matrix.T).tocsr()[ranked][:, ranked] > 0
    width = _typical_distance(own) / 2
    likeness = np.zeros(len(ranked))
    left = np.ones(len(ranked), dtype=bool)
    chosen: list[int] = []
    while len(chosen) < min(budget, len(ranked)):
        # where all that is left has a twin among the chosen, the ranking decides
        best = int(np.where(left, worth * (1.0 - likeness) + 1e-9 * worth, -1.0).argmax())
        chosen.append(best)
        left[best] = False
        distance = np.square(own - own[best]).sum(axis=1)
        near = np.exp(-distance / (2 * width**2)) if width > 0 else (distance == 0).astype(float)
        near[links[[best]].indices] = np.maximum(near[links[[best]].indices], CONNECTED)
        np.maximum(likeness, near, out=likeness)
    return ranked[chosen]


def _typical_distance(points: np.ndarray, most: int = 500) -> float:
    """Median distance between the points; of the first ``most`` where there are more."""
    some = points[:most]
    square = np.square(some).sum(axis=1)
    distances = np.maximum(square[:, None] + square[None] - 2 * some @ some.T, 0.0)
    apart = distances[np.triu_indices(len(some), k=1)]
    return float(np.sqrt(np.median(apart))) if len(apart) else 0.0
