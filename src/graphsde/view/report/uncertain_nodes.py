"""The nodes to look at first: the most uncertain ones, with what surrounds them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

from graphsde.graph.graph import Graph
from graphsde.prediction import ClassPrediction
from graphsde.view.figures.nodes import EgoNode, ego_network_svg, node_png, pixel_range
from graphsde.view.figures.style import class_colour
from graphsde.view.report.content import HOW_MANY, NOTHING, SHORT, JudgedNodes, name, number, percent

MAX_NEIGHBOURS = 8
MAX_BARS = 3


@dataclass(frozen=True)
class ProbabilityBar:
    label: str
    share: str
    width: str
    colour: str


@dataclass(frozen=True)
class Neighbour:
    position: int
    node: str
    label: str
    known: bool
    mistaken: str | None
    colour: str
    image: str | None


@dataclass(frozen=True)
class UncertainNode:
    """One row of the table, every entry ready to be printed."""

    position: int
    node: str
    image: str | None
    ego: Markup | None
    predicted: str
    truth: str
    verdict: str
    confidence: str
    total: str
    aleatoric: str
    epistemic: str
    degree: str
    bars: list[ProbabilityBar]
    neighbours: list[Neighbour]
    more_neighbours: int


def most_uncertain(
    graph: Graph, prediction: ClassPrediction, judged: JudgedNodes, limit: int = HOW_MANY
) -> list[UncertainNode]:
    """Rows for the shown nodes with the highest predictive entropy, the first of equals first."""
    order = np.argsort(-prediction.total[judged.shown], kind="stable")[:limit]
    return describe(graph, prediction, judged.shown[order].tolist())


def describe(graph: Graph, prediction: ClassPrediction, nodes: Sequence[int]) -> list[UncertainNode]:
    """Rows for the nodes at some positions, whatever their uncertainty."""
    painter = _RowMaker(graph, prediction)
    return [painter.row(node) for node in nodes]


class _RowMaker:
    def __init__(self, graph: Graph, prediction: ClassPrediction) -> None:
        self.graph = graph
        self.prediction = prediction
        self.range = pixel_range(graph)

    def row(self, node: int) -> UncertainNode:
        prediction = self.prediction
        around = self._neighbours(node)
        true = self._true_label(node)
        return UncertainNode(
            position=node,
            node=self._id(node),
            image=self._image(node),
            ego=self._ego(node, around),
            predicted=name(prediction.label[node], SHORT),
            truth=NOTHING if true is None else name(true, SHORT),
            verdict=self._verdict(node, true),
            confidence=percent(prediction.confidence[node]),
            total=number(prediction.total[node]),
            aleatoric=number(prediction.aleatoric[node]),
            epistemic=number(prediction.epistemic[node]),
            degree=f"{int(self.graph.adjacency.degree[node]):,}",
            bars=self._bars(node),
            neighbours=[self._neighbour(other) for other in around.tolist()],
            more_neighbours=int(self.graph.adjacency.degree[node]) - len(around),
        )

    def _id(self, node: int) -> str:
        return name(self.graph.called(node), SHORT)

    def _true_label(self, node: int) -> str | None:
        if self.graph.labels is None or not self.graph.labelled[node]:
            return None
        return self.graph.class_names[self.graph.labels[node]]

    def _verdict(self, node: int, true: str | None) -> str:
        if self.graph.ood_nodes is not None and self.graph.ood_nodes[node]:
            return "ood"
        if true is None:
            return ""
        return "right" if true == self.prediction.label[node] else "wrong"

    def _neighbours(self, node: int) -> np.ndarray:
        """The neighbours with the heaviest edges, the first of equals first."""
        incoming = self.graph.adjacency.incoming
        start, stop = incoming.indptr[node : node + 2]
        heaviest = np.argsort(-incoming.data[start:stop], kind="stable")[:MAX_NEIGHBOURS]
        return incoming.indices[start:stop][heaviest]

    def _neighbour(self, other: int) -> Neighbour:
        true, guess = self._true_label(other), self.prediction.label[other]
        return Neighbour(
            position=other,
            node=self._id(other),
            label=name(guess if true is None else true, SHORT),
            known=true is not None,
            mistaken=name(guess, SHORT) if true is not None and true != guess else None,
            colour=class_colour(int(self.prediction.index[other])),
            image=self._image(other),
        )

    def _bars(self, node: int) -> list[ProbabilityBar]:
        probs = self.prediction.mean[node]
        top = np.argsort(-probs, kind="stable")[:MAX_BARS].tolist()
        return [
            ProbabilityBar(
                label=name(self.prediction.class_names[column], SHORT),
                share=percent(probs[column]),
                width=f"{100 * probs[column]:.1f}",
                colour=class_colour(column),
            )
            for column in top
        ]

    def _image(self, node: int) -> str | None:
        return None if self.range is None else node_png(self.graph, node, self.range)

    def _ego(self, node: int, around: np.ndarray) -> Markup | None:
        if self.range is not None:
            return None
        dots = [
            EgoNode(
                f"{self._id(one)}: {name(self.prediction.label[one], SHORT)}",
                class_colour(int(self.prediction.index[one])),
            )
            for one in [node, *around.tolist()]
        ]
        links = self.graph.adjacency.matrix[around][:, around].toarray() > 0
        return Markup(ego_network_svg(dots[0], dots[1:], links))  # it has escaped the names itself
