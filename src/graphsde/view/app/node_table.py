"""Every node as a row, and the rows a visitor wants to see."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from graphsde.data.graph import Graph
from graphsde.prediction import Prediction
from graphsde.view.app.words import plain

MOST_ROWS = 1_000
OUTCOMES = ("right", "wrong", "foreign", "unknown")


@dataclass(frozen=True, eq=False)
class NodeTable:
    """One array per column, in the order of the graph; texts are cut and printable."""

    node_ids: np.ndarray
    predicted: np.ndarray
    truth: np.ndarray
    role: np.ndarray
    outcome: np.ndarray
    confidence: np.ndarray
    total: np.ndarray
    aleatoric: np.ndarray
    epistemic: np.ndarray
    degree: np.ndarray


@dataclass(frozen=True)
class NodeFilter:
    """What a row must be to be shown; an empty choice leaves all.

    Args:
        roles: of the split (``train``, ``test``, …; ``none`` for nodes without one).
        predicted: predicted classes, by position.
        outcomes: of :data:`OUTCOMES`.
        least, most: bounds of the total uncertainty.
        text: part of the node's id.
    """

    roles: tuple[str, ...] = ()
    predicted: tuple[int, ...] = ()
    outcomes: tuple[str, ...] = ()
    least: float = 0.0
    most: float = float("inf")
    text: str = ""


def node_table(graph: Graph, prediction: Prediction) -> NodeTable:
    """The table of all nodes.

    A label that the model was trained on says nothing about its quality, but the reader may still want to see it:
    ``truth`` and ``outcome`` are given for every labelled node, and ``role`` says which ones count.
    """
    names = np.array([plain(name) for name in graph.class_names] + [""], dtype=object)
    labels = np.full(graph.num_nodes, -1) if graph.labels is None else graph.labels
    predicted = np.array([plain(name) for name in prediction.class_names], dtype=object)[prediction.index]
    raw_names = np.array([*graph.class_names, None], dtype=object)
    right = raw_names[labels] == prediction.label
    outcome = np.where(labels < 0, "unknown", np.where(right, "right", "wrong")).astype(object)
    role = np.full(graph.num_nodes, "none", dtype=object)
    for name, mask in graph.masks.items():
        role[mask] = name
    if graph.foreign is not None:
        outcome[graph.foreign] = "foreign"
    return NodeTable(
        node_ids=np.array([plain(node, 200) for node in graph.node_ids], dtype=object),
        predicted=predicted,
        truth=names[labels],
        role=role,
        outcome=outcome,
        confidence=prediction.confidence,
        total=prediction.total,
        aleatoric=prediction.aleatoric,
        epistemic=prediction.epistemic,
        degree=np.asarray(graph.adjacency.degree),
    )


def matching(table: NodeTable, prediction: Prediction, wanted: NodeFilter) -> np.ndarray:
    """Positions of the nodes that pass, the most uncertain first."""
    keep = (table.total >= wanted.least) & (table.total <= wanted.most)
    if wanted.roles:
        keep &= np.isin(table.role.astype(str), wanted.roles)
    if wanted.predicted:
        keep &= np.isin(prediction.index, wanted.predicted)
    if wanted.outcomes:
        keep &= np.isin(table.outcome.astype(str), wanted.outcomes)
    if wanted.text:
        needle = wanted.text.casefold()
        keep &= np.array([needle in node.casefold() for node in table.node_ids], dtype=bool)
    rows = np.flatnonzero(keep)
    return rows[np.argsort(-table.total[rows], kind="stable")]


def columns_of(table: NodeTable, rows: np.ndarray) -> dict[str, Any]:
    """The columns that the page shows, for some rows; ``epistemic`` is left out where the model has none."""
    shown: dict[str, Any] = {
        "node": table.node_ids[rows],
        "predicted": table.predicted[rows],
        "true": table.truth[rows],
        "outcome": table.outcome[rows],
        "role": table.role[rows],
        "confidence": table.confidence[rows],
        "total": table.total[rows],
        "aleatoric": table.aleatoric[rows],
    }
    if not np.isnan(table.epistemic).all():
        shown["epistemic"] = table.epistemic[rows]
    return shown | {"degree": table.degree[rows]}


def find_node(graph: Graph, text: str) -> int | None:
    """The position of the node with this id, as somebody typed it."""
    text = text.strip()
    if graph.node_ids.dtype == object:
        return graph.position.get(text)
    try:
        return graph.position.get(int(text))
    except ValueError:
        return None
