"""Every node as a row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from graphsde.acting.review import Review
from graphsde.base.registry import Rules
from graphsde.graph.graph import Graph
from graphsde.prediction import ClassPrediction, Prediction, RegressionPrediction
from graphsde.view.app.node_view import pictures
from graphsde.view.app.words import plain

if TYPE_CHECKING:
    import pyarrow as pa

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


@dataclass(frozen=True, eq=False)
class NodeTable:
    """One array per column, in the order of the graph; texts are cut and printable.

    Args:
        node: as people are shown it.
        predicted, true: classes, or numbers (NaN where unknown).
        outcome: one of ``outcomes``.
        role: in the split, ``none`` for nodes without one.
        total, aleatoric, epistemic: entropies of classes, standard deviations of numbers.
        degree: how many neighbours.
        outcomes: those there can be.
        uncertainty: what ``total`` is, in words.
        confidence: of classes.
        classes: positions of the predicted classes.
        interval: of numbers: the ends for some rows; found when they are shown, since that takes long.
    """

    node: np.ndarray
    predicted: np.ndarray
    true: np.ndarray
    outcome: np.ndarray
    role: np.ndarray
    total: np.ndarray
    aleatoric: np.ndarray
    epistemic: np.ndarray
    degree: np.ndarray
    outcomes: tuple[str, ...]
    uncertainty: str
    confidence: np.ndarray | None = None
    classes: np.ndarray | None = None
    interval: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]] | None = None


@dataclass(frozen=True)
class NodeFilter:
    """Filter of rows; an empty choice shows all.

    Args:
        roles: of the split (``train``, ``test``, …; ``none`` for nodes without one).
        predicted: predicted classes, by position.
        outcomes: of :attr:`NodeTable.outcomes`.
        least, most: bounds of the total uncertainty.
        text: part of the node's id or name.
    """

    roles: tuple[str, ...] = ()
    predicted: tuple[int, ...] = ()
    outcomes: tuple[str, ...] = ()
    least: float = 0.0
    most: float = float("inf")
    text: str = ""


TABLES: Rules[Callable[[Graph, Any], dict[str, Any]]] = Rules("a table of nodes")
"""The columns that differ between kinds of prediction."""


def node_table(graph: Graph, prediction: Prediction) -> NodeTable:
    """The table of all nodes.

    A label that the model was trained on says nothing about its quality, but the reader may still want to see it:
    ``true`` and ``outcome`` are shown for every labelled node, and ``role`` says which ones count.
    """
    role = np.full(graph.num_nodes, "none", dtype=f"U{max(map(len, ['none', *graph.masks]))}")
    for name, mask in graph.masks.items():
        role[mask] = name
    return NodeTable(
        node=np.array([plain(graph.called(row), 200) for row in range(graph.num_nodes)], dtype=object),
        role=role,
        degree=np.asarray(graph.adjacency.degree),
        **TABLES.of(prediction)(graph, prediction),
    )


@TABLES.register("classification")
def _classes(graph: Graph, prediction: ClassPrediction) -> dict[str, Any]:
    names = np.array([plain(name) for name in graph.class_names] + [""], dtype=object)
    labels = np.full(graph.num_nodes, -1) if graph.labels is None else graph.labels
    raw_names = np.array([*graph.class_names, None], dtype=object)
    right = raw_names[labels] == prediction.label
    outcome = np.where(labels < 0, "unknown", np.where(right, "right", "wrong"))
    if graph.ood_nodes is not None:
        outcome[graph.ood_nodes] = "ood"
    return {
        "predicted": np.array([plain(name) for name in prediction.class_names], dtype=object)[prediction.index],
        "true": names[labels],
        "outcome": outcome,
        "confidence": prediction.confidence,
        "total": prediction.total,
        "aleatoric": prediction.aleatoric,
        "epistemic": prediction.epistemic,
        "outcomes": ("right", "wrong", "ood", "unknown"),
        "uncertainty": "entropy",
        "classes": prediction.index,
    }


@TABLES.register("regression")
def _numbers(graph: Graph, prediction: RegressionPrediction) -> dict[str, Any]:
    true = np.full(graph.num_nodes, np.nan) if graph.values is None else graph.values
    known = np.isfinite(true)
    level = prediction.cdf(np.where(known, true, prediction.mean))
    inside = (level >= 0.05) & (level <= 0.95)
    return {
        "predicted": prediction.mean,
        "true": true,
        "outcome": np.where(~known, "unknown", np.where(inside, "inside", "outside")),
        "total": np.sqrt(prediction.total),
        "aleatoric": np.sqrt(prediction.aleatoric),
        "epistemic": np.sqrt(prediction.epistemic),
        "outcomes": ("inside", "outside", "unknown"),
        "uncertainty": "standard deviation",
        "interval": lambda rows: prediction.subset(rows).interval(0.9),
    }


def matching(table: NodeTable, wanted: NodeFilter) -> np.ndarray:
    """Positions of the nodes that pass, the most uncertain first."""
    keep = (table.total >= wanted.least) & (table.total <= wanted.most)
    if wanted.roles:
        keep &= np.isin(table.role, wanted.roles)
    if wanted.predicted and table.classes is not None:
        keep &= np.isin(table.classes, wanted.predicted)
    if wanted.outcomes:
        keep &= np.isin(table.outcome, wanted.outcomes)
    if wanted.text:
        needle = wanted.text.casefold()
        keep &= np.array([needle in node.casefold() for node in table.node], dtype=bool)
    rows = np.flatnonzero(keep)
    return rows[np.argsort(-table.total[rows], kind="stable")]


def columns_of(table: NodeTable, rows: np.ndarray) -> dict[str, Any]:
    """The columns that the page shows, for some rows; ``epistemic`` is left out where the model has none."""
    columns: dict[str, Any] = {"node": table.node[rows], "predicted": table.predicted[rows]}
    if table.interval is not None:
        columns["low"], columns["high"] = table.interval(rows)
    columns |= {name: getattr(table, name)[rows] for name in ("true", "outcome", "role")}
    if table.confidence is not None:
        columns["confidence"] = table.confidence[rows]
    columns |= {name: getattr(table, name)[rows] for name in ("total", "aleatoric")}
    if not np.isnan(table.epistemic).all():
        columns["epistemic"] = table.epistemic[rows]
    return columns | {"degree": table.degree[rows]}


@dataclass(frozen=True, eq=False)
class ShownRows:
    """What is sent of a choice of nodes.

    Args:
        count: how many pass the filter.
        nodes: positions of those that are shown.
        table: their rows.
    """

    count: int
    nodes: np.ndarray
    table: pa.Table


def shown_rows(graph: Graph, table: NodeTable, wanted: NodeFilter, limit: int = MOST_ROWS) -> ShownRows:
    """The first ``limit`` of the nodes that pass, with their pictures where they have any."""
    import pyarrow as pa

    rows = matching(table, wanted)
    shown = rows[:limit]
    images = pictures(graph, shown)
    columns = ({} if images is None else {"picture": images}) | columns_of(table, shown)
    return ShownRows(len(rows), shown, pa.table({name: pa.array(values) for name, values in columns.items()}))


def find_node(graph: Graph, text: str) -> int | None:
    """The position of the node with this id or, where no node has it, of the first with this name."""
    text = text.strip()
    if graph.node_ids.dtype == object:
        found = graph.position.get(text)
    else:
        found = graph.position.get(int(text)) if text.removeprefix("-").isdecimal() else None
    if found is None and graph.node_names is not None:
        wanted = text.casefold()
        names = enumerate(graph.node_names.tolist())
        return next((row for row, name in names if name is not None and str(name).casefold() == wanted), None)
    return found
