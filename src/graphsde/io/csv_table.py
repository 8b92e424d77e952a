"""A CSV file as a table of text, with the line number of every row: bytes, header, cells.

Arrow holds the cells and converts them to numbers, but we split the text into cells. pyarrow's own reader needs
1.2 GB for the wide table of ``test_hostile_cost.py`` (six times what is allowed), does not tell which cells were quoted
(``test_space_around_cells_is_kept_in_quotes_only``), and counts rows where messages need lines
(``test_what_is_written_is_read``).
"""

from __future__ import annotations

import codecs
import contextlib
import csv
import io
from array import array
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import scipy.sparse as sp

from graphsde.base.errors import BadInput, shorten
from graphsde.base.memory import require_memory
from graphsde.io.columns import (
    Features,
    arrow_integers,
    as_objects,
    count_kinds,
    first_text,
    padded_columns,
    parse_numbers,
    refuse_stray_text,
    refuse_text_crowds,
    stray_text,
    whole_numbers,
)
from graphsde.io.opening import opened, refuse_cost

if TYPE_CHECKING:
    import pyarrow as pa

    from graphsde.io.csv_flags import Flags


LONGEST_LINE = 1_000_000
MOST_COLUMNS = 100_000
# cost of rows and cells on the way to a graph: in files of up to 10 MB only very short rows can be too many
BYTES_PER_ROW, BYTES_PER_CELL = 100, 21
_PIECE = 1 << 20
_LONG_LINE, _SAMPLE = 200, 1 << 16  # bytes
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
# codecs that no file is written in; some take quadratic time on hostile input
_NOT_FOR_FILES = {"idna", "punycode", "unicode_escape", "raw_unicode_escape", "unicode-escape", "raw-unicode-escape"}
_NOT_FOR_FILES |= {"undefined", "mbcs", "oem", "utf-7"}


def load_text(path: Path, encoding: str = "utf-8") -> bytes:
    """A text file as UTF-8 without a byte-order mark."""
    with opened(path) as stream:
        size = stream.seek(0, io.SEEK_END)
        stream.seek(0)
        fix = "convert it to Parquet, which needs less, or use a larger machine"
        require_memory(3 * size, f"reading {path.name}", fix)
        data = _bounded_lines(stream, path, encoding)
    text = _utf8(data, path, encoding)
    if not text or text.isspace():
        raise BadInput(f"{path.name} is empty", code="E-EMPTY", place=path.name, expected="a header line and rows")
    return text


def is_text_encoding(name: str) -> bool:
    try:
        codec = codecs.lookup(name)
    except (LookupError, ValueError):
        return False
    return getattr(codec, "_is_text_encoding", True) and codec.name not in _NOT_FOR_FILES


def _bounded_lines(stream: BinaryIO, path: Path, encoding: str) -> bytearray:
    """Read in pieces, so that an endless line is refused after its first megabyte."""
    data = bytearray()
    line, line_start = 1, 0
    while piece := stream.read(_PIECE):
        if not data and _is_utf8(encoding) and piece.startswith(_UTF16):
            raise _encoding_error(path, encoding, 0, "it starts like UTF-16", "utf-16")
        breaks = _ends_of_lines(piece) + len(data)
        data += piece
        lengths = np.diff(np.concatenate([[line_start - 1], breaks, [len(data)]])) - 1
        if lengths.max() > LONGEST_LINE:
            raise BadInput(
                f"a line of {path.name} is longer than {LONGEST_LINE:,} bytes",
                code="E-LINE-LEN",
                place=f"{path.name}, about line {line + int(np.argmax(lengths > LONGEST_LINE))}",
                expected=f"lines of at most {LONGEST_LINE:,} bytes and {MOST_COLUMNS:,} columns",
                fix="check that it is a CSV file with one row per line; wide features fit better into an .npz file",
            )
        if breaks.size:
            line, line_start = line + breaks.size, int(breaks[-1]) + 1
    return data


