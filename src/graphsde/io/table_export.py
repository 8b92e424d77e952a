"""Tables for people: the one place where CSV is written that a spreadsheet may open."""

from __future__ import annotations

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


def require_table_name(path: Path) -> str:
    """The suffix of a table's name, refused where there is no such format."""
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise BadUsage(f"can't write a table to '{path.name}'", expected="a name that ends in .csv or .parquet")
    return suffix


def write_table(columns: Mapping[str, Any], path: Path) -> None:
    """Write columns as CSV or Parquet, by suffix. Text in CSV can't become a formula in a spreadsheet.

    Args:
        columns: arrays or lists by name, all of one length.
        path: replaced at once; the old file stays until the new one is complete.
    """
    import pyarrow as pa
    import pyarrow.csv as pa_csv
    import pyarrow.parquet as pa_parquet

    suffix = require_table_name(path)
    if suffix == ".csv":
        columns = {safe_cell(name): _harmless(values) for name, values in columns.items()}
    table = pa.table({name: _arrow(values) for name, values in columns.items()})
    with storage.writing(path) as stream:
        if suffix == ".csv":
            pa_csv.write_csv(table, stream)
        else:
            pa_parquet.write_table(table, stream)


def _harmless(values: Any) -> Any:
    """Numbers stay numbers, whatever holds them; text may be in arrays of objects or of characters, and in lists."""
    if isinstance(values, np.ndarray) and values.dtype.kind not in "OUST":
        return values
    return [safe_cell(value) if isinstance(value, str) else value for value in values]


def _arrow(values: Any) -> pa.Array:
    """A column for Arrow, whose own door for arrays and lists imports pandas; it is left for what is rare."""
    import pyarrow as pa

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
            return pa.nulls(len(values))  # without a type, as Arrow has it
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
    """A bit per value: whether it is one; nothing where all are."""
    import pyarrow as pa

    there = np.array([value is not None for value in values], dtype=bool)
    return None if there.all() else pa.py_buffer(np.packbits(there, bitorder="little"))
