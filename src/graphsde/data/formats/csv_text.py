"""A CSV file as a table of text, with the line every row stands in."""

from __future__ import annotations

import csv
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from graphsde.data.formats.csv_bytes import load_text
from graphsde.data.formats.csv_cells import Block, LooseQuotes, split_cells, split_cells_slowly
from graphsde.data.formats.csv_header import read_header
from graphsde.data.formats.table import Features, as_objects
from graphsde.data.formats.text_numbers import (
    count_kinds,
    first_text,
    parse_numbers,
    refuse_stray_text,
    refuse_text_crowds,
    stray_text,
    whole_numbers,
)
from graphsde.errors import BadInput

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class LinePlace:
    """Where a row is; it does not keep the cells in memory."""

    file: str
    lines: np.ndarray

    def __call__(self, row: int) -> str:
        return f"{self.file}, line {int(self.lines[row])}"


@dataclass(frozen=True)
class CsvTable:
    """Named columns of text cells, kept as flat blocks, row after row.

    Args:
        path: where it was read.
        names: the header.
        blocks: cells of whole rows, each row with ``len(names)`` of them.
        lines: the line in which each row begins.  # [rows]
    """

    path: Path
    names: list[str]
    blocks: list[pa.Array]
    lines: np.ndarray

    @property
    def num_rows(self) -> int:
        return len(self.lines)

    @property
    def header_place(self) -> str:
        return f"{self.path.name}, line 1"

    @property
    def place(self) -> LinePlace:
        return LinePlace(self.path.name, self.lines)

    def ids(self, column: str) -> np.ndarray:
        numbers = []
        for cells in self._select([column]):
            parsed = whole_numbers(cells)
            if parsed is None:
                return self.values(column)
            numbers.append(parsed)
        return np.concatenate(numbers) if numbers else np.zeros(0, dtype=np.int64)

    def values(self, column: str) -> np.ndarray:
        return as_objects(self._column(column))

    def weights(self, column: str) -> np.ndarray:
        cells = self._column(column)
        if first_text(cells) is not None:
            raise stray_text(column, cells, self.place, 1, code="E-WEIGHT")
        return parse_numbers([cells], self.num_rows, 1)[:, 0]

    def features(self, columns: Sequence[str], categorical: Collection[str]) -> Features:
        free = [name for name in columns if name not in categorical]
        kinds = count_kinds(self._select(free), len(free))
        findings = refuse_stray_text(free, kinds, self.num_rows, self._column, self.place)
        numeric = [name for name, is_number in zip(free, kinds.all_numbers(self.num_rows), strict=True) if is_number]
        chosen = set(numeric)
        refuse_text_crowds([name for name in columns if name not in chosen], self._column, self.place)
        return Features(
            numeric=parse_numbers(self._select(numeric), self.num_rows, len(numeric)) if numeric else None,
            numeric_names=numeric,
            categorical={name: self.values(name) for name in columns if name not in chosen},
            findings=findings,
        )

    @cached_property
    def _position(self) -> dict[str, int]:
        return {name: position for position, name in enumerate(self.names)}

    def _select(self, columns: Sequence[str]) -> Iterator[pa.Array]:
        """The cells of some columns, row after row, block by block."""
        import pyarrow as pa

        width = len(self.names)
        positions = np.array([self._position[name] for name in columns], dtype=np.int64)
        all_of_them = np.array_equal(positions, np.arange(width))
        for block in self.blocks:
            rows = np.arange(0, len(block), width)[:, None]
            yield block if all_of_them else block.take(pa.array((rows + positions).ravel()))

    def _column(self, column: str) -> pa.Array:
        import pyarrow as pa

        return pa.concat_arrays([pa.array([], pa.string()), *self._select([column])])


def read_csv(path: Path, *, wanted: Sequence[str], encoding: str = "utf-8") -> CsvTable:
    """Read a CSV file.

    Args:
        path: the file.
        wanted: columns that the header should have; they decide between possible delimiters.
        encoding: how its text is encoded.
    """
    data = load_text(path, encoding)
    header, delimiter = read_header(data, path, wanted)
    try:
        blocks = list(split_cells(data, delimiter))
    except LooseQuotes:
        try:
            blocks = list(split_cells_slowly(data, delimiter))
        except csv.Error as error:
            raise _open_quote(path, error) from None
    _check_widths(path, len(header), blocks)
    lines = np.concatenate([block.lines for block in blocks])[1:]
    cells = [blocks[0].cells[len(header) :], *(block.cells for block in blocks[1:])]
    return CsvTable(path, header, [block for block in cells if len(block)], lines)


def _open_quote(path: Path, error: csv.Error) -> BadInput:
    return BadInput(
        f"a quoted cell of {path.name} never ends: {error}",
        code="E-QUOTE",
        place=path.name,
        expected='every cell that begins with " to end with "',
        fix='write a quote inside a cell twice, as in "5"" pipe"',
    )


def _check_widths(path: Path, width: int, blocks: list[Block]) -> None:
    wrong = sum(int(np.count_nonzero(block.widths != width)) for block in blocks)
    if wrong:
        block = next(block for block in blocks if (block.widths != width).any())
        row = int((block.widths != width).argmax())
        more = f", and {wrong - 1:,} more rows differ" if wrong > 1 else ""
        raise BadInput(
            f"a row has {block.widths[row]} cells where the header has {width}{more}",
            code="E-ROW-LEN",
            place=f"{path.name}, line {block.lines[row]}",
            found=f"{block.widths[row]} cells",
            expected=f"{width} cells",
            fix='add or remove cells; put a cell with a comma in it into quotes, as in "1,5"',
        )