def _ends_of_lines(piece: bytes) -> np.ndarray:
    """Where lines end.  # [n] int64"""
    sample = piece[:_SAMPLE]
    if (sample.count(b"\n") + sample.count(b"\r")) * _LONG_LINE > len(sample):
        letters = np.frombuffer(piece, np.uint8)
        return np.flatnonzero((letters == 10) | (letters == 13))
    # few long lines: searching for the next end is faster than comparing every character
    found = [place for mark in (b"\n", b"\r") for place in _places(piece, mark)]
    return np.sort(np.array(found, dtype=np.int64))


def _places(piece: bytes, mark: bytes) -> Iterator[int]:
    place = piece.find(mark)
    while place >= 0:
        yield place
        place = piece.find(mark, place + 1)


def _utf8(data: bytearray, path: Path, encoding: str) -> bytes:
    decoder = codecs.getincrementaldecoder("utf-8" if _is_utf8(encoding) else encoding)()
    text = bytearray()
    plain = _is_utf8(encoding) and data.isascii()
    for start in range(0, 0 if plain else len(data) + 1, _PIECE):
        waiting = len(decoder.getstate()[0])
        try:
            piece = decoder.decode(bytes(data[start : start + _PIECE]), final=start + _PIECE > len(data))
            if not _is_utf8(encoding):
                text += piece.encode("utf-8")
        except UnicodeDecodeError as error:
            guess = "utf-16" if b"\0" in data[:100] else "cp1252"
            raise _encoding_error(path, encoding, start - waiting + error.start, error.reason, guess) from None
        except UnicodeError as error:
            raise _encoding_error(path, encoding, start, str(error), "utf-8") from None
    result = bytes(data if _is_utf8(encoding) else text).removeprefix(codecs.BOM_UTF8)
    if (offset := result.find(b"\0")) >= 0:
        raise _encoding_error(path, encoding, offset, "it contains a NUL", "utf-16")
    return result


def _is_utf8(encoding: str) -> bool:
    return codecs.lookup(encoding).name in ("utf-8", "utf-8-sig")


def _encoding_error(path: Path, encoding: str, offset: int, reason: str, guess: str) -> BadInput:
    return BadInput(
        f"{path.name} is not {encoding} text: {reason} at byte {offset}",
        code="E-ENCODING",
        place=f"{path.name}, byte {offset}",
        expected=f"text in {encoding}",
        fix=f"save it as UTF-8, or read with encoding={guess} ('encoding: {guess}' in graph.yaml)",
    )


_SAMPLE_ROWS = 20
_WORDS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars", " ": "spaces"}


def read_header(data: bytes, path: Path, wanted: Sequence[str]) -> tuple[list[str], str]:
    """Column names and delimiter.

    Args:
        data: the file as UTF-8.
        path: its name, for messages.
        wanted: columns that the header should have; used to choose between possible delimiters.
    """
    sample = data[: 2 * LONGEST_LINE].decode("utf-8", "ignore")
    rows = {delimiter: _sample_rows(sample, delimiter) for delimiter in _WORDS}
    delimiter = _choose_delimiter(rows, path, wanted)
    header = [name.strip() for name in rows[delimiter][0]]
    if len(header) > MOST_COLUMNS:
        raise BadInput(
            f"{path.name} has {len(header):,} columns",
            code="E-LINE-LEN",
            place=f"{path.name}, line 1",
            expected=f"at most {MOST_COLUMNS:,} columns",
            fix="store features as wide as this in an .npz file with CSR parts",
        )
    check_header(header, f"{path.name}, line 1")
    return header, delimiter


def check_header(names: Sequence[str], place: str) -> None:
    """Refuse columns without a name and names that occur twice."""
    if "" in names or len(set(names)) < len(names):
        from graphsde.io.header_errors import refuse_data_as_header

        refuse_data_as_header(names, place)
    if "" in names:
        raise BadInput(
            f"column {list(names).index('') + 1} has no name",
            code="E-HEADER",
            place=place,
            expected="a name for every column",
            fix="name or remove it (if it is a data frame's index, write the file without it)",
        )
    if len(set(names)) < len(names):
        twice = next(one for one, other in pairwise(sorted(names)) if one == other)
        raise BadInput(
            f"two columns are named '{shorten(twice, 80)}'",
            code="E-HEADER",
            place=place,
            found=twice,
            expected="a different name for every column",
            fix="rename one of them",
        )


