"""Predictions as a table that people and programs can open."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from graphsde.base import storage
from graphsde.base.errors import BadUsage
from graphsde.base.registry import Rules
from graphsde.graph.graph import Graph
from graphsde.io.opening import safe_cell
from graphsde.prediction import ClassPrediction, Prediction, RegressionPrediction

# probabilities of every class are written up to this many classes; beyond, the table would be mostly zeros
MOST_PROBABILITY_COLUMNS = 100


COLUMNS: Rules[Callable[[Any, Graph | None], dict[str, Any]]] = Rules("a table of predictions")


def prediction_columns(prediction: Prediction, graph: Graph | None = None) -> dict[str, Any]:
    """One array per column: id, label, confidence, the parts of the uncertainty, then class probabilities.

    For regression: id, mean, the parts of the variance, and the ends of the 90 % interval.

    ``epistemic`` is empty for a deterministic model. With the graph, ``true_label`` (``true_value``) and ``split`` are
    added.
    """
    return COLUMNS.of(prediction)(prediction, graph)


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


def _uncertainty(prediction: Prediction) -> dict[str, Any]:
    known = [None if np.isnan(value) else float(value) for value in prediction.epistemic]
    return {"total": prediction.total, "aleatoric": prediction.aleatoric, "epistemic": known}


def _roles(graph: Graph | None) -> dict[str, Any]:
    if graph is None or not graph.masks:
        return {}
    split = np.full(graph.num_nodes, None, dtype=object)
    for name, mask in graph.masks.items():
        split[mask] = name
    return {"split": split}


def require_table_name(path: Path) -> str:
    """The suffix of a table's name, refused where there is no such format."""
    suffix = path.suffix.lower()
    if suffix not in (".csv", ".parquet"):
        raise BadUsage(f"can't write a table to '{path.name}'", expected="a name that ends in .csv or .parquet")
    return suffix


def write_table(columns: dict[str, Any], path: Path) -> None:
    """Write columns as CSV or Parquet, by suffix. Text in CSV can't become a formula in a spreadsheet."""
    import pyarrow as pa
    import pyarrow.csv as pa_csv
    import pyarrow.parquet as pa_parquet

    suffix = require_table_name(path)
    if suffix == ".csv":
        columns = {safe_cell(name): _harmless(values) for name, values in columns.items()}
    table = pa.table({name: pa.array(values) for name, values in columns.items()})
    with storage.writing(path) as stream:
        if suffix == ".csv":
            pa_csv.write_csv(table, stream)
        else:
            pa_parquet.write_table(table, stream)


def _harmless(values: Any) -> Any:
    if isinstance(values, np.ndarray) and values.dtype == object:
        return [safe_cell(value) if isinstance(value, str) else value for value in values]
    return values
