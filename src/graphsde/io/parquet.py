"""A Parquet file as a table of typed columns."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from graphsde.base.errors import BadInput, StorageError, shorten
from graphsde.graph.ids import CodedTexts
from graphsde.io.columns import Features, as_coded, as_objects
from graphsde.io.csv_table import check_header
from graphsde.io.opening import opened, refuse_bomb, refuse_cost
from graphsde.io.words import split_texts

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

# the format stores a kilobyte of metadata per column: above this, reading them takes longer than the data
MOST_COLUMNS = 20_000
# bytes at the peak of reading and checking, as measured; a microsecond counts as a hundred
_PER_ROW, _PER_NUMBER, _PER_TEXT, _PER_DECIMAL, _PER_CHUNK = 120, 22, 90, 190, 15_000
_PER_WORD, _PER_LIST = 120, 150
# a block of this many rows and columns of a matrix stays in the processor's cache while it is filled
_ROWS_AT_ONCE, _COLUMNS_AT_ONCE = 16_384, 8
# pages of a column are read one after the other, not all at once
_BUFFER = 65_536


@dataclass(frozen=True)
class ParquetTable:
    """Named, typed columns, each read on demand: all of them at once would need twice the memory.

    Args:
        path: where they are.
        schema: the names and types of the columns.
        facts: the file's metadata.
        stamp: size and time of the file when that was read; a file that has changed since is refused.
    """

    path: Path
    schema: pa.Schema
    facts: pq.FileMetaData
    stamp: tuple[int, int]

    @property
    def names(self) -> list[str]:
        return list(self.schema.names)

    @property
    def num_rows(self) -> int:
        return int(self.facts.num_rows)

    @property
    def header_place(self) -> str:
        return self.path.name

    @property
    def place(self) -> Callable[[int], str]:
        file = self.path.name  # not self, which would keep the columns in memory
        return lambda row: f"{file}, row {row + 1}"

    def ids(self, column: str) -> np.ndarray:
        return self.values(column)

    def ends(self, column: str) -> np.ndarray | CodedTexts:
        import pyarrow as pa

        kind = self.schema.field(column).type
        if pa.types.is_integer(kind) and (numbers := self._whole_numbers(column)) is not None:
            return numbers
        if self._kind(column, kind) == "text":
            array = self._column(column)
            pa.default_memory_pool().release_unused()  # the dictionaries of parts of it, before they were one
            return as_coded(array)
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
            return list(self._chunks(column).to_pylist())
        return list(split_texts(self.values(column)))

    def holds_lists(self, column: str) -> bool:
        return _holds_lists(self.schema.field(column).type)

    def padded(self, columns: Sequence[str]) -> list[str]:
        return []  # numbers have a type here, and text stays text

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
        values = self._matrix(numeric)
        chosen = set(numeric)
        return Features(
            numeric=values if numeric else None,
            numeric_names=numeric,
            categorical={name: _texts(self._column(name)) for name in columns if name not in chosen},
        )

    def _column(self, column: str) -> pa.Array:
        import pyarrow as pa

        self._kind(column, self.schema.field(column).type)
        array = self._chunks(column).combine_chunks()
        if pa.types.is_dictionary(array.type) and not pa.types.is_string(array.type.value_type):
            return array.dictionary_decode()
        return array

    def _chunks(self, column: str) -> pa.ChunkedArray:
        import pyarrow as pa

        with self._opened([column]) as file:
            table = file.read(columns=[column], use_threads=False).select([column])
            table.validate(full=True)
            if table.num_rows != self.num_rows:
                raise pa.ArrowInvalid(f"{table.num_rows} rows, but {self.num_rows} are declared")
        return table.column(0)

    def _batches(self, columns: Sequence[str]) -> Iterator[tuple[slice, list[pa.Array]]]:
        """Some rows at a time: which ones, and their cells column by column."""
        import pyarrow as pa

        stop = 0
        with self._opened(columns) as file:
            for batch in file.iter_batches(_ROWS_AT_ONCE, columns=list(columns), use_threads=False):
                batch.validate(full=True)
                start, stop = stop, stop + batch.num_rows
                if stop <= self.num_rows:
                    yield slice(start, stop), [batch.column(name) for name in columns]
            if stop != self.num_rows:
                raise pa.ArrowInvalid(f"{stop} rows, but {self.num_rows} are declared")

    def _matrix(self, columns: Sequence[str]) -> np.ndarray:
        """Columns of numbers side by side, NaN where missing: float32 where that holds them exactly.  # [N, d]"""
        narrow = all(_fits_float32(self.schema.field(name).type) for name in columns)
        values = np.empty((self.num_rows, len(columns)), dtype=np.float32 if narrow else np.float64)
        for first in range(0, len(columns), _COLUMNS_AT_ONCE):
            for rows, cells in self._batches(columns[first : first + _COLUMNS_AT_ONCE]):
                for position, array in enumerate(cells, start=first):
                    values[rows, position] = _numbers(array, narrow=narrow)
        return values

    def _whole_numbers(self, column: str) -> np.ndarray | None:
        """An integer column in its own type; ``None`` if values are missing.  # [N]"""
        values = np.empty(self.num_rows, dtype=self.schema.field(column).type.to_pandas_dtype())
        for rows, (array,) in self._batches([column]):
            if array.null_count:
                return None
            values[rows] = array.to_numpy(zero_copy_only=False)
        return values

    @contextmanager
    def _opened(self, columns: Sequence[str]) -> Iterator[pq.ParquetFile]:
        import pyarrow as pa
        import pyarrow.parquet as pq

        with opened(self.path) as stream, _corrupt(self.path):
            if _stamp(stream) != self.stamp:
                raise StorageError(
                    f"{self.path.name} changed while it was being read",
                    place=str(self.path),
                    fix="wait until the program that writes it has finished, then read it again",
                )
            kinds = {name: self.schema.field(name).type for name in columns}
            # repeated text stays a dictionary: expanded, one long word in many rows could fill the memory
            text = [name for name, kind in kinds.items() if pa.types.is_string(kind) or pa.types.is_large_string(kind)]
            yield pq.ParquetFile(
                stream, metadata=self.facts, read_dictionary=text, buffer_size=_BUFFER, pre_buffer=False
            )

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
    """Lists of text or of integers, which are words."""
    from pyarrow import types

    if not (types.is_list(kind) or types.is_large_list(kind)):
        return False
    inner = kind.value_type
    return types.is_integer(inner) or types.is_string(inner) or types.is_large_string(inner)


