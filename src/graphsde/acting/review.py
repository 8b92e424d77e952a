"""The review list: nodes for a person to review, ranked, each with a reason in plain words."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from graphsde.base.errors import BadInput, BadUsage, UnknownName, shorten
from graphsde.base.registry import Rules
from graphsde.graph.graph import Graph
from graphsde.prediction import ClassPrediction
from graphsde.prediction.columns import roles_of, with_node_names
from graphsde.uncertainty.held_out import align_labels
from graphsde.uncertainty.multiple_testing import conformal_p_values

if TYPE_CHECKING:
    import pandas as pd

    from graphsde.acting.decisions import ClassDecisions, Decisions, RegressionDecisions

Importance = str | np.ndarray
TOP = 3
CLOSE = 0.15
"""Classes whose probabilities are closer than this are almost equally likely."""
SURE = 0.8
"""From this probability on, no other class is worth mentioning."""
STRANGE = 0.01
"""A node with a smaller OOD p-value is described as unlike others, flagged or not."""
LARGE = 0.5
"""A larger OOD p-value says nothing: without calibration nodes all are 1."""
MOST_REASONS = 2
NEAR_NAMES = 5
ROWS_AT_ONCE = 4096


@dataclass(frozen=True, eq=False)
class Review:
    """Nodes for a person to review, most urgent first; made by ``Decisions.review``.

    Args:
        nodes: their positions in the graph.  # [n]
        table: one array per column.
        ordered_by: what the order follows, in words.
        known: how many nodes that were not accepted are left out because their label is known.
    """

    nodes: np.ndarray
    table: dict[str, Any]
    ordered_by: str
    known: int

    def __len__(self) -> int:
        return len(self.nodes)

    def columns(self) -> dict[str, Any]:
        """One array per column, for a table with a row per node."""
        return dict(self.table)

    def rows(self, most: int | None = None) -> list[dict[str, Any]]:
        """The first ``most`` rows as plain values; all by default."""
        count = len(self) if most is None else min(most, len(self))
        plain = {name: np.asarray(values, dtype=object)[:count] for name, values in self.table.items()}
        return [
            {name: value.item() if isinstance(value := values[row], np.generic) else value
             for name, values in plain.items()}
            for row in range(count)
        ]  # fmt: skip

    def to_pandas(self) -> pd.DataFrame:
        """One row per node, with the columns of ``review.csv``.

        Raises:
            MissingExtra: pandas is not installed.
        """
        from graphsde.io.pandas_frames import require_pandas

        return require_pandas().DataFrame(self.table)


def review_list(decisions: Decisions, importance: Importance | None = None, *, known: bool = False) -> Review:
    """The nodes that were not accepted and have no known label, ranked.

    The most uncertain come first: those with the smallest share of calibration nodes that are at least as uncertain, or
    at least as unusual (the OOD p-value), whichever share is smaller. With ``importance`` the largest come first, and
    uncertainty breaks ties.

    Args:
        decisions: made by :func:`graphsde.decide`.
        importance: the name of a numeric column of the graph, ``degree``, or a number per node.
        known: list nodes whose label is known as well.
    """
    graph, rule = decisions.graph, decisions.abstention
    left = decisions.actions != "accept"
    unlabelled = np.ones(graph.num_nodes, dtype=bool) if known else ~graph.labelled
    nodes = np.flatnonzero(left & unlabelled)
    doubt = conformal_p_values(rule.values[nodes], rule.values[rule.calibration])
    if decisions.strangeness is not None:
        doubt = np.minimum(doubt, decisions.strangeness.p_values[nodes])
    keys = [-rule.values[nodes], doubt]
    ordered_by = "most uncertain first"
    worth = None
    if importance is not None:
        name, worth = importance_of(graph, importance)
        keys.append(-worth[nodes])
        ordered_by = f"largest {name} first, then most uncertain"
    nodes = nodes[np.lexsort(keys)]
    columns: dict[str, Any] = {
        "rank": np.arange(1, len(nodes) + 1),
        "id": graph.node_ids[nodes],
        "split": roles_of(graph)[nodes],
        **REVIEWED.of(decisions.prediction)(decisions, nodes),
    }
    if worth is not None:
        columns["importance"] = worth[nodes]
    columns["reason"] = columns.pop("reason")  # the longest text comes last
    return Review(nodes, with_node_names(columns, graph), ordered_by, int((left & ~unlabelled).sum()))


def importance_of(graph: Graph, importance: Importance) -> tuple[str, np.ndarray]:
    """Name and value of every node's importance.  # [N]

    Raises:
        UnknownName: no column has the name; the message lists similar names.
        BadUsage: the column has text, or there is not one finite number per node.
    """
    if not isinstance(importance, str):
        values = np.asarray(importance, dtype=np.float64)
        if values.shape != (graph.num_nodes,) or not np.isfinite(values).all():
            raise BadInput(
                f"importance must be a finite number for each of {graph.num_nodes:,} nodes, not {values.shape}",
                code="E-LEN",
                expected="one finite number per node, in the order of the graph",
            )
        return "importance", values
    names = list(graph.feature_names or ())
    if importance in names:
        column: Any = graph.features[:, [names.index(importance)]]
        dense = column.toarray() if sp.issparse(column) else column
        return importance, np.asarray(dense, dtype=np.float64).ravel()
    if importance == "degree":
        return importance, np.asarray(graph.adjacency.degree, dtype=np.float64)
    if importance in graph.categorical:
        raise BadUsage(
            f"the column '{shorten(importance, 60)}' holds text, and the list can only be ordered by numbers",
            found=shorten(importance, 60),
            expected="a numeric column",
            fix="use a numeric column, or degree",
        )
    near = difflib.get_close_matches(importance, [*names, "degree"], n=NEAR_NAMES, cutoff=0.5)
    raise UnknownName(
        f"'{graph.name}' has no numeric column named '{shorten(importance, 60)}' to order by",
        found=shorten(importance, 60),
        expected="a numeric column of the graph, or degree",
        fix=f"did you mean {', '.join(near)}?" if near else _some_names(names),
    )


def _some_names(names: Sequence[str]) -> str:
    shown = ", ".join(shorten(name, 40) for name in names[:NEAR_NAMES])
    return f"choose among degree, {shown}" + (", …" if len(names) > NEAR_NAMES else "") if names else "choose degree"


REVIEWED: Rules[Callable[[Any, np.ndarray], dict[str, Any]]] = Rules("reviewing predictions")
"""Columns of a review list that depend on what is predicted, for some nodes."""


@REVIEWED.register("classification")
def _classes(decisions: ClassDecisions, nodes: np.ndarray) -> dict[str, Any]:
    p = decisions.prediction
    probs = p.mean[nodes]
    order = np.argsort(-probs, axis=1, kind="stable")[:, :TOP]
    names = np.array(p.class_names, dtype=object)
    ranked = {}
    for place in range(order.shape[1]):
        ranked[f"class_{place + 1}"] = names[order[:, place]]
        ranked[f"probability_{place + 1}"] = np.take_along_axis(probs, order[:, [place]], axis=1)[:, 0]
    return {
        "action": decisions.actions[nodes],
        "label": p.label[nodes],
        "confidence": p.confidence[nodes],
        **ranked,
        "uncertainty": p.total[nodes],
        "ood_p_value": decisions.strangeness.p_values[nodes],
        "reason": class_reasons(decisions, nodes),
    }


@REVIEWED.register("regression")
def _numbers(decisions: RegressionDecisions, nodes: np.ndarray) -> dict[str, Any]:
    p, rule = decisions.prediction, decisions.abstention
    chance = rule.values[nodes]
    words = [f"{100 * value:.0f} % probability of being off by more than {rule.tolerance:g}" for value in chance]
    return {
        "action": decisions.actions[nodes],
        "mean": p.mean[nodes],
        "low": decisions.low[nodes],
        "high": decisions.high[nodes],
        "uncertainty": p.total[nodes],
        "chance_beyond": chance,
        "reason": np.array(words, dtype=object),
    }


def class_reasons(decisions: ClassDecisions, nodes: np.ndarray) -> np.ndarray:
    """Why each node needs review: at most two reasons, the strongest first.  # [n] object"""
    p, flag = decisions.prediction, decisions.ood
    strange, flagged = decisions.strangeness.p_values, flag.flagged
    rivals = neighbours_of_another_class(p, decisions.graph, nodes)
    names = [shorten(name, 40) for name in p.class_names]
    found = np.empty(len(nodes), dtype=object)
    for row, node in enumerate(nodes.tolist()):
        words = []
        if flagged[node] or strange[node] <= STRANGE:
            words.append(_unusual(strange[node]))
        probs = p.mean[node]
        ranked = np.argsort(-probs, kind="stable")[:TOP]
        words += _doubt(probs[ranked], [names[c] for c in ranked])
        words += rivals[row]
        sure = f"{names[ranked[0]]} at {_percent(probs[ranked[0]])}, not certain enough for the limit"
        found[row] = "; ".join(words[:MOST_REASONS]) or sure
    return found


