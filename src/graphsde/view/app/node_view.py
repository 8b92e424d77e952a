"""One node as the page shows it: what it is and who is around it, and apart from that what the model says of it."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp

from graphsde.base.registry import Rules
from graphsde.graph.graph import Graph
from graphsde.prediction import ClassPrediction, Prediction, RegressionPrediction
from graphsde.view.app.words import plain, share, small
from graphsde.view.figures.nodes import EgoNode, ego_network_svg, node_png, pixel_range
from graphsde.view.figures.style import class_colour

MOST_NEIGHBOURS = 8
MOST_BARS = 3
MOST_FACTS = 12
MOST_WORDS = 40
UNKNOWN = "#b4b9c1"
"""The colour of a node of which nothing is said."""


@dataclass(frozen=True)
class Near:
    """A neighbour.

    Args:
        name: its name, or its id where it has none.
        said: its class or number; empty where nothing is known and nothing may be guessed.
        known: whether that is its label, rather than what the model says.
    """

    position: int
    name: str
    said: str
    known: bool
    colour: str
    image: str | None


@dataclass(frozen=True)
class NodeView:
    """What the files say of a node; made by :func:`view_node`.

    Args:
        called: its id, and its name where it has one.
        picture: the address of a picture: its own pixels, else a drawing of its surroundings.
        pixels: whether it is the former.
        facts: columns by name, the telling ones first.
        words: names of the columns that it has, where features only say which it has.
        more_words: how many of these are not listed.
        neighbours: those with the heaviest edges first.
        degree: how many there are.
    """

    position: int
    called: str
    picture: str
    pixels: bool
    facts: list[tuple[str, str]]
    words: list[str]
    more_words: int
    neighbours: list[Near]
    degree: int


def view_node(graph: Graph, node: int, prediction: Prediction | None = None) -> NodeView:
    """A node with its surroundings.

    Args:
        graph: that it is of.
        node: its position.
        prediction: for what the model says of neighbours without a label, and for the colour of the node itself.
            Without it nothing in the view depends on the model: the person who labels must not be influenced.
    """
    limits = pixel_range(graph)
    say = SPEAKING.of(graph if prediction is None else prediction)(graph, prediction)
    around = _heaviest(graph, node)
    shown = [_near(graph, say, int(other), limits) for other in around]
    if limits is None:
        own, _, colour = say(node, False)
        centre = EgoNode(": ".join(filter(None, [name_of(graph, node), own])), colour)
        dots = [EgoNode(": ".join(filter(None, [one.name, one.said])), one.colour) for one in shown]
        links = graph.adjacency.matrix[around][:, around].toarray() > 0
        picture = svg_image(ego_network_svg(centre, dots, links))
    else:
        picture = node_png(graph, node, limits)
    words, more = ([], 0) if limits is not None else node_words(graph, node)
    facts = [] if limits is not None else node_facts(graph, node, numeric=not words)
    degree = int(graph.adjacency.degree[node])
    return NodeView(node, plain(graph.called(node)), picture, limits is not None, facts, words, more, shown, degree)


def name_of(graph: Graph, node: int) -> str:
    """The name of a node, or its id where it has none."""
    return plain(graph.node_name(node) or graph.node_ids[node])


def _heaviest(graph: Graph, node: int) -> np.ndarray:
    """The neighbours with the heaviest edges, the first of equals first."""
    incoming = graph.adjacency.incoming
    start, stop = incoming.indptr[node : node + 2]
    heaviest = np.argsort(-incoming.data[start:stop], kind="stable")[:MOST_NEIGHBOURS]
    return incoming.indices[start:stop][heaviest]


Say = Callable[[int, bool], tuple[str, bool, str]]
"""What is said of a node, whether that is known, and in which colour; ``True``: where its label may be shown."""
SPEAKING: Rules[Callable[[Graph, Any], Say]] = Rules("saying what a node is")


@SPEAKING.register("classification")
def _say_class(graph: Graph, prediction: ClassPrediction | None) -> Say:
    order = prediction.class_names if prediction is not None else graph.class_names
    place = {name: index for index, name in enumerate(order)}

    def say(node: int, label: bool) -> tuple[str, bool, str]:
        known = label and graph.labels is not None and bool(graph.labels[node] >= 0)
        if known:
            said = graph.class_names[graph.labels[node]]  # type: ignore[index]
        elif prediction is not None:
            said = prediction.label[node]
        else:
            return "", False, UNKNOWN
        return plain(said), known, class_colour(place[said]) if said in place else UNKNOWN

    return say


@SPEAKING.register("regression")
def _say_number(graph: Graph, prediction: RegressionPrediction | None) -> Say:
    values = np.full(graph.num_nodes, np.nan) if graph.values is None else graph.values
    known_values = values[np.isfinite(values)]
    scale = ValueScale.of(known_values if len(known_values) or prediction is None else prediction.mean)

    def say(node: int, label: bool) -> tuple[str, bool, str]:
        known = label and bool(np.isfinite(values[node]))
        if not known and prediction is None:
            return "", False, UNKNOWN
        said = float(values[node]) if known or prediction is None else float(prediction.mean[node])
        return f"{said:.4g}", known, scale.colour(said)

    return say


@dataclass(frozen=True)
class ValueScale:
    """Colours of numbers, from dark to light; the outermost hundredths don't stretch it."""

    low: float
    high: float

    @classmethod
    def of(cls, values: np.ndarray) -> ValueScale:
        low, high = np.quantile(values, [0.01, 0.99]).tolist() if len(values) else (0.0, 1.0)
        return cls(low, max(high, low + 1e-12))

    def colour(self, value: float) -> str:
        from plotly.colors import sample_colorscale

        place = min(max((value - self.low) / (self.high - self.low), 0.0), 1.0)
        return str(sample_colorscale("Viridis", [place])[0])


