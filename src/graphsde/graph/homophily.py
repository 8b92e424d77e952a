"""How often neighbours share a class: over all labels, over some nodes, per node."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from graphsde.base.errors import BadUsage
from graphsde.graph.adjacency import Adjacency
from graphsde.graph.graph import Graph

FEWEST_EDGES = 20  # with fewer directed entries, adjusted homophily is chance
_EDGES_AT_ONCE = 1 << 21


@dataclass(frozen=True)
class Homophily:
    """How often an edge joins two nodes of the same class.

    Args:
        edge: share of edges whose ends have the same class.
        adjusted: the same, corrected for chance: 0 at random, 1 at best, negative if classes avoid
            each other. NaN if only one class has edges.
        edges: how many directed entries have a label at both ends.
    """

    edge: float
    adjusted: float
    edges: int


def homophily(adjacency: Adjacency, labels: np.ndarray) -> Homophily | None:
    r"""Edge homophily and adjusted homophily; ``None`` if no edge has a label at both ends.

    Platonov et al., "Characterizing graph datasets for node classification: homophily-heterophily dichotomy and
    beyond" (2023): ``h_adj = (h_edge - c) / (1 - c)`` with ``c = Σ_k out_k in_k / E²``, where ``out_k`` and ``in_k``
    are the edges that leave and enter class ``k``. Edge weights are ignored.

    Args:
        adjacency: the edges.
        labels: class positions, ``-1`` where unknown.  # [N]
    """
    classes = int(labels.max(initial=-1)) + 1
    leaving, entering = np.zeros(classes), np.zeros(classes)
    edges = alike = 0
    for sources, targets in _edge_blocks(adjacency):
        one, other = labels[sources], labels[targets]
        known = (one >= 0) & (other >= 0)
        one, other = one[known], other[known]
        leaving += np.bincount(one, minlength=classes)
        entering += np.bincount(other, minlength=classes)
        edges, alike = edges + len(one), alike + int(np.count_nonzero(one == other))
    if not edges:
        return None
    edge, chance = alike / edges, float(leaving @ entering) / edges**2
    return Homophily(edge, (edge - chance) / (1 - chance) if chance < 1 else float("nan"), edges)


def adjusted_homophily(graph: Graph, nodes_mask: np.ndarray) -> tuple[float | None, int]:
    """Adjusted homophily of the edges among some nodes; no other labels are used.

    Args:
        graph: with classes.
        nodes_mask: the nodes, such as training and validation nodes.  # [N] bool

    Returns:
        the value, and its number of directed entries (an undirected edge counts twice). The value is ``None``
        if there are fewer than :data:`FEWEST_EDGES`, if only one class has edges, and for regression.

    Example:
        >>> import numpy as np
        >>> from graphsde.graph.build import from_arrays
        >>> ring = np.stack([np.arange(12), np.roll(np.arange(12), -1)])
        >>> graph = from_arrays(np.eye(12), ring, labels=[0, 1] * 6)
        >>> adjusted_homophily(graph, np.ones(12, dtype=bool))
        (-1.0, 24)
    """
    mask = np.asarray(nodes_mask)
    if mask.shape != (graph.num_nodes,) or mask.dtype != bool:
        raise BadUsage(
            "not a mask of the graph's nodes",
            found=f"{mask.dtype} of shape {mask.shape}",
            expected=f"bool of shape ({graph.num_nodes},)",
        )
    if graph.labels is None:
        return None, 0
    measured = homophily(graph.adjacency, np.where(mask, graph.labels, -1))
    if measured is None:
        return None, 0
    known = measured.edges >= FEWEST_EDGES and not np.isnan(measured.adjusted)
    return (measured.adjusted if known else None), measured.edges


def nodes_with_open_labels(graph: Graph) -> np.ndarray:
    """Nodes whose labels may be used before evaluation: training and validation nodes, or all if the
    graph has no roles yet.  # [N] bool"""
    return graph.role("train") | graph.role("val") if graph.masks else np.ones(graph.num_nodes, dtype=bool)


def node_homophily(graph: Graph) -> np.ndarray:
    """Share of the labelled neighbours of each node that have its class; NaN without any, or without a label.

    Pei et al., "Geom-GCN: geometric graph convolutional networks" (2020). Neighbours are incoming ones;
    weights are not counted.  # [N]
    """
    if graph.labels is None:
        raise BadUsage("homophily needs classes, and this graph is for regression", code="E-TARGET")
    neighbours, alike = (np.zeros(graph.num_nodes, dtype=np.int64) for _ in range(2))
    for sources, targets in _edge_blocks(graph.adjacency):
        both = (graph.labels[sources] >= 0) & (graph.labels[targets] >= 0)
        sources, targets = sources[both], targets[both]
        neighbours += np.bincount(targets, minlength=graph.num_nodes)
        alike += np.bincount(targets[graph.labels[sources] == graph.labels[targets]], minlength=graph.num_nodes)
    unknown = np.full(graph.num_nodes, np.nan)
    return np.divide(alike, neighbours, out=unknown, where=neighbours > 0)


def _edge_blocks(adjacency: Adjacency) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Sources and targets of the entries, in blocks: all at once would need more than the matrix."""
    indptr, indices = adjacency.matrix.indptr, adjacency.matrix.indices
    for first in range(0, len(indices), _EDGES_AT_ONCE):
        last = min(first + _EDGES_AT_ONCE, len(indices))
        begin, end = int(np.searchsorted(indptr, first, side="right")) - 1, int(np.searchsorted(indptr, last))
        each = np.diff(np.clip(indptr[begin : end + 1], first, last))
        yield np.repeat(np.arange(begin, end), each), indices[first:last]
