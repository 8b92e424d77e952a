"""Every node as a row, and the data of a single node."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from graphsde.acting.review import Review
from graphsde.graph.graph import Graph
from graphsde.prediction import ClassPrediction
from graphsde.view.app.words import plain
from graphsde.view.figures.nodes import node_png, pixel_range


def pictures(graph: Graph, nodes: np.ndarray) -> list[str] | None:
    """A data URI for each node; ``None`` if the graph has no images."""
    limits = pixel_range(graph)
    return None if limits is None else [node_png(graph, int(node), limits) for node in nodes]


def svg_image(svg: str) -> str:
    """An inline drawing as an image address, so that nothing in it can run."""
    style = "<style>line{stroke:#8a8f98}.ego-side{stroke-opacity:.35}</style>"
    opening, _, rest = str(svg).partition(">")  # escaped text of its own class would escape what we add
    named = opening.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"', 1)
    whole = f"{named}>{style}{rest}"
    return "data:image/svg+xml;base64," + base64.b64encode(whole.encode("utf-8")).decode("ascii")


MOST_FACTS = 12


def node_facts(graph: Graph, node: int) -> list[tuple[str, str]]:
    """Text columns, then the numbers farthest from zero, by name; at most a dozen."""
    facts = [
        (plain(name), plain(column[node])) for name, column in graph.categorical.items() if column[node] is not None
    ]
    row = sp.csr_array(graph.features[[node]])
    order = np.argsort(-np.abs(row.data), kind="stable")[: max(0, MOST_FACTS - len(facts))]
    for at in order.tolist():
        column = int(row.indices[at])
        name = f"column {column + 1}" if graph.feature_names is None else graph.feature_names[column]
        facts.append((plain(name), f"{float(row.data[at]):.4g}"))
    return facts[:MOST_FACTS]


MOST_ROWS = 1_000
FIRST_OF_REVIEW = ("rank", "id", "name", "label", "confidence", "mean", "importance", "reason")
IN_THE_FILE_ALONE = ("action", "class_1", "probability_1")


def review_rows(review: Review) -> dict[str, Any]:
    """The first rows of a review list as the page shows them: texts cut and printable, the reason before numbers."""
    rows = review.rows(MOST_ROWS)
    first = [name for name in FIRST_OF_REVIEW if name in rows[0]]
    shown = [*first, *(name for name in rows[0] if name not in (*first, *IN_THE_FILE_ALONE))]
    return {name: [_shown(row[name]) for row in rows] for name in shown}


def _shown(value: Any) -> Any:
    if isinstance(value, float):
        return round(value, 4)
    return plain(value, 200) if isinstance(value, str) else value


OUTCOMES = ("right", "wrong", "ood", "unknown")


@dataclass(frozen=True, eq=False)
class NodeTable:
    """One array per column, in the order of the graph; texts are cut and printable."""

    node: np.ndarray
    predicted: np.ndarray
    true: np.ndarray
    outcome: np.ndarray
    role: np.ndarray
    confidence: np.ndarray
    total: np.ndarray
    aleatoric: np.ndarray
    epistemic: np.ndarray
    degree: np.ndarray


@dataclass(frozen=True)
class NodeFilter:
    """Filter of rows; an empty choice shows all.

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


def node_table(graph: Graph, prediction: ClassPrediction) -> NodeTable:
    """The table of all nodes.

    A label that the model was trained on says nothing about its quality, but the reader may still want to see it:
    ``true`` and ``outcome`` are shown for every labelled node, and ``role`` says which ones count.
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
    if graph.ood_nodes is not None:
        outcome[graph.ood_nodes] = "ood"
    return NodeTable(
        node=np.array([plain(graph.called(row), 200) for row in range(graph.num_nodes)], dtype=object),
        predicted=predicted,
        true=names[labels],
        outcome=outcome,
        role=role,
        confidence=prediction.confidence,
        total=prediction.total,
        aleatoric=prediction.aleatoric,
        epistemic=prediction.epistemic,
        degree=np.asarray(graph.adjacency.degree),
    )


def matching(table: NodeTable, prediction: ClassPrediction, wanted: NodeFilter) -> np.ndarray:
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
        keep &= np.array([needle in node.casefold() for node in table.node], dtype=bool)
    rows = np.flatnonzero(keep)
    return rows[np.argsort(-table.total[rows], kind="stable")]


def columns_of(table: NodeTable, rows: np.ndarray) -> dict[str, Any]:
    """The columns that the page shows, for some rows; ``epistemic`` is left out if the model has none."""
    absent = "epistemic" if np.isnan(table.epistemic).all() else None
    return {name: values[rows] for name, values in vars(table).items() if name != absent}


def find_node(graph: Graph, text: str) -> int | None:
    """The position of the node with this id, as typed."""
    text = text.strip()
    if graph.node_ids.dtype == object:
        return graph.position.get(text)
    try:
        return graph.position.get(int(text))
    except ValueError:
        return None