def _sample_rows(sample: str, delimiter: str) -> list[list[str]]:
    reader = csv.reader(io.StringIO(sample, newline=""), delimiter=delimiter)
    rows: list[list[str]] = []
    with contextlib.suppress(csv.Error):
        rows.extend(islice((row for row in reader if row), _SAMPLE_ROWS))
    return rows or [[""]]


def _choose_delimiter(rows: dict[str, list[list[str]]], path: Path, wanted: Sequence[str]) -> str:
    headers = {delimiter: [name.strip() for name in rows[delimiter][0]] for delimiter in rows}
    if set(wanted) <= set(headers[","]):
        return ","
    for delimiter in (";", "\t"):
        header = headers[delimiter]
        if len(header) > 1 and (set(wanted) <= set(header) or len(headers[","]) == 1):
            if all(len(row) == len(header) for row in rows[delimiter]):
                return delimiter
            raise _delimiter_error(path, delimiter)
    for delimiter in ("|", " "):
        if len(headers[delimiter]) > 1 and set(wanted) <= set(headers[delimiter]):
            raise _delimiter_error(path, delimiter)
    return ","


def _delimiter_error(path: Path, guess: str) -> BadInput:
    return BadInput(
        f"{path.name} does not look comma-separated; its header seems to use {_WORDS[guess]}",
        code="E-DELIM",
        place=f"{path.name}, line 1",
        found=repr(guess),
        expected="commas; or semicolons or tabs, the same number in every row",
        fix="save it as comma-separated values",
    )


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
    """A quote inside an unquoted cell, or one that never closes: the fast parser can't handle it."""


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
    """Like :func:`split_cells`, but as tolerant as the standard library's reader; may raise ``csv.Error``."""
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
    """The end of the last complete row within about a block; at least one row, however long."""
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
    # an empty line is not a row; its only cell has no bytes, so dropping it moves no other cell
    blank = row_starts == row_ends
    ends = at - np.arange(len(at))
    if blank.any():
        ends = np.delete(ends, ends_row[blank])
        widths, lines = widths[~blank], lines[~blank]
    offsets = np.concatenate([[0], ends]).astype(np.int32)
    cells = pa.StringArray.from_buffers(len(ends), pa.py_buffer(offsets), pa.py_buffer(piece[~separator].tobytes()))
    return Block(_clean(cells, quoted), widths.astype(np.int32), lines.astype(np.int32))


