"""The graph of a run, saved with it: its files are read again only if they have changed."""

from __future__ import annotations

import stat
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import scipy.sparse as sp

from graphsde.base import storage
from graphsde.datasets.source import is_benchmark
from graphsde.graph.adjacency import Adjacency
from graphsde.graph.graph import MASK_NAMES, Graph
from graphsde.graph.raw import Finding
from graphsde.graph.target import ClassTarget, RegressionTarget, Target
from graphsde.runs.bundle import Bundle, require_shape, sound

FILE = "graph.safetensors"
_READ = (".csv", ".parquet", ".json", ".txt", ".yaml", ".yml")
_FACTS = ("fingerprint", "split_hash")
_OGB = ("raw/*.csv.gz", "split/*/*.csv.gz")


def source_files(graph: str) -> dict[str, str] | None:
    """sha256 of every file that reading a path could use, by name.

    ``None`` for a benchmark, whose loader verifies its files itself, and for a missing path.

    Args:
        graph: a benchmark's name or a path. In a folder all tables count, since a new one could be read as the nodes.
    """
    path = Path(graph)
    if is_benchmark(graph) or not path.exists():
        return None
    try:
        if not path.is_dir():
            return {path.name: storage.sha256(path)} if stat.S_ISREG(path.stat().st_mode) else None
        files = [one for one in path.iterdir() if one.suffix.lower() in _READ]
        files += [one for pattern in _OGB for one in path.glob(pattern)]
        return {one.relative_to(path).as_posix(): storage.sha256(one) for one in sorted(files) if one.is_file()}
    except OSError as error:
        raise storage.io_error("read", path, error) from error


def is_gone(graph: str) -> bool:
    """Whether the path that a graph was read from no longer exists."""
    return not is_benchmark(graph) and not Path(graph).exists()


def pack_graph(graph: Graph, files: Mapping[str, str], facts: Mapping[str, Any]) -> Bundle | None:
    """``graph`` with its sources; ``None`` for a target kind that a plugin added.

    Args:
        graph: with its split, which may have taken classes away.
        files: digests of the files that it was read from.
        facts: which data it is (:meth:`~graphsde.datasets.source.GraphSource.open`).
    """
    if type(graph.target) not in (ClassTarget, RegressionTarget):
        return None
    arrays = {f"mask.{role}": mask for role, mask in graph.masks.items()}
    values: dict[str, Any] = {
        "files": dict(files),
        "facts": {key: facts[key] for key in _FACTS},
        "fingerprint": graph.fingerprint,
        "name": graph.name,
        "split": graph.split,
        "image_shape": graph.image_shape,
        "feature_names": graph.feature_names,
        "node_names": None if graph.node_names is None else graph.node_names.tolist(),
        "categorical": {name: column.tolist() for name, column in graph.categorical.items()},
        "notes": [one.as_dict() for one in graph.notes],
        "directed": graph.adjacency.directed,
        "target": graph.target_kind,
        "class_names": graph.class_names,
    }
    _pack_matrix("edges", graph.adjacency.matrix, arrays, values)
    _pack_matrix("features", graph.features, arrays, values)
    if graph.target.encoded is not None:
        arrays["target"] = graph.target.encoded
    if graph.node_ids.dtype == object:
        values["node_ids"] = graph.node_ids.tolist()
    else:
        arrays["node_ids"] = graph.node_ids
    return Bundle(arrays, values)


def unpack_graph(bundle: Bundle, facts: Mapping[str, Any], path: Path) -> Graph:
    """The graph of a file, which must be the one that ``facts`` are of; ``path`` is for messages."""
    with sound(path):
        arrays, values = bundle.arrays, bundle.values
        edges = _unpack_matrix("edges", arrays, values)
        nodes = edges.shape[0]
        if edges.shape != (nodes, nodes) or not sp.issparse(edges):
            raise ValueError("edges are not a square matrix")
        features = _unpack_matrix("features", arrays, values)
        if features.shape[0] != nodes:
            raise ValueError("features of other nodes")
        ids = _texts(values["node_ids"], nodes) if "node_ids" in values else require_shape(arrays["node_ids"], nodes)
        masks = {
            role: _frozen(require_shape(arrays[f"mask.{role}"], nodes).astype(bool, copy=False))
            for role in MASK_NAMES
            if f"mask.{role}" in arrays
        }
        names = values["feature_names"]
        shape = values["image_shape"]
        adjacency = Adjacency(edges, directed=bool(values["directed"]))
        _frozen(adjacency.matrix)
        graph = Graph(
            adjacency=adjacency,
            features=_frozen(features),
            node_ids=_frozen(ids),
            target=_target(arrays, values, nodes),
            feature_names=None if names is None else tuple(names),
            categorical=MappingProxyType(
                {name: _frozen(_texts(column, nodes)) for name, column in values["categorical"].items()}
            ),
            masks=MappingProxyType(masks),
            name=str(values["name"]),
            image_shape=None if shape is None else (int(shape[0]), int(shape[1])),
            split=values["split"],
            notes=tuple(Finding(**{**one, "where": tuple(one["where"])}) for one in values["notes"]),
            node_names=None if values["node_names"] is None else _frozen(_texts(values["node_names"], nodes)),
        )
        if graph.fingerprint != values["fingerprint"] or values["facts"] != {key: facts[key] for key in _FACTS}:
            raise ValueError("a graph of another run")
        return graph


def _target(arrays: Mapping[str, np.ndarray], values: dict[str, Any], nodes: int) -> Target:
    encoded = require_shape(arrays["target"], nodes) if "target" in arrays else None
    if values["target"] == RegressionTarget.kind:
        if encoded is None or encoded.dtype != np.float64:
            raise ValueError("a target without numbers")
        return RegressionTarget(encoded).frozen()
    names = tuple(values["class_names"])
    if encoded is not None and (
        encoded.dtype != np.int64 or encoded.min(initial=-1) < -1 or encoded.max(initial=-1) >= len(names)
    ):
        raise ValueError("labels that name no class")
    return ClassTarget(encoded, names).frozen()


def _pack_matrix(
    name: str, matrix: np.ndarray | sp.csr_array, arrays: dict[str, np.ndarray], values: dict[str, Any]
) -> None:
    if not sp.issparse(matrix):
        arrays[name] = np.asarray(matrix)
        return
    values[f"{name}.shape"] = [int(size) for size in matrix.shape]
    for part in ("data", "indices", "indptr"):
        arrays[f"{name}.{part}"] = getattr(matrix, part)


def _unpack_matrix(name: str, arrays: Mapping[str, np.ndarray], values: dict[str, Any]) -> Any:
    if name in arrays:
        return require_shape(arrays[name], None, None)
    parts = tuple(arrays[f"{name}.{part}"] for part in ("data", "indices", "indptr"))
    matrix = sp.csr_array(parts, shape=tuple(values[f"{name}.shape"]))
    matrix.check_format(full_check=True)  # compiled code trusts the positions
    return matrix


def _texts(values: list[Any], count: int) -> np.ndarray:
    if len(values) != count or not all(one is None or isinstance(one, str) for one in values):
        raise ValueError("texts that are not one for each node")
    array = np.empty(count, dtype=object)
    array[:] = values
    return array


def _frozen(values: Any) -> Any:
    """Make the arrays of a graph read-only."""
    for part in (values.data, values.indices, values.indptr) if sp.issparse(values) else (values,):
        part.setflags(write=False)
    return values
