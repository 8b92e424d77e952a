"""Columns of a table from any kind of file; which text columns are numbers, and their values."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import scipy.sparse as sp

from graphsde.base.errors import BadInput, shorten
from graphsde.base.html import counted
from graphsde.graph.ids import CodedTexts
from graphsde.graph.raw import Finding

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass
class Features:
    """Feature columns by kind.

    Args:
        numeric: numbers, NaN where missing; ``None`` if no column is numeric.  # [N, d]
        numeric_names: their names.
        categorical: text columns by name.
        findings: what was noticed while reading.
        sparse: whether ``numeric`` stays sparse; it may also be sparse only while reading.
    """

    numeric: np.ndarray | sp.csr_array | None
    numeric_names: list[str]
    categorical: dict[str, np.ndarray]
    findings: list[Finding] = field(default_factory=list)
    sparse: bool = False


class Table(Protocol):
    """Rows and named columns of one file."""

    @property
    def path(self) -> Path: ...

    @property
    def names(self) -> list[str]: ...

    @property
    def num_rows(self) -> int: ...

    @property
    def header_place(self) -> str: ...

    @property
    def place(self) -> Callable[[int], str]: ...

    def ids(self, column: str) -> np.ndarray:
        """Integers if the column has nothing else, otherwise objects.  # [N]"""

    def ends(self, column: str) -> np.ndarray | CodedTexts:
        """Like :meth:`ids`, for one end of every edge: repeated text may be encoded.  # [E]"""

    def values(self, column: str) -> np.ndarray:
        """The column as found.  # [N]"""

    def weights(self, column: str) -> np.ndarray:
        """The column as numbers, NaN if missing; anything else is refused.  # [N]"""

    def words(self, column: str) -> list[list[Any] | None]:
        """A column of lists as is, or of text split at blanks; ``None`` if missing.  # [N]"""

    def holds_lists(self, column: str) -> bool:
        """Whether the column can only be words."""

    def padded(self, columns: Sequence[str]) -> list[str]:
        """Those among columns of whole numbers that have a cell with leading zeros, such as 007."""

    def features(self, columns: Sequence[str], categorical: Collection[str]) -> Features:
        """Columns sorted into numbers and text; those in ``categorical`` are always text."""


def unused_columns(names: Sequence[str], noun: str, of: str = "", code: str = "W-EDGE-COLUMNS") -> list[Finding]:
    """A note about unused columns, such as edge attributes other than the weight.

    Args:
        names: of the columns.
        noun: what one of them is called.
        of: where they are, such as ``" of edges.csv"``.
        code: of the note.
    """
    where = tuple(shorten(name, 60) for name in names[:5])
    shown = ", ".join(where) + (", …" if len(names) > 5 else "")
    message = f"{counted(len(names), noun)}{of} {'is' if len(names) == 1 else 'are'} not used: {shown}"
    return [Finding(code, "note", message, len(names), where)] if names else []


def arrow_integers(values: np.ndarray) -> pa.Array:
    """Integers for Arrow; its own conversion of arrays imports pandas, which takes half a second."""
    import pyarrow as pa

    numbers = np.ascontiguousarray(values, dtype=np.int64)
    return pa.Array.from_buffers(pa.int64(), len(numbers), [None, pa.py_buffer(numbers)])


def arrow_texts(texts: Sequence[str]) -> pa.Array:
    """A few texts for Arrow, also without pandas."""
    import pyarrow as pa

    encoded = [text.encode() for text in texts]
    ends = np.cumsum([0, *map(len, encoded)], dtype=np.int32)
    return pa.StringArray.from_buffers(len(encoded), pa.py_buffer(ends), pa.py_buffer(b"".join(encoded)))


