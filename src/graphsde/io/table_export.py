"""Tables for people: the one place that writes CSV files for spreadsheets."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from graphsde.base import storage
from graphsde.base.errors import BadUsage
from graphsde.io.opening import safe_cell

if TYPE_CHECKING:
    import pyarrow as pa

SUFFIXES = (".csv", ".parquet")
ROWS_AT_ONCE = 100_000


def require_table_name(path: Path) -> str:
    """The suffix of a table's name; refused if the format is unknown."""
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise BadUsage(f"can't write a table to '{path.name}'", expected="a name that ends in .csv or .parquet")
    return suffix


def write_table(columns: Mapping[str, Any], path: Path) -> None:
    """Write columns as CSV or Parquet, by suffix. Text in CSV can't become a formula in a spreadsheet.

    Rows are written in blocks, so that a long table needs no more memory than its columns.

    Args:
        columns: arrays or lists by name, all of one length.
        path: replaced atomically; the old file stays until the new one is complete.
    """
    import pyarrow as pa

    suffix = require_table_name(path)
    harmless = suffix == ".csv"
    rows = max((len(values) for values in columns.values()), default=0)
    # the type of a column depends on all of its rows: the first ones may be empty
    kinds = {name: _kind(values) if rows > ROWS_AT_ONCE else None for name, values in columns.items()}
    titles = {name: safe_cell(name) if harmless else name for name in columns}
    with storage.writing(path) as stream, contextlib.ExitStack() as open_:
        writer: Any = None
        for start in range(0, max(rows, 1), ROWS_AT_ONCE):
            part = {name: values[start : start + ROWS_AT_ONCE] for name, values in columns.items()}
            cells = {name: _harmless(values) if harmless else values for name, values in part.items()}
            table = pa.table({titles[name]: _arrow(values, kinds[name]) for name, values in cells.items()})
            if writer is None:
                writer = open_.enter_context(_writer(suffix, stream, table.schema))
            writer.write_table(table)


def _writer(suffix: str, stream: Any, schema: pa.Schema) -> Any:
    if suffix == ".csv":
        import pyarrow.csv as pa_csv

        return pa_csv.CSVWriter(stream, schema)
    import pyarrow.parquet as pa_parquet

    return pa_parquet.ParquetWriter(stream, schema)


def _kind(values: Any) -> pa.DataType:
    import pyarrow as pa

    if isinstance(values, np.ndarray) and values.dtype != object:
        return _arrow(values[:1]).type
    return pa.infer_type(values)


def _harmless(values: Any) -> Any:
    """Numbers stay numbers, whatever their container; text may be in arrays of objects or characters, or in lists."""
    if isinstance(values, np.ndarray) and values.dtype.kind not in "OUST":
        return values
    return [safe_cell(value) if isinstance(value, str) else value for value in values]


def _arrow(values: Any, kind: pa.DataType | None = None) -> pa.Array:
    """A column for Arrow; its own conversion of arrays and lists imports pandas, so it is only used for rare cases.

    ``kind`` is that of the whole column, if these are only some of its rows.
    """
    import pyarrow as pa

    if kind is not None:
        some = _arrow(values)
        return some if some.type == kind else some.cast(kind)

    if isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype.isnative:
        if values.dtype.kind == "b":
            bits = np.packbits(values, bitorder="little")
            return pa.Array.from_buffers(pa.bool_(), len(values), [None, pa.py_buffer(bits)])
        if values.dtype.kind in "iuf":
            numbers = np.ascontiguousarray(values)
            return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [None, pa.py_buffer(numbers)])
        if values.dtype.kind in "OU":
            values = values.tolist()
    if isinstance(values, list):
        kinds = {type(value) for value in values} - {type(None)}
        if not kinds:
            return pa.nulls(len(values))  # untyped nulls, as in Arrow
        if kinds == {str}:
            return _texts(values)
        if kinds == {float}:
            numbers = np.array([0.0 if value is None else value for value in values])
            return pa.Array.from_buffers(pa.float64(), len(values), [_there(values), pa.py_buffer(numbers)])
    return pa.array(values)


def _texts(values: list[str | None]) -> pa.Array:
    import pyarrow as pa

    encoded = [b"" if value is None else value.encode() for value in values]
    ends = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    if ends[-1] >= 2**31:  # offsets have 32 bits; Arrow cuts a longer column into pieces
        return pa.array(values)
    offsets, letters = pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(b"".join(encoded))
    return pa.StringArray.from_buffers(len(values), offsets, letters, _there(values))


def _there(values: list[Any]) -> pa.Buffer | None:
    """A bit per value: whether it is present; ``None`` if all are."""
    import pyarrow as pa

    there = np.array([value is not None for value in values], dtype=bool)
    return None if there.all() else pa.py_buffer(np.packbits(there, bitorder="little"))
