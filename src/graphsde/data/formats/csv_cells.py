"""CSV bytes to cells, many rows at a time.

Every cell of a block becomes one entry of a flat Arrow text array, row after row. A general CSV reader makes one array
per column and block instead: a 10 MB file with 100,000 columns would then cost more than a gigabyte, and a row number
could not be turned back into a line number where cells contain line breaks.
"""

from __future__ import annotations

import csv
import io
from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa

_BLOCK = 1 << 20
_CELLS_AT_ONCE = 100_000
_QUOTE, _LF, _CR = b'"\n\r'


@dataclass(frozen=True)
class Block:
    """Some consecutive rows.

    Args:
        cells: all cells, row after row.
        widths: how many cells each row has.  # [rows]
        lines: the line, counted from 1, in which each row begins, int32.  # [rows]
    """

    cells: pa.Array
    widths: np.ndarray
    lines: np.ndarray


class LooseQuotes(Exception):
    """A quote stands inside a cell that does not begin with one, or never closes: the fast way can't tell."""


def split_cells(data: bytes, delimiter: str) -> Iterator[Block]:
    """Cut UTF-8 text into blocks of cells.

    Raises:
        LooseQuotes: if :func:`split_cells_slowly` is needed.
    """
    quoted = b'"' in data
    if not quoted and b"\r" in data:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    if not data.endswith(b"\n"):
        data = data + b"\n"
    start, line = 0, 1
    while start < len(data):
        stop = _end_of_rows(data, start, quoted)
        piece = np.frombuffer(data, dtype=np.uint8, count=stop - start, offset=start)
        yield _block(piece, ord(delimiter), line, quoted)
        line += int(np.count_nonzero(_line_breaks(piece)))
        start = stop


def split_cells_slowly(data: bytes, delimiter: str) -> Iterator[Block]:
    """As :func:`split_cells`, with the tolerance of the standard library's reader; may raise ``csv.Error``."""
    import pyarrow as pa

    reader = csv.reader(io.StringIO(data.decode("utf-8"), newline=""), delimiter=delimiter)
    cells: list[str] = []
    widths, lines = array("i"), array("i")
    line = 1
    for row in chain(reader, [None]):
        if row:
            cells += map(str.strip, row)
            widths.append(len(row))
            lines.append(line)
        line = reader.line_num + 1
        if row is None or len(cells) > _CELLS_AT_ONCE:
            yield Block(pa.array(cells, pa.string()), np.array(widths), np.array(lines))
            cells, widths, lines = [], array("i"), array("i")


def _inside_quotes(piece: np.ndarray) -> np.ndarray:
    return (np.cumsum(piece == _QUOTE, dtype=np.uint8) & 1).astype(bool)


def _end_of_rows(data: bytes, start: int, quoted: bool) -> int:
    """The end of the last whole row within about a block; at least one row, however long."""
    size = _BLOCK
    while start + size < len(data):
        if quoted:
            piece = np.frombuffer(data, dtype=np.uint8, count=size, offset=start)
            ends = np.flatnonzero((piece == _LF) & ~_inside_quotes(piece))
            if ends.size:
                return start + int(ends[-1]) + 1
        elif (last := data.rfind(b"\n", start, start + size)) >= 0:
            return last + 1
        size *= 2
    return len(data)


def _line_breaks(piece: np.ndarray) -> np.ndarray:
    return (piece == _LF) | ((piece == _CR) & (np.append(piece[1:], 0) != _LF))


def _block(piece: np.ndarray, delimiter: int, first_line: int, quoted: bool) -> Block:
    import pyarrow as pa

    if quoted:
        inside = _inside_quotes(piece)
        if inside[-1]:
            raise LooseQuotes
        piece, inside = _plain_line_ends(piece, inside)
        separator = ((piece == delimiter) | (piece == _LF)) & ~inside
    else:
        separator = (piece == delimiter) | (piece == _LF)
    at = np.flatnonzero(separator)
    ends_row = np.flatnonzero(piece[at] == _LF)
    widths = np.diff(ends_row, prepend=-1)
    row_ends = at[ends_row]
    row_starts = np.concatenate([[0], row_ends[:-1] + 1])
    if quoted:
        lines = first_line + np.searchsorted(np.flatnonzero(_line_breaks(piece)), row_starts)
    else:
        lines = first_line + np.arange(len(row_ends))
    # an empty line is no row; its only cell has no bytes, so that leaving it out moves no other cell
    blank = row_starts == row_ends
    ends = at - np.arange(len(at))
    if blank.any():
        ends = np.delete(ends, ends_row[blank])
        widths, lines = widths[~blank], lines[~blank]
    offsets = np.concatenate([[0], ends]).astype(np.int32)
    values = piece[~separator].tobytes()
    cells = pa.StringArray.from_buffers(len(ends), pa.py_buffer(offsets), pa.py_buffer(values))
    return Block(_clean(cells, quoted), widths.astype(np.int32), lines.astype(np.int32))


def _plain_line_ends(piece: np.ndarray, inside: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """CR and CRLF between rows become LF; inside a quoted cell they are the user's."""
    returns = (piece == _CR) & ~inside
    if not returns.any():
        return piece, inside
    pair = returns & (np.append(piece[1:], 0) == _LF)
    plain = np.where(returns & ~pair, np.uint8(_LF), piece)
    return plain[~pair], inside[~pair]


def _clean(cells: pa.Array, may_be_quoted: bool) -> pa.Array:
    """Take off quotes; where there are none, the space around a cell is not part of it."""
    import pyarrow.compute as pc

    plain = pc.ascii_trim_whitespace(cells)
    if not may_be_quoted:
        return plain
    quoted = pc.starts_with(cells, '"')
    inner = pc.utf8_slice_codeunits(cells, 1, -1)
    # one quote at each end and pairs of them between
    whole = pc.and_(
        pc.and_(pc.ends_with(cells, '"'), pc.greater_equal(pc.binary_length(cells), 2)),
        pc.equal(pc.count_substring(inner, '"'), pc.multiply(pc.count_substring(inner, '""'), 2)),
    )
    if not pc.all(pc.if_else(quoted, whole, pc.equal(pc.count_substring(cells, '"'), 0)), min_count=0).as_py():
        raise LooseQuotes
    return pc.if_else(quoted, pc.replace_substring(inner, '""', '"'), plain)
