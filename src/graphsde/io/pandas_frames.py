"""Graphs from and to pandas: one frame of nodes, one of edges."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence
from inspect import signature
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from graphsde.base.errors import BadInput, BadUsage, MissingExtra, shorten
from graphsde.base.registry import unknown_name
from graphsde.graph.build import assemble, options_from
from graphsde.graph.edges import counted_from_elsewhere
from graphsde.graph.graph import MASK_NAMES, Graph
from graphsde.graph.raw import RawGraph, ReadOptions
from graphsde.io.columns import unused_columns
from graphsde.io.words import Bag, bag_of_words

if TYPE_CHECKING:
    import pandas as pd

# columns that are used if present; it is an error if they are missing only when named explicitly
ROLES = {"id": "id", "label": "label", "split": "split", "source": "source", "target": "target", "weight": "weight"}
Place = Callable[[int], str]
LOOKED_AT = 1000  # edges


def require_pandas() -> Any:
    """The module, or the error that says how to install it."""
    try:
        import pandas
    except ImportError:
        raise MissingExtra("pandas", "pandas") from None
    return pandas


def from_pandas(
    nodes: pd.DataFrame,
    edges: pd.DataFrame,
    *,
    id: str | None = "id",
    label: str | None = "label",
    source: str = "source",
    target: str = "target",
    weight: str | None = "weight",
    split: str | None = "split",
    node_name: str | None = None,
    features: Sequence[str] | str | None = None,
    directed: bool = False,
    label_kind: str = "classification",
    name: str = "graph",
    **options: Any,
) -> Graph:
    """A graph from a frame of nodes and a frame of edges.

    Numbers and booleans become numeric columns (sparse ones stay sparse); text and categories become categorical
    ones, which models turn into one-hot codes; a column of lists becomes a sparse bag of words. Dates, durations and
    complex numbers are refused. ``label``, ``split``, ``weight`` and ``id`` may be missing unless you name
    a column for them.

    Ids are integers or text; a UUID becomes its text. Anything else (tuples, timestamps, fractions, bytes) is
    refused, since it has more than one text form: use ``.astype(str)`` on both frames.

    Args:
        nodes: one row per node.
        edges: one row per edge.
        id: the column of ids; the frame's index if it is ``None`` or there is no column ``id``.
        label: the column of classes; missing values are unlabelled nodes. ``None`` if there is none.
        source, target: the columns of ``edges`` with the ids of the two ends.
        weight: the column of ``edges`` with positive weights; ``None`` if there is none.
        split: the column of roles (``train``, ``val``, ``calibration``, ``test`` or missing).
        node_name: the column with display names; not a feature.
        features: the columns to use; default all others; ``"degree"`` for log-degrees.
        directed: keep the direction of edges; otherwise each runs both ways.
        label_kind: ``"regression"`` if labels are numbers to predict.
        name: of the graph, for messages.
        **options: further fields of :class:`~graphsde.graph.raw.ReadOptions`, such as ``impute="mean"``.

    Raises:
        MissingExtra: pandas is not installed.
        BadInput: names the row and column that can't be used.

    Example:
        >>> import pandas as pd
        >>> people = pd.DataFrame({"age": [31, 25, 40], "label": ["yes", "no", None]}, index=["ann", "bob", "cid"])
        >>> knows = pd.DataFrame({"source": ["ann", "bob"], "target": ["bob", "cid"]})
        >>> from_pandas(people, knows)
        Graph('graph', nodes=3, edges=4, features=1, classes=2)
    """
    require_pandas()
    node_frame, edge_frame = _Frame(nodes, "nodes"), _Frame(edges, "edges")
    if features == "degree":
        options["features"], features = "degree", []
    read_options = _options({**options, "directed": directed, "target": label_kind})
    roles = {role: node_frame.role(role, column) for role, column in (("id", id), ("label", label), ("split", split))}
    ends = [edge_frame.require(column) for column in (source, target)]
    weights = edge_frame.role("weight", weight)
    names_of_nodes = None if node_name is None else node_frame.texts(node_frame.require(node_name))
    taken = {column for column in (*roles.values(), node_name) if column is not None}
    chosen = node_frame.chosen(features, taken)
    numeric, names, categorical = node_frame.features(chosen)
    ids = node_frame.ids(roles["id"])
    unused = [column for column in edge_frame.names if column not in (*ends, weights)]
    raw = RawGraph(
        num_nodes=len(nodes),
        node_ids=ids,
        node_names=names_of_nodes,
        numeric=numeric,
        feature_names=names,
        categorical=categorical,
        labels=node_frame.values(roles["label"]),
        split=node_frame.values(roles["split"]),
        sources=edge_frame.ids(ends[0]),
        targets=edge_frame.ids(ends[1]),
        weights=None if weights is None else edge_frame.numbers(weights, "E-WEIGHT"),
        name=name,
        node_place=node_frame.place,
        edge_place=edge_frame.place,
        findings=unused_columns(unused, "column", " of edges"),
    )
    try:
        return assemble(raw, read_options)
    except BadInput as error:
        counted = error.code == "E-EDGE-UNKNOWN" and counted_from_elsewhere(raw.sources, raw.targets, np.asarray(ids))
        if error.code == "E-EDGE-UNKNOWN" and roles["id"] is None and not counted:
            error.fix = _name_the_ids(node_frame, ends, edge_frame)
        raise


ONLY_FILES = {
    "words": "make it a column of lists: nodes['note'] = nodes['note'].str.split()",
    "categorical": "make it a column of text: nodes['zip'] = nodes['zip'].astype(str)",
    "drop": "leave the columns out: nodes.drop(columns=['comment']), or list the others as features=[…]",
}
"""Options of files, and what to do with a frame instead."""


def _options(given: dict[str, Any]) -> ReadOptions:
    for key, fix in ONLY_FILES.items():
        if key in given:
            raise BadUsage(f"'{key}' is an option of files, not of data frames", found=given[key], fix=fix)
    arguments = [name for name in signature(from_pandas).parameters if name not in ("nodes", "edges", "options")]
    return options_from(given, arguments)


def _name_the_ids(nodes: _Frame, ends: Sequence[str], edges: _Frame) -> str:
    """What to do if edges lead nowhere because the index was used as ids."""
    wanted = set(map(str, edges.column(ends[0]).iloc[:LOOKED_AT]))
    shares = {name: len(wanted & set(map(str, nodes.column(name)))) / max(1, len(wanted)) for name in nodes.names}
    best = max(shares, key=shares.__getitem__, default=None)
    column = f"'{shorten(best, 60)}'" if best is not None and shares[best] > 0.5 else "COLUMN"
    return f"the frame of nodes has no column 'id', so its index is used as ids; name the column of ids: id={column}"


def to_pandas(graph: Graph) -> tuple[pd.DataFrame, pd.DataFrame]:
    """A graph as a frame of nodes and a frame of edges; :func:`from_pandas` reads them back.

    Ids are the index of the nodes. Features without names become ``f0``, ``f1`` …; sparse ones become sparse
    columns. Columns ``node_name``, ``label`` and ``split`` exist if the graph has them; of an undirected
    graph each edge is listed once.

    Example:
        >>> from graphsde.graph.build import from_arrays
        >>> nodes, edges = to_pandas(from_arrays([[0.5], [1.5]], [[0], [1]], labels=["a", None]))
        >>> nodes.columns.tolist(), edges.values.tolist()
        (['f0', 'label'], [[0, 1]])
    """
    pandas = require_pandas()
    names = list(graph.feature_names or (f"f{column}" for column in range(graph.features.shape[1])))
    if clash := [column for column in (*names, *graph.categorical) if column in ("label", "split", "node_name")]:
        raise BadInput(
            f"the feature name '{clash[0]}' is reserved for another column",
            code="E-COLUMN-DUP",
            found=clash[0],
            fix="rename the feature",
        )
    index = pandas.Index(graph.node_ids.copy(), name="id")
    features: Any = graph.features
    if graph.is_sparse:
        nodes = pandas.DataFrame.sparse.from_spmatrix(features, index=index, columns=names)
    else:
        nodes = pandas.DataFrame(features.copy(), index=index, columns=names)
    extra: dict[str, Any] = {} if graph.node_names is None else {"node_name": graph.node_names.copy()}
    extra |= {column: values.copy() for column, values in graph.categorical.items()}
    if graph.target.given:
        extra["label"] = np.array(graph.target.plain(), dtype=float if graph.values is not None else object)
    if graph.masks:
        split = np.full(graph.num_nodes, None, dtype=object)
        for role in MASK_NAMES:
            split[graph.role(role)] = role
        extra["split"] = split
    if extra:
        nodes = pandas.concat([nodes, pandas.DataFrame(extra, index=index)], axis=1)
    entries = sp.coo_array(graph.adjacency.matrix if graph.adjacency.directed else sp.triu(graph.adjacency.matrix))
    columns = {"source": graph.node_ids[entries.row], "target": graph.node_ids[entries.col]}
    if graph.adjacency.is_weighted:
        columns["weight"] = entries.data
    return nodes, pandas.DataFrame(columns)


class _Frame:
    """A frame whose columns are accessed by name."""

    def __init__(self, frame: Any, what: str) -> None:
        pandas = require_pandas()
        if not isinstance(frame, pandas.DataFrame):
            raise BadUsage(
                f"{what} is a {type(frame).__name__}", expected="a pandas DataFrame", fix=f"pass {what} as a DataFrame"
            )
        if frame.columns.nlevels > 1:
            raise self._header_error(what, "columns with several levels", "one name per column")
        self.names = [str(column) for column in frame.columns]
        if len(set(self.names)) < len(self.names):
            twice = next(one for one in self.names if self.names.count(one) > 1)
            raise self._header_error(what, f"two columns named '{shorten(twice, 60)}'", "a different name for each")
        self.frame, self.what, self.pandas = frame, what, pandas
        index = frame.index
        self.place: Place = lambda row: f"{what}, row {row} (index {shorten(str(index[row]), 60)})"

    @staticmethod
    def _header_error(what: str, found: str, expected: str) -> BadInput:
        return BadInput(
            f"the frame of {what} has {found}",
            code="E-HEADER",
            place=what,
            expected=expected,
            fix="rename the columns",
        )

    def require(self, column: str) -> str:
        if column not in self.names:
            raise unknown_name(f"column of {self.what}", column, self.names)
        return column

    def role(self, role: str, column: str | None) -> str | None:
        """The column of a role; ``None`` if it is missing and was not requested."""
        if column is None or (column == ROLES[role] and column not in self.names):
            return None
        return self.require(column)

    def chosen(self, features: Sequence[str] | str | None, taken: set[str]) -> list[str]:
        if features is None:
            return [column for column in self.names if column not in taken]
        wanted = [self.require(column) for column in ([features] if isinstance(features, str) else features)]
        if both := [column for column in wanted if column in taken]:
            raise BadUsage(
                f"the column '{shorten(both[0], 60)}' has another role and can't be a feature",
                found=both[0],
                fix="remove it from features",
            )
        return wanted

    def column(self, column: str) -> Any:
        return self.frame.iloc[:, self.names.index(column)]

    def ids(self, column: str | None) -> Any:
        """Integers as an array, or a list of integers and text."""
        values = self.frame.index if column is None else self.column(column)
        if isinstance(values, self.pandas.MultiIndex):
            return [self._id(value, row) for row, value in enumerate(values)]
        kind = values.dtype
        if isinstance(kind, np.dtype) and kind.kind in "iu":
            return values.to_numpy()
        return [self._id(value, row) for row, value in enumerate(self._objects(values))]

    def _id(self, value: Any, row: int) -> Any:
        if isinstance(value, uuid.UUID):
            return str(value)
        if isinstance(value, str) or (isinstance(value, Integral) and not isinstance(value, bool)):
            return value
        raise BadInput(
            "an id is missing" if value is None else f"an id is a {type(value).__name__}",
            code="E-ID-FORM",
            place=self.place(row),
            found=None if value is None else str(value),
            expected="integers, text or UUIDs",
            fix="turn the ids into text with .astype(str), in both frames",
        )

    def values(self, column: str | None) -> np.ndarray | None:
        """A column of labels or roles as is, ``None`` for missing values."""
        if column is None:
            return None
        values = self.column(column)
        if isinstance(values.dtype, np.dtype) and values.dtype.kind in "iufb":
            return values.to_numpy()
        objects = np.empty(len(values), dtype=object)
        objects[:] = list(self._objects(values))
        return objects

    def _objects(self, values: Any) -> Iterable[Any]:
        """Plain values, ``None`` for every kind of missing one."""
        missing = np.asarray(self.pandas.isna(values))
        plain = values.astype(object).tolist()
        return (None if absent else value for value, absent in zip(plain, missing.tolist(), strict=True))

    def numbers(self, column: str, code: str) -> np.ndarray:
        """A column as float64, NaN where missing."""
        values = self.column(column)
        if self._kind(column, values) != "number":
            raise BadInput(
                f"the column '{shorten(column, 60)}' holds {values.dtype}, not numbers",
                code=code,
                place=f"{self.what}, column {shorten(column, 60)}",
                found=str(values.dtype),
                expected="numbers",
                fix=f"pandas.to_numeric(frame['{shorten(column, 60)}']) converts text to numbers",
            )
        return np.asarray(values.to_numpy(dtype=np.float64, na_value=np.nan))

    def features(self, columns: Sequence[str]) -> tuple[Any, list[str] | None, dict[str, np.ndarray]]:
        """The matrix of numeric columns, their names, and columns of text."""
        numeric: list[str] = []
        categorical: dict[str, np.ndarray] = {}
        bags: list[Bag] = []
        for column in columns:
            values = self.column(column)
            kind = self._kind(column, values)
            if kind == "number":
                numeric.append(column)
            elif kind == "words":
                bags.append(bag_of_words(list(self._objects(values)), self.place).named(column))
            else:
                categorical[column] = self.texts(column)
        if not numeric and not bags:
            return None, None, categorical
        matrix = self._matrix(numeric) if numeric else None
        for bag in bags:
            matrix = bag.counts if matrix is None else sp.csr_array(sp.hstack([sp.csr_array(matrix), bag.counts]))
            numeric = [*numeric, *bag.names]
        return matrix, numeric, categorical

    def texts(self, column: str) -> np.ndarray:
        """A column as text, ``None`` for missing values."""
        values = self._objects(self.column(column))
        return np.array([None if value is None else str(value) for value in values], dtype=object)

    def _matrix(self, columns: Sequence[str]) -> np.ndarray | sp.csr_array:
        """Sparse if any column is: pandas' sparse columns are many and mostly zero."""
        sparse = [isinstance(self.column(column).dtype, self.pandas.SparseDtype) for column in columns]
        if not any(sparse):
            return np.column_stack([self.numbers(column, "E-FEAT-TYPE") for column in columns])
        rows, positions, data = [], [], []
        for position, column in enumerate(columns):
            values = self.column(column)
            if sparse[position] and values.dtype.fill_value == 0:
                at, entries = np.asarray(values.array.sp_index.indices), np.asarray(values.array.sp_values)
            else:
                dense = self.numbers(column, "E-FEAT-TYPE")
                at = np.flatnonzero(dense)
                entries = dense[at]
            rows.append(at)
            positions.append(np.full(len(at), position))
            data.append(entries.astype(np.float64))
        where = (np.concatenate(rows), np.concatenate(positions))
        return sp.csr_array((np.concatenate(data), where), shape=(len(self.frame), len(columns)))

    def _kind(self, column: str, values: Any) -> str:
        """``number``, ``text`` or ``words``; anything else is refused."""
        types = self.pandas.api.types
        dtype = values.dtype
        if isinstance(dtype, self.pandas.CategoricalDtype):
            return "text"
        if types.is_bool_dtype(dtype) or (types.is_numeric_dtype(dtype) and not types.is_complex_dtype(dtype)):
            return "number"
        if isinstance(dtype, self.pandas.StringDtype):
            return "text"
        if isinstance(dtype, np.dtype) and dtype.kind == "O":
            return self._kind_of_objects(column, values)
        raise self._unusable(column, str(dtype), None)

    def _kind_of_objects(self, column: str, values: Any) -> str:
        first: dict[str, int] = {}
        for row, value in enumerate(self._objects(values)):
            if value is not None:
                number = isinstance(value, (Real, np.bool_))
                words = isinstance(value, (list, tuple, set, frozenset, np.ndarray))
                kind = "text" if isinstance(value, str) else "number" if number else type(value).__name__
                kind = "words" if words else kind
                first.setdefault(kind, row)
        if odd := next((kind for kind in first if kind not in ("text", "number", "words")), None):
            raise self._unusable(column, odd, first[odd])
        if len(first) > 1:
            row = max(first.values())
            raise BadInput(
                f"the column '{shorten(column, 60)}' mixes {' and '.join(sorted(first))}",
                code="E-FEAT-TYPE",
                place=f"{self.place(row)}, column {shorten(column, 60)}",
                found=str(values.iloc[row]),
                expected="only numbers, only text, or only lists of words",
                fix="clean the column, or convert all of it to text with .astype(str)",
            )
        return next(iter(first), "number")  # nothing but missing values: refused with all missing numbers

    def _unusable(self, column: str, found: str, row: int | None) -> BadInput:
        where = self.what if row is None else self.place(row)
        return BadInput(
            f"the column '{shorten(column, 60)}' holds {shorten(found, 60)}",
            code="E-DTYPE",
            place=f"{where}, column {shorten(column, 60)}",
            found=found,
            expected="numbers, booleans, text, categories or lists of words",
            fix="convert it (for example a date to a number of days), or leave it out with features=[…]",
        )
