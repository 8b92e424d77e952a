"""A readable drawing of the graph: all of a small one, a part of a large one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from graphsde.base.seeds import numpy_stream
from graphsde.graph.graph import Graph
from graphsde.prediction import ClassPrediction
from graphsde.view.figures.style import VERMILLION, class_colour, layout, numbers, plot_text

if TYPE_CHECKING:
    import plotly.graph_objects as go

MOST_NODES = 400
MOST_EDGES = 4_000
Part = Literal["uncertain", "random", "around"]
Colour = Literal["uncertainty", "class"]


@dataclass(frozen=True, eq=False)
class Drawing:
    """Nodes with their places, and the edges among them.

    Args:
        nodes: positions in the graph.  # [n]
        places: coordinates.  # [n, 2]
        edges: pairs of rows of ``nodes``.  # [e, 2]
        whole: whether that is the whole graph.
    """

    nodes: np.ndarray
    places: np.ndarray
    edges: np.ndarray
    whole: bool


def choose_nodes(
    graph: Graph, prediction: ClassPrediction, part: Part, centre: int | None = None, limit: int = MOST_NODES
) -> np.ndarray:
    """Which nodes to draw, at most ``limit``, in the order of the graph.

    Args:
        part: ``around`` a node in widening rings, the most ``uncertain`` ones with their neighbours, or ``random``
            ones; a graph that is small enough is drawn whole, except ``around``.
    """
    if part == "around" and centre is not None:
        return np.sort(_rings(graph, np.array([centre]), min(limit, 120)))
    if graph.num_nodes <= limit:
        return np.arange(graph.num_nodes)
    if part == "random":
        return np.sort(numpy_stream(0, "page", "sample").permutation(graph.num_nodes)[:limit])
    first = np.argsort(-prediction.total, kind="stable")[: limit // 4]
    return np.sort(_rings(graph, first, limit))


def _rings(graph: Graph, start: np.ndarray, limit: int) -> np.ndarray:
    """Breadth first from ``start`` until ``limit`` nodes are seen."""
    matrix = graph.adjacency.matrix
    seen = np.zeros(graph.num_nodes, dtype=bool)
    chosen = start[:limit]
    ring = chosen
    seen[ring] = True
    while len(ring) and len(chosen) < limit:
        around = np.unique(matrix[ring].indices)
        ring = around[~seen[around]][: limit - len(chosen)]
        seen[ring] = True
        chosen = np.concatenate([chosen, ring])
    return chosen


def arrange(graph: Graph, nodes: np.ndarray) -> Drawing:
    """Places by a spring layout, the same every time."""
    import networkx as nx
    import scipy.sparse as sp

    inside = sp.triu(graph.adjacency.matrix[nodes][:, nodes], k=1).tocoo()
    pairs = np.stack([inside.row, inside.col], axis=1)
    if len(pairs) > MOST_EDGES:  # more lines would be a grey disc
        pairs = pairs[np.sort(numpy_stream(0, "page", "edges").permutation(len(pairs))[:MOST_EDGES])]
    network = nx.Graph()
    network.add_nodes_from(range(len(nodes)))
    network.add_edges_from(pairs.tolist())
    found = nx.spring_layout(network, k=1.6 / max(np.sqrt(len(nodes)), 1.0), iterations=60, seed=7)
    places = np.array([found[row] for row in range(len(nodes))], dtype=np.float64).reshape(-1, 2)
    return Drawing(nodes, _spread(places), pairs, whole=len(nodes) == graph.num_nodes)


def _spread(places: np.ndarray) -> np.ndarray:
    """Halfway between the places and their ranks: one stray component must not push all others into a corner."""
    if len(places) < 3:
        return places
    low, high = places.min(axis=0), places.max(axis=0)
    scaled = (places - low) / np.maximum(high - low, 1e-12)
    ranks = places.argsort(axis=0, kind="stable").argsort(axis=0, kind="stable") / (len(places) - 1)
    return (scaled + ranks) / 2


def draw(
    drawing: Drawing,
    graph: Graph,
    prediction: ClassPrediction,
    *,
    colour: Colour = "uncertainty",
    chosen: int | None = None,
) -> go.Figure:
    """Dots coloured by uncertainty or by predicted class, lines between them, the chosen node ringed.

    The last trace holds the nodes; its ``customdata`` are their positions in the graph.
    """
    import plotly.graph_objects as go

    x, y = drawing.places[:, 0], drawing.places[:, 1]
    first, second = drawing.edges[:, 0], drawing.edges[:, 1]
    gap = np.full(len(first), np.nan)
    lines = go.Scatter(
        x=numbers(np.stack([x[first], x[second], gap], axis=1).ravel()),
        y=numbers(np.stack([y[first], y[second], gap], axis=1).ravel()),
        mode="lines", line={"width": 0.6, "color": "rgba(128,128,128,0.35)"}, hoverinfo="skip", showlegend=False,
    )  # fmt: skip
    nodes = drawing.nodes
    texts = [
        f"node {plot_text(graph.called(node), 40)}<br>class {plot_text(prediction.label[node], 40)}, "
        f"{prediction.confidence[node]:.0%} sure<br>uncertainty {prediction.total[node]:.2f}"
        for node in nodes.tolist()
    ]
    marker: dict = {"size": 9 if len(nodes) > 150 else 13, "line": {"width": 0.5, "color": "rgba(0,0,0,0.45)"}}
    if colour == "class":
        marker["color"] = [class_colour(int(index)) for index in prediction.index[nodes]]
    else:
        marker |= {
            "color": numbers(prediction.total[nodes]),
            "colorscale": "Viridis",
            "cmin": 0.0,
            "cmax": max(float(prediction.total.max()), 1e-6),
            "colorbar": {"title": {"text": "uncertainty", "side": "right"}, "thickness": 10, "outlinewidth": 0},
        }
    dots = go.Scatter(
        x=numbers(x), y=numbers(y), mode="markers", marker=marker, customdata=nodes.tolist(), text=texts,
        hovertemplate="%{text}<extra></extra>", showlegend=False,
    )  # fmt: skip
    traces = [lines]
    if chosen is not None and (at := np.flatnonzero(nodes == chosen)).size:
        ring = {"size": 22, "color": "rgba(0,0,0,0)", "line": {"width": 3, "color": VERMILLION}}
        traces.append(
            go.Scatter(
                x=numbers(x[at]), y=numbers(y[at]), mode="markers", marker=ring, hoverinfo="skip", showlegend=False
            )
        )
    hidden = {"visible": False, "fixedrange": False}
    edge = {"l": 4, "r": 4, "t": 8, "b": 8}
    how = layout(height=560, xaxis=hidden, yaxis=hidden, margin=edge, clickmode="event+select", dragmode="pan")
    return go.Figure(data=[*traces, dots], layout=how)
