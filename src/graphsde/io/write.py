"""A graph as a folder of tables that reads back as the same graph."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import scipy.sparse as sp

from graphsde.base.errors import BadInput, BadUsage
from graphsde.base.memory import require_memory
from graphsde.base.storage import io_error, write_bytes, write_text
from graphsde.graph.graph import Graph
from graphsde.io.csv_table import MOST_COLUMNS, check_header
from graphsde.io.graph_yaml import LARGEST_FILE

if TYPE_CHECKING:
    import pyarrow as pa


def write_tables(graph: Graph, folder: str | os.PathLike[str], format: Literal["csv", "parquet"] = "csv") -> None:
    """Write ``nodes``, ``edges`` and ``graph.yaml`` into a folder.

    Reading the folder gives a graph with the same fingerprint. Cells are written unchanged: for a table that people
    open in a spreadsheet, see :func:`~graphsde.io.opening.safe_cell`.

    Args:
        graph: the graph.
        folder: created if missing; files of the same name are replaced atomically.
        format: ``csv`` or ``parquet``.

    Example:
        >>> import tempfile
        >>> from graphsde.graph.build import from_arrays
        >>> from graphsde.io.read import read
        >>> graph = from_arrays([[0.5], [1.5]], [[0], [1]], labels=["a", "b"])
        >>> folder = tempfile.mkdtemp()
        >>> write_tables(graph, folder)
        >>> read(folder).fingerprint == graph.fingerprint
        True
    """
    if format not in ("csv", "parquet"):
        raise BadUsage(f"tables can't be written as '{format}'", found=format, expected="csv or parquet")
    folder = Path(folder)
    columns = _Columns(graph)
    nodes, edges = columns.nodes(), _edges(graph)
    settings = columns.settings()
    for stem, table in (("nodes", nodes), ("edges", edges)):
        write_bytes(folder / f"{stem}.{format}", _csv(table) if format == "csv" else _parquet(table))
        for other in {"csv", "parquet"} - {format}:
            _remove(folder / f"{stem}.{other}")
    write_text(folder / "graph.yaml", settings)


class _Columns:
    """Names for the columns of the table of nodes: features keep theirs, ``id`` and others make way."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        width = int(graph.features.shape[1])
        self.numeric = list(graph.feature_names or (f"f{column}" for column in range(width)))
        self.categorical = list(graph.categorical)
        if width > MOST_COLUMNS:
            raise BadInput(
                f"{width:,} columns are too many for a table",
                code="E-LINE-LEN",
                expected=f"at most {MOST_COLUMNS:,}",
                fix="keep such a graph in an .npz file",
            )
        names = [*self.numeric, *self.categorical]
        check_header([name.strip() for name in names], "the graph's feature names")
        self.role = {role: _free_name(role, set(names)) for role in ("id", "label", "split", "node_name")}

    def nodes(self) -> pa.Table:
        import pyarrow as pa

        graph = self.graph
        require_memory(
            8 * graph.num_nodes * len(self.numeric), "writing the features as a table", "keep it in an .npz file"
        )
        columns: dict[str, pa.Array] = {self.role["id"]: _ids(graph.node_ids)}
        if self._has("label"):
            answers = graph.target.plain() if graph.target.given else [None] * graph.num_nodes
            columns[self.role["label"]] = pa.array(answers, pa.float64() if graph.values is not None else pa.string())
        if self._has("split"):
            columns[self.role["split"]] = _texts(self._split())
        if graph.node_names is not None:
            columns[self.role["node_name"]] = _texts(graph.node_names)
        features: Any = graph.features
        dense = features.toarray() if graph.is_sparse else features
        for position, name in enumerate(self.numeric):
            columns[name] = pa.array(np.ascontiguousarray(dense[:, position]))
        for name in self.categorical:
            columns[name] = _texts(graph.categorical[name])
        return pa.table(columns)

    def _split(self) -> np.ndarray:
        words = np.full(self.graph.num_nodes, None, dtype=object)
        for role, mask in self.graph.masks.items():
            taken = np.array([word is not None for word in words])
            words[mask & ~taken] = role
            words[mask & taken] += f"+{role}"
        return words

    def settings(self) -> str:
        import yaml

        graph = self.graph
        values: dict[str, Any] = {"name": graph.name}
        values |= {role: name for role, name in self.role.items() if name != role and role != "node_name"}
        if graph.node_names is not None:
            values["node_name"] = self.role["node_name"]
        if graph.target.told_in_files:
            values["target"] = graph.target_kind
        if graph.adjacency.directed:
            values["directed"] = "true"
        if graph.class_names:
            values["classes"] = list(graph.class_names)
        if self.categorical:
            values["categorical"] = self.categorical
        if graph.image_shape is not None:
            values["image_shape"] = [str(side) for side in graph.image_shape]
        if graph.is_sparse:
            values["sparse"] = "true"
        # some invisible characters end a line in YAML: if there are any, everything outside ASCII is escaped
        readable = all(
            name.isprintable() for name in (graph.name, *graph.class_names, *self.categorical, *self.numeric)
        )
        text = yaml.safe_dump(values, sort_keys=False, allow_unicode=readable)
        if len(text.encode("utf-8", "surrogatepass")) > LARGEST_FILE:
            raise BadInput(f"names of classes and columns take more than {LARGEST_FILE:,} bytes", fix="shorten them")
        return text

    def _has(self, role: str) -> bool:
        """Whether the column is written; also if a feature of that name would otherwise be mistaken for it."""
        needed = {"id": True, "label": self.graph.target.given, "split": bool(self.graph.masks)}
        return needed[role] or self.role[role] != role


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise io_error("remove", path, error) from error