def _near(graph: Graph, say: Say, node: int, limits: tuple[float, float] | None) -> Near:
    said, known, colour = say(node, True)
    image = None if limits is None else node_png(graph, node, limits)
    return Near(node, name_of(graph, node), said, known, colour, image)


def pictures(graph: Graph, nodes: np.ndarray) -> list[str] | None:
    """A data URI for each node; ``None`` where the graph has no pictures."""
    limits = pixel_range(graph)
    return None if limits is None else [node_png(graph, int(node), limits) for node in nodes]


def svg_image(svg: str) -> str:
    """An inline drawing as the address of a picture: as such it is shown, and nothing in it can run."""
    style = "<style>line{stroke:#8a8f98}.ego-side{stroke-opacity:.35}</style>"
    opening, _, rest = str(svg).partition(">")  # escaped text of its own class would escape what we add
    named = opening.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"', 1)
    whole = f"{named}>{style}{rest}"
    return "data:image/svg+xml;base64," + base64.b64encode(whole.encode("utf-8")).decode("ascii")


def node_facts(graph: Graph, node: int, *, numeric: bool = True) -> list[tuple[str, str]]:
    """Text columns, then the numbers farthest from zero, by name; at most a dozen."""
    facts = [
        (plain(name), plain(column[node]))
        for name, column in graph.categorical.items()
        if column[node] is not None and column is not graph.node_names
    ]
    row = sp.csr_array(graph.features[[node]])
    order = np.argsort(-np.abs(row.data), kind="stable")[: max(0, MOST_FACTS - len(facts)) if numeric else 0]
    for at in order.tolist():
        facts.append((_column(graph, int(row.indices[at])), f"{float(row.data[at]):.4g}"))
    return facts[:MOST_FACTS]


def node_words(graph: Graph, node: int) -> tuple[list[str], int]:
    """Names of the columns that a node has, and how many are not listed, where features are words that it has or not.

    A row of zeros and ones with more columns than anyone would read as a table is taken for words.
    """
    row = sp.csr_array(graph.features[[node]])
    there = np.sort(row.indices[row.data != 0])
    if graph.features.shape[1] <= MOST_FACTS or not len(there) or not (row.data[row.data != 0] == 1).all():
        return [], 0
    return [_column(graph, int(column)) for column in there[:MOST_WORDS]], max(0, len(there) - MOST_WORDS)


