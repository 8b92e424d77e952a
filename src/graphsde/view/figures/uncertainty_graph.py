"""Where on the graph the model is unsure, and what surrounds its least sure node."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from graphsde.data.graph import Graph
from graphsde.prediction import Prediction
from graphsde.view.figures.chart import Axis, Chart, Dots, Panel, Segments, Words
from graphsde.view.figures.graph_layout import spring_layout
from graphsde.view.figures.palette import GREEN
from graphsde.view.figures.picture import Picture

MOST_NODES = 1500
MOST_NEIGHBOURS = 14
MOST_EDGES = 6000


@dataclass(frozen=True, eq=False)
class UncertaintyGraph(Picture):
    """The graph (or the part around a node, where it is large) coloured by entropy, and that node's neighbours.

    Args:
        position: of the nodes drawn.  # [n, 2]
        entropy: of them, in nats.  # [n]
        edges: between them.  # [e, 2] places in ``position``
        node_ids, labels: what the pointer shows.  # [n] each
        centre: the place of the node that is looked at.
        top: ln C.
    """

    position: np.ndarray
    entropy: np.ndarray
    edges: np.ndarray
    node_ids: np.ndarray
    labels: np.ndarray
    centre: int
    top: float

    @classmethod
    def of(cls, graph: Graph, prediction: Prediction, node: int | None = None, *, seed: int = 0) -> UncertaintyGraph:
        """Around ``node``, the most uncertain test node unless said; a large graph is cut down to those nearest."""
        if node is None:
            pool = np.flatnonzero(graph.test_mask) if graph.test_mask is not None else np.arange(graph.num_nodes)
            degree = np.asarray(graph.adjacency.degree)[pool]
            linked = pool[degree > 0] if (degree > 0).any() else pool
            node = int(linked[np.argmax(prediction.total[linked])])
        whole = sp.csr_array(graph.adjacency.matrix)
        whole = sp.csr_array(whole.maximum(whole.T))
        rows = nearest(whole, node, MOST_NODES)
        part = sp.csr_array(whole[rows][:, rows])
        first, second = sp.coo_array(sp.triu(part, k=1)).coords
        return cls(
            spring_layout(part, seed=seed),
            prediction.total[rows],
            np.column_stack([first, second]),
            graph.node_ids[rows],
            prediction.label[rows],
            int(np.flatnonzero(rows == node)[0]),
            float(np.log(max(prediction.num_classes, 2))),
        )

    def chart(self) -> Chart:
        return Chart((self._whole(), self._zoom()), across=2, size=(4.4, 4.0), page_height=420)

    def _whole(self) -> Panel:
        drawn = self.edges[:: max(1, -(-len(self.edges) // MOST_EDGES))]
        lines = Segments(self.position[drawn[:, 0]], self.position[drawn[:, 1]], width=0.5, opacity=0.35)
        x, y = self.position.T
        dots = self._dots(np.arange(len(x)), self.position, 5.0, scale=False)
        ring = Dots(
            "looked at on the right", [x[self.centre]], [y[self.centre]], GREEN, "circle", False, 16.0, opacity=1.0
        )
        title = f"{len(x):,} nodes by entropy"
        return Panel(Axis(hidden=True), Axis(hidden=True), (lines, dots, ring), title=title)

    def _zoom(self) -> Panel:
        touching = self.edges[(self.edges == self.centre).any(axis=1)]
        around = np.setdiff1d(touching.ravel(), [self.centre])[:MOST_NEIGHBOURS]
        angle = 2 * np.pi * np.arange(len(around)) / max(len(around), 1)
        place = {self.centre: np.zeros(2)}
        place |= {int(n): np.array([np.cos(a), np.sin(a)]) for n, a in zip(around, angle, strict=True)}
        rows = np.array(list(place))
        spots = np.array([place[int(row)] for row in rows])
        kept = self.edges[np.isin(self.edges, rows).all(axis=1)]
        starts, ends = (np.array([place[int(n)] for n in kept[:, side]]).reshape(-1, 2) for side in (0, 1))
        dots = self._dots(rows, spots, 16.0, scale=True)
        words = tuple(
            Words(float(x), float(y) + 0.11, f"{self.labels[row]}", above=True)
            for row, (x, y) in zip(rows, spots, strict=True)
        )
        limits = (-1.5, 1.5)
        return Panel(
            Axis(limits=limits, hidden=True),
            Axis(limits=limits, hidden=True),
            (Segments(starts, ends, width=1.2, opacity=0.6), dots, *words),
            title=f"node {self.node_ids[self.centre]}: predicted classes around it",
        )

    def _dots(self, rows: np.ndarray, spots: np.ndarray, size: float, *, scale: bool) -> Dots:
        return Dots(
            "nodes",
            spots[:, 0],
            spots[:, 1],
            size=size,
            opacity=0.95,
            values=self.entropy[rows],
            value_name="entropy (nats)" if scale else "",
            value_limits=(0.0, self.top),
            texts=[f"{self.node_ids[row]}: {self.labels[row]}" for row in rows],
            legend=False,
            hover="%{text}<br>entropy %{marker.color:.3f}",
        )


def nearest(adjacency: sp.csr_array, node: int, limit: int) -> np.ndarray:
    """All nodes of a graph that has at most ``limit``, else those that a search from ``node`` meets first.  # [n]"""
    nodes = adjacency.shape[0]
    if nodes <= limit:
        return np.arange(nodes)
    order = sp.csgraph.breadth_first_order(adjacency, node, directed=False, return_predecessors=False)
    return np.sort(order[:limit])