def _free_name(wanted: str, taken: set[str]) -> str:
    name = wanted
    while name in taken:
        name = f"node_{name}"
    return name


def _edges(graph: Graph) -> pa.Table:
    import pyarrow as pa

    entries = sp.coo_array(graph.adjacency.matrix if graph.adjacency.directed else sp.triu(graph.adjacency.matrix))
    columns = {"source": _ids(graph.node_ids[entries.row]), "target": _ids(graph.node_ids[entries.col])}
    if graph.adjacency.is_weighted:
        columns["weight"] = pa.array(entries.data)
    return pa.table(columns)


def _ids(ids: np.ndarray) -> pa.Array:
    import pyarrow as pa

    return _texts(ids) if ids.dtype == object else pa.array(ids)


def _texts(values: np.ndarray) -> pa.Array:
    import pyarrow as pa

    try:
        texts = pa.array(values.tolist(), pa.string())
    except (UnicodeEncodeError, pa.ArrowException):
        texts = None
    if texts is None or any("\0" in text for text in texts.dictionary_encode().dictionary.to_pylist()):
        raise BadInput(
            "a text has characters that can't be stored in a file",
            code="E-ENCODING",
            fix="replace lone surrogates and NUL",
        )
    return texts


def _csv(table: pa.Table) -> bytes:
    import pyarrow as pa
    import pyarrow.csv as pc

    stream = io.BytesIO()
    exact = [
        _exact(column.combine_chunks()) if pa.types.is_float32(column.type) else column for column in table.columns
    ]
    pc.write_csv(pa.table(exact, names=table.column_names), stream)
    return stream.getvalue()


def _exact(column: pa.Array) -> pa.Array:
    """The shortest digits that give the same float32 when read as float64 and then rounded."""
    import pyarrow as pa
    import pyarrow.compute as pc

    short = column.cast(pa.string())
    same = pc.equal(short.cast(pa.float64()).cast(pa.float32(), safe=False), column)
    return pc.if_else(same, short, column.cast(pa.float64()).cast(pa.string()))


def _parquet(table: pa.Table) -> bytes:
    import pyarrow.parquet as pq

    stream = io.BytesIO()
    pq.write_table(table, stream)
    return stream.getvalue()
