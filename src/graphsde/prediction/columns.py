"""Predictions as columns of a table, for files, frames and the page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from graphsde.base.registry import Rules
from graphsde.graph.graph import Graph
from graphsde.graph.ids import locate
from graphsde.prediction.base import Prediction
from graphsde.prediction.classification import ClassPrediction
from graphsde.prediction.regression import RegressionPrediction

# class probabilities are written up to this many classes; with more, the table would be mostly zeros
MOST_PROBABILITY_COLUMNS = 100


COLUMNS: Rules[Callable[[Any, Graph | None], dict[str, Any]]] = Rules("a table of predictions")


def prediction_columns(prediction: Prediction, graph: Graph | None = None) -> dict[str, Any]:
    """One array per column: id, label, confidence, the parts of the uncertainty, then class probabilities.

    For regression: id, mean, the parts of the variance, and the ends of the 90 % interval.

    ``epistemic`` is empty for a deterministic model. With the graph, ``true_label`` (``true_value``) and ``split`` are
    added, and ``name`` after the id if nodes have names.
    """
    return with_node_names(COLUMNS.of(prediction)(prediction, graph), graph)


@COLUMNS.register("classification")
def _class_columns(prediction: ClassPrediction, graph: Graph | None) -> dict[str, Any]:
    columns: dict[str, Any] = {
        "id": prediction.ids,
        "label": prediction.label,
        "confidence": prediction.confidence,
        **_uncertainty(prediction),
    }
    if graph is not None and graph.labels is not None:
        columns["true_label"] = np.array(graph.target.plain(), dtype=object)
    columns |= _roles(graph)
    if prediction.num_classes <= MOST_PROBABILITY_COLUMNS:
        for position, name in enumerate(prediction.class_names):
            columns[f"p:{name}"] = prediction.mean[:, position]
    return columns


@COLUMNS.register("regression")
def _regression_columns(prediction: RegressionPrediction, graph: Graph | None) -> dict[str, Any]:
    low, high = prediction.interval(0.9)
    columns: dict[str, Any] = {
        "id": prediction.ids,
        "mean": prediction.mean,
        **_uncertainty(prediction),
        "low90": low,
        "high90": high,
    }
    if graph is not None and graph.values is not None:
        columns["true_value"] = graph.target.plain()
    return columns | _roles(graph)


def with_node_names(columns: Mapping[str, Any], graph: Graph | None, column: str = "id") -> dict[str, Any]:
    """Columns with ``name`` after the ids, if the graph has node names.

    Args:
        columns: of a table about nodes of the graph.
        graph: that they belong to.
        column: the one with the ids.
    """
    if graph is None or graph.node_names is None:
        return dict(columns)
    rows = locate(np.asarray(columns[column]), graph.node_ids)
    result: dict[str, Any] = {}
    for title, values in columns.items():
        result[title] = values
        if title == column:
            result["name"] = graph.node_names[rows]
    return result


def _uncertainty(prediction: Prediction) -> dict[str, Any]:
    known: Any = prediction.epistemic
    if np.isnan(known).any():  # a list can have gaps, but an array needs a quarter of its memory
        known = [None if np.isnan(value) else float(value) for value in known]
    return {"total": prediction.total, "aleatoric": prediction.aleatoric, "epistemic": known}


def _roles(graph: Graph | None) -> dict[str, Any]:
    return {} if graph is None or not graph.masks else {"split": roles_of(graph)}


def roles_of(graph: Graph) -> np.ndarray:
    """The role of every node in the split, ``None`` if it has none.  # [N] object"""
    roles = np.full(graph.num_nodes, None, dtype=object)
    for name, mask in graph.masks.items():
        roles[mask] = name
    return roles
