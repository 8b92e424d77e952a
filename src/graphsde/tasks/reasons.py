"""Why a node is worth a label, in words."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from graphsde.data.graph import Graph
from graphsde.errors import shorten
from graphsde.prediction import NumericPrediction, Prediction
from graphsde.scores.training_nodes import align_labels

AGREED = 0.6
"""Below this share of the samples for one class, they are said to disagree."""
CLOSE = 0.15
"""A gap between the two most probable classes below this is called close."""
FAR = 0.95
"""A node farther from all training nodes than this share of the nodes is called unlike them."""
SURE = 0.8
"""From this probability on there is no doubt worth telling."""
UNSETTLED = 0.3
"""From this share of a number's variance on, it is the model that has not settled."""
MOST = 2

OF_THE_ACQUISITION = {
    "random": "drawn at random",
    "stratified-random": "drawn at random among nodes predicted as this class",
    "pagerank": "many paths through the graph lead to it",
    "density": "stands amid many similar nodes",
    "coreset": "farthest from the nodes labelled so far",
    "featprop": "stands for a group of similar nodes",
    "graphpart": "stands for a part of the graph with few labels",
    "age": "a mixture of doubt, density and centrality",
}


class Reasons:
    """Tells for one node after another what speaks for asking; looks at no label outside the training nodes.

    Args:
        prediction: of all nodes of ``graph``.
        graph: with its training mask.
        by: the acquisition that chose.
    """

    def __init__(self, prediction: Prediction | NumericPrediction, graph: Graph, by: str) -> None:
        self.graph, self.by = graph, by
        self.prediction: Any = prediction
        self.numeric = isinstance(prediction, NumericPrediction)

    def of(self, node: int) -> str:
        """At most two reasons, the strongest first."""
        kinds: tuple[Callable[[int], str | None], ...]
        if self.numeric:
            kinds = (self._unsettled, self._strangeness, self._width)
        else:
            kinds = (self._disagreement, self._evidence, self._strangeness, self._doubt, self._surroundings)
        told = [OF_THE_ACQUISITION.get(self.by), *(reason(node) for reason in kinds)]
        words = [reason for reason in told if reason is not None]
        return "; ".join(words[:MOST]) or f"the least sure of those left: {self._shares(node, 1)}"

    def _unsettled(self, node: int) -> str | None:
        share = float(self.prediction.epistemic[node] / self.prediction.total[node])
        return f"the samples disagree: {100 * share:.0f} % of the variance" if share > UNSETTLED else None

    def _width(self, node: int) -> str:
        spread = float(np.sqrt(self.prediction.total[node]))
        return f"a wide guess: {self.prediction.mean[node]:.4g}, give or take {spread:.3g}"

    def _disagreement(self, node: int) -> str | None:
        if self.prediction.kind != "samples" or self.prediction.num_samples < 2:
            return None
        votes = np.bincount(self.prediction.probs[:, node].argmax(-1), minlength=self.prediction.num_classes)
        if votes.max() >= AGREED * votes.sum():
            return None
        first, second = np.argsort(-votes, kind="stable")[:2]
        total = int(votes.sum())
        return (
            f"the samples disagree: {int(votes[first])} of {total} say {self._name(first)}, "
            f"{int(votes[second])} say {self._name(second)}"
        )

    def _evidence(self, node: int) -> str | None:
        if self.prediction.kind != "dirichlet" or self.prediction.alpha is None:
            return None
        vacuity = self.prediction.num_classes / float(self.prediction.alpha[node].sum())
        return f"little evidence: vacuity {_share(vacuity)}" if vacuity > 0.5 else None

    def _strangeness(self, node: int) -> str | None:
        distance = self._distance
        if distance is None:
            return None
        nearer = float((distance < distance[node]).mean())
        if nearer < FAR:
            return None
        return f"unlike any training node: farther from them than {int(100 * nearer)} % of the nodes"

    def _doubt(self, node: int) -> str | None:
        ranked = np.sort(self.prediction.mean[node])[::-1]
        if ranked[0] >= SURE:
            return None
        several = len(ranked) > 2 and ranked[0] - ranked[2] < CLOSE
        if several:
            return f"several classes are close: {self._shares(node, 3)}"
        if ranked[0] - ranked[1] < CLOSE:
            return f"two classes are close: {self._shares(node, 2)}"
        return f"no class is sure: {self._shares(node, 2)}"

    def _surroundings(self, node: int) -> str | None:
        around = self.graph.adjacency.neighbours(node)
        if not len(around):
            return "it has no neighbours"
        counts = np.bincount(self._seen[around], minlength=self.prediction.num_classes)
        if counts.max() > AGREED * len(around) or np.count_nonzero(counts) < 2:
            return None
        order = np.argsort(-counts, kind="stable")[:2]
        shown = ", ".join(f"{self._name(c)} ({int(counts[c])})" for c in order)
        return f"its {len(around)} neighbours are of different classes: {shown}"

    def _shares(self, node: int, most: int) -> str:
        probs = self.prediction.mean[node]
        order = np.argsort(-probs, kind="stable")[:most]
        return ", ".join(f"{self._name(c)} {_share(probs[c])}" for c in order)

    def _name(self, position: int) -> str:
        return shorten(self.prediction.class_names[int(position)], 40)

    @cached_property
    def _seen(self) -> np.ndarray:
        """The class of every node as far as the model knows it: its label in training, else the prediction.  # [N]"""
        seen = self.prediction.index.copy()
        if self.graph.train_mask is not None:
            labels = align_labels(self.graph, self.prediction.class_names)
            known = self.graph.train_mask & (labels >= 0)
            seen[known] = labels[known]
        return seen

    @cached_property
    def _distance(self) -> np.ndarray | None:
        """Squared distance of every node from the nearest training node, in the embedding.  # [N]"""
        train = self.graph.train_mask
        if self.prediction.embedding is None or train is None or not train.any():
            return None
        points = self.prediction.embedding.astype(np.float64)
        known = points[train]
        square = np.square(known).sum(axis=1)
        result = np.empty(len(points))
        rows = max(1, 4_000_000 // len(known))  # a few tens of megabytes at a time
        for first in range(0, len(points), rows):
            block = points[first : first + rows]
            gaps = np.square(block).sum(axis=1)[:, None] + square - 2 * block @ known.T
            result[first : first + rows] = gaps.min(axis=1)
        return np.maximum(result, 0.0)


def _share(value: float) -> str:
    """``.46``: shorter than 0.46 where many stand in a line."""
    text = f"{float(value):.2f}"
    return text[1:] if text.startswith("0") else text
