"""A graph as plain arrays and JSON, to be sent to where cells run."""

from __future__ import annotations

import json
from types import MappingProxyType
from typing import Any

import numpy as np
import scipy.sparse as sp

from graphsde.data.adjacency import Adjacency
from graphsde.data.findings import Finding
from graphsde.data.graph import Graph


def pack_graph(graph: Graph) -> dict[str, Any]:
    """Arrays of numbers as they are; everything else, text above all, as one JSON string."""
    arrays: dict[str, np.ndarray] = {}
    _put_matrix(arrays, "adjacency", graph.adjacency.matrix)
    if sp.issparse(graph.features):
        _put_matrix(arrays, "features", graph.features)
    else:
        arrays["features"] = np.asarray(graph.features)
    if graph.labels is not None:
        arrays["labels"] = graph.labels
    text_ids = graph.node_ids.dtype == object
    if not text_ids:
        arrays["node_ids"] = graph.node_ids
    for name, mask in graph.masks.items():
        arrays[f"mask:{name}"] = mask
    facts = {
        "directed": graph.adjacency.directed,
        "nodes": graph.num_nodes,
        "width": graph.features.shape[1],
        "class_names": graph.class_names,
        "node_ids": graph.node_ids.tolist() if text_ids else None,
        "feature_names": graph.feature_names,
        "categorical": {name: column.tolist() for name, column in graph.categorical.items()},
        "masks": list(graph.masks),
        "name": graph.name,
        "image_shape": graph.image_shape,
        "split": graph.split,
        "notes": [note.as_dict() for note in graph.notes],
    }
    return {"arrays": arrays, "facts": json.dumps(facts)}


def unpack_graph(parts: dict[str, Any]) -> Graph:
    """The inverse of :func:`pack_graph`: a graph with the same fingerprint."""
    arrays, facts = parts["arrays"], json.loads(parts["facts"])
    nodes = facts["nodes"]
    sparse = "features:data" in arrays
    ids = arrays["node_ids"] if facts["node_ids"] is None else _text(facts["node_ids"])
    return Graph(
        adjacency=Adjacency(_matrix(arrays, "adjacency", (nodes, nodes)), directed=facts["directed"]),
        features=_matrix(arrays, "features", (nodes, facts["width"])) if sparse else arrays["features"],
        labels=arrays.get("labels"),
        class_names=tuple(facts["class_names"]),
        node_ids=ids,
        feature_names=_tuple(facts["feature_names"]),
        categorical=MappingProxyType({name: _text(column) for name, column in facts["categorical"].items()}),
        masks=MappingProxyType({name: arrays[f"mask:{name}"] for name in facts["masks"]}),
        name=facts["name"],
        image_shape=_tuple(facts["image_shape"]),
        split=facts["split"],
        notes=tuple(Finding(**{**note, "where": tuple(note["where"])}) for note in facts["notes"]),
    )


def _put_matrix(arrays: dict[str, np.ndarray], name: str, matrix: Any) -> None:
    arrays[f"{name}:data"], arrays[f"{name}:indices"] = matrix.data, matrix.indices
    arrays[f"{name}:indptr"] = matrix.indptr


def _matrix(arrays: dict[str, np.ndarray], name: str, shape: tuple[int, int]) -> sp.csr_array:
    return sp.csr_array(tuple(arrays[f"{name}:{part}"] for part in ("data", "indices", "indptr")), shape=shape)


def _text(values: list[str | None]) -> np.ndarray:
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column


def _tuple(values: list[Any] | None) -> tuple[Any, ...] | None:
    return None if values is None else tuple(values)
