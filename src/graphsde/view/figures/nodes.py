"""Nodes and their surroundings: layouts, ego networks, explanations, small pixel images."""

from __future__ import annotations

import base64
import html
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from graphsde.acting.explain import Explanation
from graphsde.base.errors import shorten
from graphsde.base.seeds import numpy_stream
from graphsde.graph.graph import Graph
from graphsde.prediction import ClassPrediction
from graphsde.view.figures.chart import Axis, Bars, Chart, Dots, Panel, Segments, Words
from graphsde.view.figures.picture import Picture
from graphsde.view.figures.style import BLUE, GREEN, VERMILLION

MAX_SIDE = 64


def pixel_png(pixels: np.ndarray, low: float, high: float) -> str:
    """A data URI of the image, ``low`` as white and ``high`` as black, one byte per pixel.

    The browser enlarges it; an image wider or higher than 64 pixels is subsampled to that.

    Args:
        pixels: brightness values.  # [height, width]
        low, high: the range that all images of one graph share, so that they can be compared.

    Example:
        >>> pixel_png(np.eye(8), 0.0, 1.0)[:22]
        'data:image/png;base64,'
    """
    stride = max(1, -(-max(pixels.shape) // MAX_SIDE))
    small = np.asarray(pixels, dtype=np.float64)[::stride, ::stride]
    span = high - low if high > low else 1.0
    ink = np.nan_to_num(np.clip((small - low) / span, 0.0, 1.0))
    grey = (255 - np.rint(255 * ink)).astype(np.uint8)
    return "data:image/png;base64," + base64.b64encode(_png(grey)).decode("ascii")


def pixel_range(graph: Graph) -> tuple[float, float] | None:
    """Lowest and highest pixel of the graph, ``None`` if its features are not images."""
    shape, features = graph.image_shape, graph.features
    if shape is None or features.shape[1] != shape[0] * shape[1] or not features.shape[0]:
        return None
    return float(features.min()), float(features.max())


def node_png(graph: Graph, node: int, limits: tuple[float, float]) -> str:
    """The image of one node of a graph that has images."""
    assert graph.image_shape is not None
    row = sp.csr_array(graph.features[[node]]).toarray()  # dense or sparse, one row is cheap
    return pixel_png(row.reshape(graph.image_shape), *limits)


def _png(grey: np.ndarray) -> bytes:
    height, width = grey.shape
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)  # 8 bits, greyscale, no interlace
    rows = np.concatenate([np.zeros((height, 1), np.uint8), grey], axis=1)  # each row starts with filter 0
    parts = [_chunk(b"IHDR", header), _chunk(b"IDAT", zlib.compress(rows.tobytes(), 9)), _chunk(b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def _chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


ROUNDS = 300
REPELLING = 8


def spring_layout(adjacency: sp.csr_array, *, rounds: int = ROUNDS, seed: int = 0) -> np.ndarray:
    """Positions around the origin, the same for the same graph and seed.  # [N, 2]

    After Fruchterman and Reingold (1991): edges pull with d²/k, all nodes push with k²/d. Pushing is estimated from a
    few random others per round, so that a round costs edges plus nodes instead of nodes squared.

    Args:
        adjacency: symmetric.  # [N, N]
        rounds: of cooling down.
        seed: of the start and of the random others.
    """
    nodes = adjacency.shape[0]
    stream = numpy_stream(seed, "layout", nodes)
    place = stream.normal(size=(nodes, 2)) * np.sqrt(nodes)
    edges = sp.coo_array(sp.triu(adjacency, k=1))
    first, second = edges.coords
    degree = np.maximum(np.bincount(np.concatenate([first, second]), minlength=nodes), 1)[:, None]
    for turn in range(rounds):
        heat = np.sqrt(nodes) * 0.2 * (1.0 - turn / rounds) + 0.01
        apart = place[first] - place[second]
        length = np.linalg.norm(apart, axis=1, keepdims=True) + 1e-9
        pull = apart * length
        force = np.zeros_like(place)
        np.add.at(force, first, -pull)
        np.add.at(force, second, pull)
        force /= np.sqrt(degree)  # hubs would oscillate otherwise
        others = stream.integers(nodes, size=(nodes, min(REPELLING, nodes)))
        gap = place[:, None, :] - place[others]
        square = (gap**2).sum(-1, keepdims=True) + 0.05
        force += (gap / square).sum(1) * (nodes / REPELLING) * 0.35
        force -= 0.02 * place * np.sqrt(nodes) / 10  # parts without an edge between them must not drift off
        size = np.linalg.norm(force, axis=1, keepdims=True) + 1e-9
        place = place + force / size * np.minimum(size, heat)
    return place - place.mean(0)


SIZE = 132
RING = 48.0


@dataclass(frozen=True)
class EgoNode:
    """One dot: what the pointer shows over it, and its colour."""

    text: str
    colour: str


def ego_network_svg(centre: EgoNode, neighbours: Sequence[EgoNode], links: np.ndarray) -> str:
    """Inline SVG: the node in the middle, neighbours around it.

    Args:
        centre: the node itself.
        neighbours: around it, clockwise from the top.
        links: whether neighbours are connected among themselves, drawn thin.  # [k, k] bool

    Example:
        >>> svg = ego_network_svg(EgoNode("a", "#0072B2"), [EgoNode("b", "#E69F00")], np.zeros((1, 1), dtype=bool))
        >>> svg.count("<circle")
        2
    """
    middle = SIZE / 2
    angles = 2 * np.pi * np.arange(len(neighbours)) / max(len(neighbours), 1) - np.pi / 2
    x, y = middle + RING * np.cos(angles), middle + RING * np.sin(angles)
    parts = [f'<svg class="ego" viewBox="0 0 {SIZE} {SIZE}" width="{SIZE}" height="{SIZE}" role="img">']
    parts.append(f"<title>{_safe(centre.text)} and {len(neighbours)} of its neighbours</title>")
    pairs = np.argwhere(np.triu(links | links.T, k=1)).tolist()
    parts += [_line(x[first], y[first], x[second], y[second], "ego-side") for first, second in pairs]
    parts += [_line(middle, middle, *place, "ego-edge") for place in zip(x, y, strict=True)]
    parts += [_dot(at_x, at_y, 8, neighbour) for at_x, at_y, neighbour in zip(x, y, neighbours, strict=True)]
    return "".join([*parts, _dot(middle, middle, 12, centre), "</svg>"])


def _safe(text: str) -> str:
    return html.escape(shorten(text, 80))


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _dot(x: float, y: float, radius: int, node: EgoNode) -> str:
    place = f'cx="{x:.1f}" cy="{y:.1f}" r="{radius}"'
    return f'<circle {place} fill="{node.colour}"><title>{_safe(node.text)}</title></circle>'


MOST_NODES = 1500
MOST_NEIGHBOURS = 14
MOST_EDGES = 6000


@dataclass(frozen=True, eq=False)
class UncertaintyGraph(Picture):
    """The graph (or the part around a node, if it is large) coloured by entropy, and that node's neighbours.

    Args:
        position: of the nodes drawn.  # [n, 2]
        entropy: of them, in nats.  # [n]
        edges: between them.  # [e, 2] places in ``position``
        node_ids, labels: what the pointer shows.  # [n] each
        centre: the position of the selected node.
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
    def of(
        cls, graph: Graph, prediction: ClassPrediction, node: int | None = None, *, seed: int = 0
    ) -> UncertaintyGraph:
        """Around ``node``, by default the most uncertain test node; a large graph is reduced to the nearest nodes."""
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
            np.array([graph.called(int(row)) for row in rows], dtype=object),
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
        ring = Dots("shown on the right", [x[self.centre]], [y[self.centre]], GREEN, "circle", False, 16.0, opacity=1.0)
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
        axis = Axis(limits=(-1.5, 1.5), hidden=True)
        title = f"node {self.node_ids[self.centre]}: predicted classes around it"
        return Panel(axis, axis, (Segments(starts, ends, width=1.2, opacity=0.6), dots, *words), title=title)

    def _dots(self, rows: np.ndarray, spots: np.ndarray, size: float, *, scale: bool) -> Dots:
        texts = [f"{self.node_ids[row]}: {self.labels[row]}" for row in rows]
        return Dots(
            "nodes", spots[:, 0], spots[:, 1], size=size, opacity=0.95, values=self.entropy[rows],
            value_name="entropy (nats)" if scale else "", value_limits=(0.0, self.top), texts=texts, legend=False,
            hover="%{text}<br>entropy %{marker.color:.3f}",
        )  # fmt: skip


def nearest(adjacency: sp.csr_array, node: int, limit: int) -> np.ndarray:
    """All nodes of a graph with at most ``limit``, otherwise those that a search from ``node`` finds first.  # [n]"""
    nodes = adjacency.shape[0]
    if nodes <= limit:
        return np.arange(nodes)
    order = sp.csgraph.breadth_first_order(adjacency, node, directed=False, return_predecessors=False)
    return np.sort(order[:limit])


MOST = 10


@dataclass(frozen=True, eq=False)
class ExplanationBars(Picture):
    """Uncertainty that neighbours and features add to a node (right) or remove from it (left).

    Args:
        title: the node and its prediction.
        neighbours: names, the largest effect first.
        neighbour_adds: their effect, in nats or in standard deviations of numbers.
        features: names, the largest effect first.
        feature_adds: their effect, likewise.
        unit: of both, for the axes.
    """

    title: str
    neighbours: tuple[str, ...]
    neighbour_adds: tuple[float, ...]
    features: tuple[str, ...]
    feature_adds: tuple[float, ...]
    unit: str = "entropy added (nats)"

    @classmethod
    def of(cls, explanation: Explanation) -> ExplanationBars:
        around, own = explanation.neighbours[:MOST], explanation.features[:MOST]
        return cls(
            title=explanation.title,
            neighbours=tuple(explanation.neighbour_names()[:MOST]),
            neighbour_adds=tuple(one.adds for one in around),
            features=tuple(one.name for one in own),
            feature_adds=tuple(one.adds for one in own),
            unit=explanation.words.axis,
        )

    def chart(self) -> Chart:
        around = ("edges to neighbours", self.neighbours, self.neighbour_adds)
        own = ("own features", self.features, self.feature_adds)
        panels = [_panel(*part, self.unit) for part in (around, own) if part[1]]
        nothing = Panel(Axis(self.unit), Axis(), (), "nothing changes it")
        return Chart(tuple(panels or [nothing]), across=2, size=(4.2, 3.0), title=self.title)


def _panel(title: str, names: Sequence[str], adds: Sequence[float], unit: str) -> Panel:
    heights = np.arange(len(names))[::-1]  # the largest on top
    values = np.array(adds)
    marks = []
    for name, colour, pattern, chosen in (
        ("makes it less certain", VERMILLION, "/", values > 0),
        ("makes it more certain", BLUE, "", values <= 0),
    ):
        if chosen.any():
            marks.append(
                Bars(name, heights[chosen], values[chosen], 0.7, colour, pattern, horizontal=True,
                     hover="%{y}: %{x:.4g}")
            )  # fmt: skip
    return Panel(Axis(unit), Axis(names=tuple(reversed(names)), grid=False), tuple(marks), title)