def numpy_values(column: pa.Array) -> np.ndarray:
    """Numbers and booleans from Arrow, NaN where null, also without pandas."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_boolean(column.type):
        whole = pc.fill_null(column, False) if column.null_count else column
        return numpy_values(pc.cast(whole, pa.uint8())).view(bool)
    if column.null_count:
        column = pc.fill_null(pc.cast(column, pa.float64()), np.nan)
    return np.array(np.from_dlpack(column)) if len(column) else np.zeros(0, dtype=column.type.to_pandas_dtype())


_TEXTS_AT_ONCE = 100_000


def as_objects(column: pa.Array) -> np.ndarray:
    """Arrow text as Python objects, equal texts mostly sharing one; ``None`` where null."""
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        return _shared(column)
    # in pieces: deduplicating a million different texts takes several times their own memory
    texts = np.empty(len(column), dtype=object)
    for start in range(0, len(column), _TEXTS_AT_ONCE):
        texts[start : start + _TEXTS_AT_ONCE] = _shared(column[start : start + _TEXTS_AT_ONCE].dictionary_encode())
    return texts


def _shared(coded: pa.DictionaryArray) -> np.ndarray:
    return np.asarray(as_coded(coded))


def as_coded(column: pa.Array) -> CodedTexts:
    """Arrow text as codes of distinct texts; ``None`` where null."""
    import pyarrow as pa

    coded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    dictionary = coded.dictionary

    def spelt() -> np.ndarray:
        texts = np.empty(len(dictionary) + 1, dtype=object)
        texts[:-1] = dictionary.to_pylist()  # the last entry stays None, for nulls
        return texts

    def match(texts: np.ndarray) -> np.ndarray:
        import pyarrow.compute as pc

        try:
            others = pa.array(texts.tolist(), dictionary.type)
        except (pa.ArrowException, UnicodeEncodeError):  # not all text can be stored in a file
            return np.full(len(dictionary) + 1, -1)
        found = np.append(numpy_values(pc.fill_null(pc.index_in(dictionary, value_set=others), -1)), -1)
        del others
        pa.default_memory_pool().release_unused()
        return found

    codes = coded.indices.cast(pa.int32()).fill_null(-1) if coded.null_count else coded.indices
    return CodedTexts(numpy_values(codes), spelt, match)


MISSING_NUMBERS = ("", "NA", "N/A", "NaN", "nan", "NAN", "null", "NULL", "None", "na", "n/a", "none")
# above this share of numbers, text in a column counts as a typo, not as a category
NEARLY_ALL = 0.9
MOST_TEXT_COLUMNS = 2_000

_NUMBER = r"^[+-]?((\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|(?i:inf|infinity|nan))$"
# 1,5 and 1 000 and 1.000.000,5: numbers to a person, not to a parser
_OTHER_SPELLING = r"^[+-]?(\d+,\d+|\d{1,3}([ ,.'’\x{00a0}\x{202f}]\d{3})+([.,]\d+)?)$"


@dataclass(frozen=True)
class Kinds:
    """Per column: how many cells are missing, numbers, and numbers in a localised format.  # [d] each"""

    missing: np.ndarray
    numbers: np.ndarray
    localised: np.ndarray

    def all_numbers(self, num_rows: int) -> np.ndarray:
        return self.missing + self.numbers == num_rows


def count_kinds(blocks: Iterable[pa.Array], width: int) -> Kinds:
    """Count kinds of cells in flat blocks of ``width`` cells per row."""
    import pyarrow as pa
    import pyarrow.compute as pc

    missing, numbers, localised = (np.zeros(width, dtype=np.int64) for _ in range(3))
    for cells in blocks if width else ():
        absent = _flags(pc.is_in(cells, value_set=arrow_texts(MISSING_NUMBERS)))
        try:
            # a failing cast is slow, since every bad cell makes a message: try the first rows first
            first = max(1000, width)
            _cast(cells[:first], absent[:first])
            _cast(cells, absent)
            number = ~absent
        except pa.ArrowInvalid:
            number = _matches(cells, _NUMBER) & ~absent
            localised += (_matches(cells, _OTHER_SPELLING) & ~number).reshape(-1, width).sum(axis=0)
        missing += absent.reshape(-1, width).sum(axis=0)
        numbers += number.reshape(-1, width).sum(axis=0)
    return Kinds(missing, numbers, localised)


def parse_numbers(blocks: Iterable[pa.Array], num_rows: int, width: int) -> np.ndarray:
    """Cells that are all numbers or missing, as float64 with NaN for missing ones.  # [N, d]"""
    import pyarrow.compute as pc

    values = np.empty((num_rows, width))
    flat, start = values.reshape(-1), 0
    for cells in blocks:
        absent = _flags(pc.is_in(cells, value_set=arrow_texts(MISSING_NUMBERS)))
        flat[start : start + len(cells)] = _cast(cells, absent)
        start += len(cells)
    return values


def refuse_stray_text(
    names: Sequence[str], kinds: Kinds, num_rows: int, column: Callable[[str], pa.Array], place: Callable[[int], str]
) -> list[Finding]:
    """Refuse columns of numbers with a few cells of text; report those where the text is more than a typo.

    Args:
        names: the columns.
        kinds: what their cells are.
        num_rows: how many cells each has.
        column: gives the cells of a column.
        place: describes where row ``i`` is.
    """
    findings = []
    present = num_rows - kinds.missing
    text = present - kinds.numbers
    for position in np.flatnonzero((text > 0) & (2 * (kinds.numbers + kinds.localised) >= present)).tolist():
        name, count = names[position], int(text[position])
        readable = kinds.numbers[position] + kinds.localised[position]
        lonely = count == 1 and kinds.numbers[position] >= 2
        if lonely or readable >= NEARLY_ALL * present[position]:
            raise stray_text(name, column(name), place, count)
        share = f"{count:,} of {int(present[position]):,} cells"
        message = f"column '{shorten(name, 60)}' was read as text: {share} are not numbers"
        hint = "if it should be numeric, clean these cells; if it is text, list it under 'categorical' in graph.yaml"
        findings.append(Finding("W-MIXED-COLUMN", "warning", message, count, (shorten(name, 60),), hint))
    return findings