def _column(graph: Graph, column: int) -> str:
    return f"column {column + 1}" if graph.feature_names is None else plain(graph.feature_names[column])


@dataclass(frozen=True)
class Bar:
    """A class with its probability."""

    label: str
    share: float
    colour: str


@dataclass(frozen=True)
class Guess:
    """What the model says of a node; made by :func:`guess_of`.

    Args:
        said: the class or the number.
        verdict: how that compares with what is known, in words.
        figures: how sure it is, by name.
        short: said, and how sure, in a few words.
        agrees: whether an answer is what the model says: the same class, or a number inside the interval.
        bars: the leading classes; none for numbers.
        band: of numbers: the low end, what is predicted, the high end and the known value (NaN where there is none),
            as places on the scale of all values, from 0 to 1.
    """

    said: str
    verdict: str
    figures: Mapping[str, str]
    short: str
    agrees: Callable[[str | float], bool]
    bars: list[Bar] = field(default_factory=list)
    band: tuple[float, float, float, float] | None = None


GUESSES: Rules[Callable[[Graph, Any, int], Guess]] = Rules("showing a guess")


def guess_of(graph: Graph, prediction: Prediction, node: int) -> Guess:
    """What the model says of the node at a position."""
    return GUESSES.of(prediction)(graph, prediction, node)


@GUESSES.register("classification")
def _class_guess(graph: Graph, prediction: ClassPrediction, node: int) -> Guess:
    known = graph.labels is not None and graph.labels[node] >= 0
    true = graph.class_names[graph.labels[node]] if known else None  # type: ignore[index]
    said = prediction.label[node]
    if graph.ood_nodes is not None and graph.ood_nodes[node]:
        verdict = "but the node is OOD"
    elif true is None:
        verdict = "its label is not known"
    else:
        verdict = "which is right" if true == said else f"but it is {plain(true)}"
    sure = share(prediction.confidence[node])
    figures = {
        "sure of it": sure,
        "total uncertainty": small(prediction.total[node]),
        "ambiguous by itself": small(prediction.aleatoric[node]),
    }
    if not np.isnan(prediction.epistemic[node]):
        figures["paths disagree"] = small(prediction.epistemic[node])
    probs = prediction.mean[node]
    top = np.argsort(-probs, kind="stable")[:MOST_BARS].tolist()
    bars = [Bar(plain(prediction.class_names[c]), float(probs[c]), class_colour(c)) for c in top]
    return Guess(plain(said), verdict, figures, f"{plain(said)} ({sure})", lambda answer: answer == said, bars)


@GUESSES.register("regression")
def _number_guess(graph: Graph, prediction: RegressionPrediction, node: int) -> Guess:
    low, high = (float(end[0]) for end in prediction.subset(np.array([node])).interval(0.9))
    true = float("nan") if graph.values is None else float(graph.values[node])
    said, between = f"{prediction.mean[node]:.4g}", f"{low:.4g} to {high:.4g}"
    if np.isnan(true):
        verdict = "its value is not known"
    else:
        verdict = f"the value is {true:.4g}, {'inside' if low <= true <= high else 'outside'} the interval"
    figures = {
        "90 % interval": between,
        "standard deviation": f"{np.sqrt(prediction.total[node]):.4g}",
        "noise of the node": f"{np.sqrt(prediction.aleatoric[node]):.4g}",
    }
    if not np.isnan(prediction.epistemic[node]):
        figures["not settled"] = f"{np.sqrt(prediction.epistemic[node]):.4g}"
    every = prediction.mean if graph.values is None else np.concatenate([prediction.mean, graph.values])
    bottom, top = min(low, float(np.nanmin(every))), max(high, float(np.nanmax(every)))
    places = [(value - bottom) / max(top - bottom, 1e-12) for value in (low, float(prediction.mean[node]), high, true)]
    return Guess(
        said,
        verdict,
        figures,
        f"{said} ({between})",
        lambda answer: low <= float(answer) <= high,
        band=(places[0], places[1], places[2], places[3]),
    )
