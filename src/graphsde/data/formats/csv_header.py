"""The first line of a CSV file: what separates its cells, and what its columns are called."""

from __future__ import annotations

import contextlib
import csv
import io
from collections.abc import Sequence
from itertools import islice, pairwise
from pathlib import Path

from graphsde.data.formats.csv_bytes import LONGEST_LINE, MOST_COLUMNS
from graphsde.errors import BadInput, shorten

_SAMPLE_ROWS = 20
_WORDS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars", " ": "spaces"}


def read_header(data: bytes, path: Path, wanted: Sequence[str]) -> tuple[list[str], str]:
    """Column names and delimiter.

    Args:
        data: the file as UTF-8.
        path: its name, for messages.
        wanted: columns that the header should have; they decide between possible delimiters.
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
    if "" in names:
        raise BadInput(
            f"column {list(names).index('') + 1} has no name",
            code="E-HEADER",
            place=place,
            expected="a name for every column",
            fix="name it or take it out (if it is a data frame's index, write the file without it)",
        )
    if len(set(names)) < len(names):
        in_order = sorted(names)
        twice = next(one for one, other in pairwise(in_order) if one == other)
        raise BadInput(
            f"two columns are called '{shorten(twice, 80)}'",
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
        f"commas don't separate the cells of {path.name}; the header looks as if {_WORDS[guess]} did",
        code="E-DELIM",
        place=f"{path.name}, line 1",
        found=repr(guess),
        expected="commas; or semicolons or tabs, equally many in every row",
        fix="save it with commas between the cells",
    )