def read_parquet(path: Path) -> ParquetTable:
    """Open a Parquet file after checking its declared sizes; columns are read later, one by one."""
    with opened(path) as stream, _corrupt(path):
        return _read(stream, path)


def _read(stream: BinaryIO, path: Path) -> ParquetTable:
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
    return ParquetTable(path, schema, facts, _stamp(stream))


def _stamp(stream: BinaryIO) -> tuple[int, int]:
    status = os.fstat(stream.fileno())
    return status.st_size, status.st_mtime_ns


def _refuse_dear(facts: pq.FileMetaData, schema: pa.Schema, path: Path, size: int) -> None:
    """Runs of equal values take almost no space in a file: what counts is how many are declared."""
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
    """The declared number of entries in all lists."""
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
            f"{path.name} is not a complete Parquet file: {shorten(str(error), 120)}",
            code="E-CORRUPT",
            place=path.name,
            fix="write or copy the file again",
        ) from None


def _fits_float32(kind: pa.DataType) -> bool:
    """Whether every number of a type is one of float32."""
    from pyarrow import types

    small = (types.is_int8, types.is_uint8, types.is_int16, types.is_uint16, types.is_boolean, types.is_null)
    return types.is_float32(kind) or types.is_float16(kind) or any(test(kind) for test in small)


def _numbers(array: pa.Array, *, narrow: bool = False) -> np.ndarray:
    import pyarrow as pa

    return array.cast(pa.float32() if narrow else pa.float64(), safe=False).to_numpy(zero_copy_only=False)


def _texts(array: pa.Array) -> np.ndarray:
    import pyarrow as pa

    if not pa.types.is_dictionary(array.type):
        array = array.cast(pa.string())
    return as_objects(array)
