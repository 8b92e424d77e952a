"""A Parquet file as a table of typed columns."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from graphsde.base.errors import BadInput, shorten
from graphsde.io.columns import Features, as_objects
from graphsde.io.csv_table import check_header
from graphsde.io.opening import opened, refuse_bomb, refuse_cost
from graphsde.io.words import split_texts

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

# the format keeps a kilobyte of facts about every column: beyond this, looking at them takes longer than the data
MOST_COLUMNS = 20_000
# bytes at the peak of reading and checking, as measured; a microsecond counts as a hundred
_PER_ROW, _PER_NUMBER, _PER_TEXT, _PER_DECIMAL, _PER_CHUNK = 120, 22, 90, 190, 15_000
_PER_WORD, _PER_LIST = 120, 150


@dataclass(frozen=True)
class ParquetTable:
    """Named, typed columns.

    Args:
        path: where it was read.
        schema: the names and types of its columns.
        table: the columns that hold numbers or text; text is dictionary-encoded.
    """

    path: Path
    schema: pa.Schema
    table: pa.Table

    @property
    def names(self) -> list[str]:
        return list(self.schema.names)

    @property
    def num_rows(self) -> int:
        return int(self.table.num_rows)

    @property
    def header_place(self) -> str:
        return self.path.name

    @property
    def place(self) -> Callable[[int], str]:
        file = self.path.name  # not self, which would keep the columns in memory
        return lambda row: f"{file}, row {row + 1}"

    def ids(self, column: str) -> np.ndarray:
        return self.values(column)

    def values(self, column: str) -> np.ndarray:
        import pyarrow as pa

        array = self._column(column)
        if self._kind(column, array.type) == "text":
            return as_objects(array)
        if array.null_count or pa.types.is_decimal(array.type) or pa.types.is_null(array.type):
            objects = np.empty(len(array), dtype=object)
            objects[:] = array.to_pylist()
            return objects
        return array.to_numpy(zero_copy_only=False)

    def words(self, column: str) -> list[list[Any] | None]:
        if self.holds_lists(column):
            return list(self.table.column(column).to_pylist())
        return list(split_texts(self.values(column)))

    def holds_lists(self, column: str) -> bool:
        return _holds_lists(self.schema.field(column).type)

    def weights(self, column: str) -> np.ndarray:
        array = self._column(column)
        if self._kind(column, array.type) == "text":
            raise BadInput(
                f"the column '{shorten(column, 60)}' of edge weights is text",
                code="E-WEIGHT",
                place=f"{self.path.name}, column {shorten(column, 60)}",
                found=str(array.type),
                expected="numbers",
            )
        return _numbers(array)

    def features(self, columns: Sequence[str], categorical: Collection[str]) -> Features:
        text = {name for name in columns if self._kind(name, self.schema.field(name).type) == "text"}
        numeric = [name for name in columns if name not in text and name not in categorical]
        values = np.empty((self.num_rows, len(numeric)))
        for position, name in enumerate(numeric):
            values[:, position] = _numbers(self._column(name))
        chosen = set(numeric)
        return Features(
            numeric=values if numeric else None,
            numeric_names=numeric,
            categorical={name: _texts(self._column(name)) for name in columns if name not in chosen},
        )

    def _column(self, column: str) -> pa.Array:
        import pyarrow as pa

        self._kind(column, self.schema.field(column).type)
        array = self.table.column(column).combine_chunks()
        if pa.types.is_dictionary(array.type) and not pa.types.is_string(array.type.value_type):
            return array.dictionary_decode()
        return array

    def _kind(self, column: str, kind: pa.DataType) -> str:
        if (found := _kind_of(kind)) is not None:
            return found
        raise BadInput(
            f"the column '{shorten(column, 60)}' holds {shorten(str(kind), 60)}",
            code="E-DTYPE",
            place=f"{self.path.name}, column {shorten(column, 60)}",
            found=str(kind),
            expected="numbers, booleans or text; features may also be lists of words",
            fix="convert the column, or list it under 'drop' in graph.yaml",
        )


def _kind_of(kind: pa.DataType) -> str | None:
    """``number``, ``text``, or ``None`` for what is neither: dates, bytes, lists, records."""
    from pyarrow import types

    value = kind.value_type if types.is_dictionary(kind) else kind
    if types.is_string(value) or types.is_large_string(value):
        return "text"
    numbers = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal, types.is_null)
    return "number" if kind is value and any(test(value) for test in numbers) else None


def _holds_lists(kind: pa.DataType) -> bool:
    """Lists of text or of whole numbers, which are words."""
    from pyarrow import types

    if not (types.is_list(kind) or types.is_large_list(kind)):
        return False
    inner = kind.value_type
    return types.is_integer(inner) or types.is_string(inner) or types.is_large_string(inner)


def read_parquet(path: Path) -> ParquetTable:
    """Read a Parquet file, after comparing what it announces with its size."""
    with opened(path) as stream, _corrupt(path):
        return _read(stream, path)


def _read(stream: BinaryIO, path: Path) -> ParquetTable:
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = pq.ParquetFile(stream, thrift_string_size_limit=50_000_000, thrift_container_size_limit=1_000_000)
    facts, schema = file.metadata, file.schema_arrow
    size = stream.seek(0, 2)
    if len(schema) > MOST_COLUMNS:
        raise BadInput(
            f"{path.name} has {len(schema):,} columns",
            code="E-LINE-LEN",
            place=path.name,
            expected=f"at most {MOST_COLUMNS:,}",
            fix="store features as wide as this in an .npz file",
        )
    check_header(schema.names, path.name)
    groups = sum(max(facts.row_group(group).total_byte_size, 0) for group in range(facts.num_row_groups))
    refuse_bomb(path, declared=max(8 * facts.num_rows * facts.num_columns, groups), compressed=size)
    _refuse_dear(facts, schema, path, size)
    # records and other lists are not even read
    readable = [field.name for field in schema if _kind_of(field.type) is not None or _holds_lists(field.type)]
    # text that repeats stays a dictionary: written out, one long word in many rows could fill the memory
    text = [field.name for field in schema if pa.types.is_string(field.type) or pa.types.is_large_string(field.type)]
    file = pq.ParquetFile(stream, metadata=facts, read_dictionary=text)
    table = file.read(columns=readable, use_threads=False)
    table.validate(full=True)
    if table.num_rows != facts.num_rows:
        raise pa.ArrowInvalid(f"{table.num_rows} rows where {facts.num_rows} are announced")
    return ParquetTable(path, schema, table)


def _refuse_dear(facts: pq.FileMetaData, schema: pa.Schema, path: Path, size: int) -> None:
    """Runs of equal values take next to nothing in a file: what counts is how many are announced."""
    import pyarrow as pa

    each = _PER_ROW
    for field in schema:
        is_text = _kind_of(field.type) == "text"
        each += (
            _PER_LIST
            if _holds_lists(field.type)
            else _PER_TEXT
            if is_text
            else _PER_DECIMAL
            if pa.types.is_decimal(field.type)
            else _PER_NUMBER
        )
    refuse_cost(
        path,
        cost=_count_words(facts, schema) * _PER_WORD
        + facts.num_rows * each
        + facts.num_row_groups * facts.num_columns * _PER_CHUNK,
        size=size,
        fix="write it without compression and dictionaries, in few row groups, or leave out columns",
    )


def _count_words(facts: pq.FileMetaData, schema: pa.Schema) -> int:
    """How many entries the lists are said to have altogether."""
    lists = {field.name for field in schema if _holds_lists(field.type)}
    if not lists:
        return 0
    count = 0
    for group in range(facts.num_row_groups):
        chunks = (facts.row_group(group).column(leaf) for leaf in range(facts.num_columns))
        count += sum(max(chunk.num_values, 0) for chunk in chunks if chunk.path_in_schema.split(".")[0] in lists)
    return count


@contextmanager
def _corrupt(path: Path) -> Iterator[None]:
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError, ValueError, OverflowError, MemoryError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise BadInput(
            f"{path.name} is no whole Parquet file: {shorten(str(error), 120)}",
            code="E-CORRUPT",
            place=path.name,
            fix="write or copy the file again",
        ) from None


def _numbers(array: pa.Array) -> np.ndarray:
    import pyarrow as pa

    return array.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)


def _texts(array: pa.Array) -> np.ndarray:
    import pyarrow as pa

    if not pa.types.is_dictionary(array.type):
        array = array.cast(pa.string())
    return as_objects(array)