def refuse_text_crowds(names: Sequence[str], column: Callable[[str], pa.Array], place: Callable[[int], str]) -> None:
    """Thousands of text columns are numbers in an unknown format, and would also be slow to read."""
    if len(names) > MOST_TEXT_COLUMNS:
        error = stray_text(names[0], column(names[0]), place, 1)
        raise BadInput(
            f"{len(names):,} columns are text",
            code=error.code,
            place=error.place,
            found=error.found,
            expected=f"at most {MOST_TEXT_COLUMNS:,} columns of text",
            fix="write numbers as 1234.5, or list columns under 'drop' in graph.yaml",
        )


def stray_text(
    name: str, cells: pa.Array, place: Callable[[int], str], count: int, code: str = "E-FEAT-TYPE"
) -> BadInput:
    row = first_text(cells) or 0
    found = cells[row].as_py()
    localised = "write numbers as 1234.5, with a point and without separators"
    listed = f"clean the cell, or list '{shorten(name, 60)}' under 'categorical' in graph.yaml if it is text"
    return BadInput(
        f"{count:,} {'cells' if count > 1 else 'cell'} in a numeric column can't be read as a number",
        code=code,
        place=f"{place(row)}, column {shorten(name, 60)}",
        found=found,
        expected="a number such as 3, -0.5 or 1e3, or an empty cell",
        fix=f"{localised}; or {listed}" if any(letter.isdigit() for letter in found) else listed,
    )


def first_text(cells: pa.Array) -> int | None:
    """The first row whose cell is neither a number nor missing."""
    import pyarrow.compute as pc

    text = ~(_matches(cells, _NUMBER) | _flags(pc.is_in(cells, value_set=arrow_texts(MISSING_NUMBERS))))
    return int(text.argmax()) if text.any() else None


def whole_numbers(cells: pa.Array) -> np.ndarray | None:
    """Text as int64 if every cell is an integer in plain form (no 007, no +1); otherwise ``None``."""
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        numbers = pc.cast(cells, pa.int64())
    except pa.ArrowInvalid:
        return None
    if not pc.all(pc.equal(pc.cast(numbers, pa.string()), cells), min_count=0).as_py():
        return None
    return numpy_values(numbers)


def padded_columns(
    names: Sequence[str], all_cells: Iterable[pa.Array], cells: Callable[[Sequence[str]], Iterable[pa.Array]]
) -> list[str]:
    """The columns that have a whole number with leading zeros.

    Args:
        names: the columns.
        all_cells: the cells of the whole table, in blocks; if none of the first block is padded, no column is read.
        cells: gives the cells of some columns, row after row, in blocks of whole rows.
    """
    if not names or not any(len(_padded(block)) for block in itertools.islice(all_cells, 1)):
        return []
    found = np.zeros(len(names), dtype=bool)
    for block in cells(names):  # all columns at once: one by one, each would go through the whole table
        found[_padded(block) % len(names)] = True
    return [names[position] for position in np.flatnonzero(found).tolist()]


def _padded(cells: pa.Array) -> np.ndarray:
    """Positions of the cells with leading zeros."""
    import pyarrow.compute as pc

    # most cells are ruled out by their first letter and their length, which is faster than the expression
    likely = pc.and_(pc.starts_with(cells, "0"), pc.greater(pc.binary_length(cells), 1))
    padded = _flags(pc.match_substring_regex(cells.filter(likely), r"^0\d+$"))
    return np.flatnonzero(_flags(likely))[padded]


def _cast(cells: pa.Array, absent: np.ndarray) -> np.ndarray:
    import pyarrow as pa
    import pyarrow.compute as pc

    present = pc.if_else(_arrow_flags(absent), pa.scalar(None, pa.string()), cells) if absent.any() else cells
    return numpy_values(pc.cast(present, pa.float64()))


def _matches(cells: pa.Array, pattern: str) -> np.ndarray:
    """Each distinct cell is checked once."""
    import pyarrow.compute as pc

    coded = cells.dictionary_encode()
    return _flags(pc.match_substring_regex(coded.dictionary, pattern))[numpy_values(coded.indices)]


def _arrow_flags(flags: np.ndarray) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.cast(arrow_integers(flags), pa.bool_())


def _flags(array: pa.Array) -> np.ndarray:
    return numpy_values(array)