def _unusual(p_value: float) -> str:
    """What the p-value says: an in-distribution node may be as unusual by chance."""
    if p_value > LARGE:  # too few calibration nodes for a smaller one
        return "looks out-of-distribution"
    return f"only {100 * p_value:.2g} % of known nodes are as unusual (OOD p-value {p_value:.2g})"


def _doubt(probs: np.ndarray, names: Sequence[str]) -> list[str]:
    if probs[0] >= SURE or len(probs) < 2:
        return []
    shares = [f"{name} {_percent(share)}" for name, share in zip(names, probs, strict=True)]
    if len(probs) > 2 and probs[0] - probs[2] < CLOSE:
        return [f"three classes are almost equally likely: {', '.join(shares)}"]
    if probs[0] - probs[1] < CLOSE:
        return [f"two classes are almost equally likely: {', '.join(shares[:2])}"]
    return [f"no class is clear: {', '.join(shares[:2])}"]


def neighbours_of_another_class(prediction: ClassPrediction, graph: Graph, nodes: np.ndarray) -> list[list[str]]:
    """For each node a reason, or none: most of its neighbours are of one other class, or it has no neighbours.

    A neighbour's class is its training label, otherwise its prediction. No other label is used.
    """
    seen = prediction.index.copy()
    labels = align_labels(graph, prediction.class_names)
    taught = graph.role("train") & (labels >= 0)
    seen[taught] = labels[taught]
    size = (graph.num_nodes, prediction.num_classes)
    members = sp.csr_array((np.ones(graph.num_nodes), (np.arange(graph.num_nodes), seen)), shape=size)
    links = sp.csr_array(graph.adjacency.incoming)
    links = sp.csr_array((np.ones(links.nnz), links.indices, links.indptr), shape=links.shape)  # edges may have weights
    found: list[list[str]] = []
    for first in range(0, len(nodes), ROWS_AT_ONCE):
        some = nodes[first : first + ROWS_AT_ONCE]
        counts = (links[some] @ members).toarray()
        degree = counts.sum(axis=1)
        most = counts.argmax(axis=1)
        for row, node in enumerate(some.tolist()):
            count = counts[row, most[row]]
            if degree[row] == 0:
                found.append(["it has no neighbours"])
            elif most[row] != prediction.index[node] and 2 * count > degree[row]:
                other = shorten(prediction.class_names[most[row]], 40)
                found.append([f"most neighbours have another class: {count:.0f} of {degree[row]:.0f} are {other}"])
            else:
                found.append([])
    return found


def _percent(share: float) -> str:
    return f"{100 * float(share):.0f} %"
