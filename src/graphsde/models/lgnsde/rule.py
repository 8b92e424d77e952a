"""Which members of the family suit a graph, from what can be measured before a fit; its name is ignored."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from graphsde.graph.graph import Graph
from graphsde.graph.homophily import adjusted_homophily, nodes_with_open_labels
from graphsde.models.race import Candidate, listed_candidates
from graphsde.models.recipes import has_words

LISTENING = 0.4
"""Adjusted homophily from which on neighbours help; none of twelve graphs is between .10 and .67."""
MANY_LABELS = 100
"""Training nodes per class from which a network with more freedom does not overfit."""

SMOOTH = ("far", "noisy", "near", "near-free", "linear")
SMOOTH_MANY = ("far-free", "far", "near-free", "wide", "rest-free")
OWN = ("wide", "blocks", "rest", "rest-normed", "far")
OWN_MANY = ("rest-free", "rest", "blocks", "wide")
UNSURE = ("far", "near", "near-free", "wide", "blocks")
"""Members if neighbours agree, if they don't, each with few labels and with many; and if that is unknown."""


@dataclass(frozen=True)
class Choice:
    """Members for a graph, the likeliest first, and why."""

    members: tuple[str, ...]
    why: str

    def candidates(self) -> list[Candidate]:
        known = {one.name: one for one in listed_candidates("lgnsde")}
        return [known[name] for name in self.members]


def choose(graph: Graph) -> Choice:
    """The rule: a smooth member if neighbours agree, otherwise one that can ignore them.

    Homophily is that of edges among training and validation nodes; test labels are never used.

    Example:
        >>> import graphsde as gs
        >>> choose(gs.load("digits")).members[0]
        'far'
    """
    found, entries = adjusted_homophily(graph, nodes_with_open_labels(graph))
    rate = labels_per_class(graph)
    features = "words" if has_words(graph) else "columns"
    labels = f"{rate:.0f} training nodes a class, {features} as features"
    if found is None:
        return Choice(
            UNSURE, f"{entries} edge entries between labelled nodes are too few to measure homophily; {labels}"
        )
    told = f"adjusted homophily {found:.2f} over {entries} edge entries between labelled nodes; {labels}"
    many = rate >= MANY_LABELS
    if found < LISTENING:
        return Choice(OWN_MANY if many else OWN, f"neighbours tend to disagree: {told}")
    return Choice(SMOOTH_MANY if many else SMOOTH, f"neighbours agree: {told}")


def labels_per_class(graph: Graph) -> float:
    """Mean over the classes that are trained on."""
    if graph.labels is None or graph.train_mask is None or not graph.train_mask.any():
        return 0.0
    counts = np.bincount(graph.labels[graph.train_mask & (graph.labels >= 0)])
    return float(counts[counts > 0].mean())