def _plain_line_ends(piece: np.ndarray, inside: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """CR and CRLF between rows become LF; inside a quoted cell they are kept."""
    returns = (piece == _CR) & ~inside
    if not returns.any():
        return piece, inside
    pair = returns & (np.append(piece[1:], 0) == _LF)
    return np.where(returns & ~pair, np.uint8(_LF), piece)[~pair], inside[~pair]


def _clean(cells: pa.Array, may_be_quoted: bool) -> pa.Array:
    """Strip quotes; without quotes, the space around a cell is not part of it."""
    import pyarrow.compute as pc

    plain = pc.ascii_trim_whitespace(cells)
    if not may_be_quoted:
        return plain
    quoted = pc.starts_with(cells, '"')
    inner = pc.utf8_slice_codeunits(cells, 1, -1)
    # one quote at each end and doubled quotes between
    whole = pc.and_(
        pc.and_(pc.ends_with(cells, '"'), pc.greater_equal(pc.binary_length(cells), 2)),
        pc.equal(pc.count_substring(inner, '"'), pc.multiply(pc.count_substring(inner, '""'), 2)),
    )
    if not pc.all(pc.if_else(quoted, whole, pc.equal(pc.count_substring(cells, '"'), 0)), min_count=0).as_py():
        raise LooseQuotes
    return pc.if_else(quoted, pc.replace_substring(inner, '""', '"'), plain)


@dataclass(frozen=True)
class CsvTable:
    """Named columns of text cells, kept as flat blocks, row after row.

    Args:
        path: where it was read.
        names: the header.
        blocks: cells of whole rows, each with one per name that is not among the flags.
        lines: the line in which each row begins.  # [rows]
        flags: columns of zeros and ones that are not kept as cells.
    """

    path: Path
    names: list[str]
    blocks: list[pa.Array]
    lines: np.ndarray
    flags: Flags | None = None

    @property
    def num_rows(self) -> int:
        return len(self.lines)

    @property
    def header_place(self) -> str:
        return f"{self.path.name}, line 1"

    @property
    def place(self) -> Callable[[int], str]:
        file, lines = self.path.name, self.lines  # not self, which would keep the cells in memory
        return lambda row: f"{file}, line {int(lines[row])}"

    def ids(self, column: str) -> np.ndarray:
        numbers = []
        for cells in self._select([column]):
            parsed = whole_numbers(cells)
            if parsed is None:
                return self.values(column)
            numbers.append(parsed)
        return np.concatenate(numbers) if numbers else np.zeros(0, dtype=np.int64)

    def ends(self, column: str) -> np.ndarray:
        return self.ids(column)

    def values(self, column: str) -> np.ndarray:
        return as_objects(self._column(column))

    def words(self, column: str) -> list[list[Any] | None]:
        from graphsde.io.words import split_texts

        return list(split_texts(self.values(column)))

    def holds_lists(self, column: str) -> bool:
        return False

    def padded(self, columns: Sequence[str]) -> list[str]:
        return padded_columns(columns, self.blocks, self._select)

    def weights(self, column: str) -> np.ndarray:
        cells = self._column(column)
        if first_text(cells) is not None:
            raise stray_text(column, cells, self.place, 1, code="E-WEIGHT")
        return parse_numbers([cells], self.num_rows, 1)[:, 0]

    def features(self, columns: Sequence[str], categorical: Collection[str]) -> Features:
        flagged = [name for name in columns if name in self._flagged and name not in categorical]
        apart = set(flagged)
        free = [name for name in columns if name not in categorical and name not in apart]
        kinds = count_kinds(self._select(free), len(free))
        findings = refuse_stray_text(free, kinds, self.num_rows, self._column, self.place)
        numeric = [name for name, is_number in zip(free, kinds.all_numbers(self.num_rows), strict=True) if is_number]
        chosen = {*numeric, *apart}
        refuse_text_crowds([name for name in columns if name not in chosen], self._column, self.place)
        return Features(
            numeric=self._numbers(numeric, flagged, columns),
            numeric_names=[name for name in columns if name in chosen],
            categorical={name: self.values(name) for name in columns if name not in chosen},
            findings=findings,
        )

    def _numbers(
        self, numeric: Sequence[str], flagged: Sequence[str], columns: Sequence[str]
    ) -> np.ndarray | sp.csr_array | None:
        """Cells and flags as one matrix, in column order; flags alone stay sparse until they are checked."""
        from graphsde.io.csv_flags import sparse_flags

        parsed = parse_numbers(self._select(numeric), self.num_rows, len(numeric)) if numeric else None
        if self.flags is None or not flagged:
            return parsed
        flags = self.flags.values
        if len(flagged) < flags.shape[1]:
            flags = flags[:, [self._flagged[name] for name in flagged]]
        if parsed is None:
            return sparse_flags(flags)
        apart, cells = set(flagged), set(numeric)
        is_flag = np.array([name in apart for name in columns if name in apart or name in cells])
        values = np.empty((self.num_rows, len(is_flag)))
        values[:, is_flag], values[:, ~is_flag] = flags, parsed
        return values

    @cached_property
    def _flagged(self) -> dict[str, int]:
        """Positions among the flags."""
        if self.flags is None:
            return {}
        return {name: position for position, name in enumerate(self.names[self.flags.first : self.flags.stop])}

    @cached_property
    def _position(self) -> dict[str, int]:
        """Positions among the cells of a row."""
        held = [name for name in self.names if name not in self._flagged]
        return {name: position for position, name in enumerate(held)}

    def _select(self, columns: Sequence[str]) -> Iterator[pa.Array]:
        """The cells of some columns, row after row, block by block."""
        import pyarrow as pa

        if len(columns) == 1 and self.flags is not None and columns[0] in self._flagged:
            values = self.flags.values[:, self._flagged[columns[0]]]
            yield pa.array(np.where(values, "1", "0").astype(object), pa.string())
            return
        width = len(self._position)
        positions = np.array([self._position[name] for name in columns], dtype=np.int64)
        all_of_them = np.array_equal(positions, np.arange(width))
        for block in self.blocks:
            rows = np.arange(0, len(block), width)[:, None]
            yield block if all_of_them else block.take(arrow_integers((rows + positions).ravel()))

    def _column(self, column: str) -> pa.Array:
        import pyarrow as pa

        return pa.concat_arrays([pa.nulls(0, pa.string()), *self._select([column])])


def read_csv(path: Path, *, wanted: Sequence[str], encoding: str = "utf-8") -> CsvTable:
    """Read a CSV file.

    Args:
        path: the file.
        wanted: columns that the header should have; used to choose between possible delimiters.
        encoding: how its text is encoded.
    """
    from graphsde.io.csv_flags import cut_flags

    data = load_text(path, encoding)
    header, delimiter = read_header(data, path, wanted)
    if (found := cut_flags(data, delimiter, len(header))) is not None:
        narrow = _narrow(path, header, delimiter, *found)
        if narrow is not None:
            return narrow
    try:
        blocks = list(split_cells(data, delimiter))
    except LooseQuotes:
        try:
            blocks = list(split_cells_slowly(data, delimiter))
        except csv.Error as error:
            raise _open_quote(path, error) from None
    _check_widths(path, len(header), blocks)
    lines = np.concatenate([block.lines for block in blocks])[1:]
    _refuse_dear(path, len(lines), len(header), len(data))
    return CsvTable(path, header, _without_header(blocks, len(header)), lines)


def _narrow(path: Path, header: list[str], delimiter: str, rest: bytes, flags: Flags) -> CsvTable | None:
    """The table with its flags separated; ``None`` if a row and the header differ in length, reported elsewhere."""
    width = len(header) - flags.values.shape[1]
    blocks = list(split_cells(rest, delimiter))
    lines = np.concatenate([block.lines for block in blocks])[1:]
    if len(lines) != len(flags.values) or any((block.widths != width).any() for block in blocks):
        return None
    _refuse_dear(path, len(lines), len(header), len(rest) + 2 * flags.values.size)
    return CsvTable(path, header, _without_header(blocks, width), lines, flags)


def _refuse_dear(path: Path, rows: int, columns: int, size: int) -> None:
    fix = "remove rows that repeat, or read the tables from Parquet files"
    refuse_cost(path, cost=rows * (BYTES_PER_ROW + BYTES_PER_CELL * columns), size=size, fix=fix)


def _without_header(blocks: list[Block], width: int) -> list[pa.Array]:
    cells = [blocks[0].cells[width:], *(block.cells for block in blocks[1:])]
    return [block for block in cells if len(block)]


def _open_quote(path: Path, error: csv.Error) -> BadInput:
    return BadInput(
        f"a quoted cell of {path.name} is never closed: {error}",
        code="E-QUOTE",
        place=path.name,
        expected='every cell that starts with " to end with "',
        fix='double a quote inside a cell, as in "5"" pipe"',
    )


def _check_widths(path: Path, width: int, blocks: list[Block]) -> None:
    wrong = sum(int(np.count_nonzero(block.widths != width)) for block in blocks)
    if wrong:
        block = next(block for block in blocks if (block.widths != width).any())
        row = int((block.widths != width).argmax())
        more = f", and {wrong - 1:,} more rows differ" if wrong > 1 else ""
        raise BadInput(
            f"a row has {block.widths[row]} cells but the header has {width}{more}",
            code="E-ROW-LEN",
            place=f"{path.name}, line {block.lines[row]}",
            found=f"{block.widths[row]} cells",
            expected=f"{width} cells",
            fix='add or remove cells; quote a cell that contains a comma, as in "1,5"',
        )
