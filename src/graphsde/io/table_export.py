"""Tables for people: the one place where CSV is written that a spreadsheet may open."""

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
    """The suffix of a table's name, refused where there is no such format."""
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise BadUsage(f"can't write a table to '{path.name}'", expected="a name that ends in .csv or .parquet")
    return suffix


def write_table(columns: Mapping[str, Any], path: Path) -> None:
    """Write columns as CSV or Parquet, by suffix. Text in CSV can't become a formula in a spreadsheet.

    Some rows are written at a time, so that a long table takes no more memory than its columns.

    Args:
        columns: arrays or lists by name, all of one length.
        path: replaced at once; the old file stays until the new one is complete.
    """
    import pyarrow as pa

    suffix = require_table_name(path)
    harmless = suffix == ".csv"
    rows = max((len(values) for values in columns.values()), default=0)
    # what a column is, all of its rows say: the first ones may all be empty
    kinds = {name: _kind(values) if rows > ROWS_AT_ONCE else None for name, values in columns.items()}
    titles = {name: safe_cell(name) if harmless else name for name in columns}
    with storage.writing(path) as stream, contextlib.ExitStack() as open_:
        writer: Any = None
        for start in range(0, max(rows, 1), ROWS_AT_ONCE):
            part = {name: values[start : start + ROWS_AT_ONCE] for name, values in columns.items()}
            cells = {name: _harmless(values) if harmless else values for name, values in part.items()}
            table = pa.table({titles[name]: pa.array(values, kinds[name]) for name, values in cells.items()})
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
        return pa.array(values[:1]).type
    return pa.infer_type(values)


def _harmless(values: Any) -> Any:
    """Numbers stay numbers, whatever holds them; text may be in arrays of objects or of characters, and in lists."""
    if isinstance(values, np.ndarray) and values.dtype.kind not in "OUST":
        return values
    return [safe_cell(value) if isinstance(value, str) else value for value in values]
