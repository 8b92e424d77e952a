"""Tables for people: the one place where CSV is written that a spreadsheet may open."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from graphsde.base import storage
from graphsde.base.errors import BadUsage
from graphsde.io.opening import safe_cell

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
    table = pa.table({name: pa.array(values) for name, values in columns.items()})
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
