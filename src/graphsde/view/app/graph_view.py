"""A readable drawing of the graph: all of a small one, a part of a large one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from graphsde.base.registry import Rules
from graphsde.base.seeds import numpy_stream
from graphsde.graph.graph import Graph
from graphsde.prediction import ClassPrediction, Prediction, RegressionPrediction
from graphsde.view.app.node_view import ValueScale
from graphsde.view.figures.style import VERMILLION, class_colour, layout, numbers, plot_text

if TYPE_CHECKING:
    import plotly.graph_objects as go

MOST_NODES = 400
MOST_EDGES = 4_000
Part = Literal["uncertain", "random", "around"]
Colour = Literal["uncertainty", "answer"]


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
    graph: Graph, prediction: Prediction, part: Part, centre: int | None = None, limit: int = MOST_NODES
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


@dataclass(frozen=True)
class Shades:
    """Of some nodes: what the pointer shows over each, and the markers' colours by either choice."""

    texts: list[str]
    uncertainty: dict[str, Any]
    answer: dict[str, Any]


SHADES: Rules[Callable[[Any, np.ndarray], Shades]] = Rules("colouring nodes")


@SHADES.register("classification")
def _shades_of_classes(prediction: ClassPrediction, nodes: np.ndarray) -> Shades:
    texts = [
        f"class {plot_text(prediction.label[node], 40)}, {prediction.confidence[node]:.0%} sure"
        f"<br>uncertainty {prediction.total[node]:.2f}"
        for node in nodes.tolist()
    ]
    doubt = _scale("uncertainty", prediction.total[nodes], 0.0, float(prediction.total.max()))
    return Shades(texts, doubt, {"color": [class_colour(int(index)) for index in prediction.index[nodes]]})


@SHADES.register("regression")
def _shades_of_numbers(prediction: RegressionPrediction, nodes: np.ndarray) -> Shades:
    spread, said = np.sqrt(prediction.total), prediction.mean
    texts = [f"{said[node]:.4g}, give or take {spread[node]:.3g}" for node in nodes.tolist()]
    ends = ValueScale.of(said)
    return Shades(
        texts,
        _scale("standard deviation", spread[nodes], 0.0, float(spread.max())),
        _scale("predicted", said[nodes], ends.low, ends.high),
    )


def _scale(title: str, values: np.ndarray, low: float, high: float) -> dict[str, Any]:
    bar = {"title": {"text": title, "side": "right"}, "thickness": 10, "outlinewidth": 0}
    shown = {"color": numbers(values), "colorscale": "Viridis", "colorbar": bar}
    return shown | {"cmin": low, "cmax": max(high, low + 1e-6)}


def draw(
    drawing: Drawing,
    graph: Graph,
    prediction: Prediction,
    *,
    colour: Colour = "uncertainty",
    chosen: int | None = None,
) -> go.Figure:
    """Dots coloured by uncertainty or by what is predicted, lines between them, the chosen node ringed.

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
    shades = SHADES.of(prediction)(prediction, nodes)
    texts = [
        f"node {plot_text(graph.called(node), 40)}<br>{text}"
        for node, text in zip(nodes.tolist(), shades.texts, strict=True)
    ]
    marker: dict = {"size": 9 if len(nodes) > 150 else 13, "line": {"width": 0.5, "color": "rgba(0,0,0,0.45)"}}
    marker |= shades.uncertainty if colour == "uncertainty" else shades.answer
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
    how = layout(height=500, xaxis=hidden, yaxis=hidden, margin=edge, clickmode="event+select", dragmode="pan")
    return go.Figure(data=[*traces, dots], layout=how)
