"""Do neighbours agree? The first thing to know before averaging over them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from graphsde.data.adjacency import Adjacency


@dataclass(frozen=True)
class Homophily:
    """How often an edge joins two nodes of the same class.

    Args:
        edge: share of edges whose ends have the same class.
        adjusted: the same, corrected for what chance gives: 0 at random, 1 at best, negative where classes avoid
            each other. NaN where only one class has edges.
        edges: how many directed entries have a label at both ends.
    """

    edge: float
    adjusted: float
    edges: int


def homophily(adjacency: Adjacency, labels: np.ndarray) -> Homophily | None:
    r"""Edge homophily and adjusted homophily; ``None`` where no edge has a label at both ends.

    Platonov et al., "Characterizing graph datasets for node classification: homophily-heterophily dichotomy and
    beyond" (2023): ``h_adj = (h_edge - c) / (1 - c)`` with ``c = Σ_k out_k in_k / E²``, where ``out_k`` and ``in_k``
    are the edges that leave and enter class ``k``. Edge weights are not counted.

    Args:
        adjacency: the edges.
        labels: class positions, ``-1`` where unknown.  # [N]
    """
    sources, targets = adjacency.edge_index()
    one, other = labels[sources], labels[targets]
    known = (one >= 0) & (other >= 0)
    one, other = one[known], other[known]
    if not len(one):
        return None
    classes = int(max(one.max(), other.max())) + 1
    leaving = np.bincount(one, minlength=classes).astype(np.float64)
    entering = np.bincount(other, minlength=classes).astype(np.float64)
    edge = float(np.mean(one == other))
    chance = float(leaving @ entering) / len(one) ** 2
    adjusted = (edge - chance) / (1 - chance) if chance < 1 else float("nan")
    return Homophily(edge, adjusted, len(one))
