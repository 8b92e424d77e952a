"""Thousands of columns of zeros and ones in a CSV file, read as bytes: as text cells they would need twenty times as
much memory and time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

LEAST_COLUMNS = 200
# columns before the flags are skipped one by one in every row
MOST_BEFORE = 100
_SAMPLE_ROWS = 50
_ROWS_AT_ONCE = 1_000_000
_ZERO = ord("0")


@dataclass(frozen=True)
class Flags:
    """Adjacent columns whose cells are all ``0`` or ``1``.

    Args:
        first: the position of the first one in the header.
        values: zeros and ones, uint8.  # [N, columns]
    """

    first: int
    values: np.ndarray

    @property
    def stop(self) -> int:
        return self.first + int(self.values.shape[1])


def cut_flags(data: bytes, delimiter: str, width: int) -> tuple[bytes, Flags] | None:
    """The longest run of 0/1 columns, and the file without it, line by line; ``None`` if there is none.

    Files with quotes are left to the general parser, as is any unexpected row.

    Args:
        data: the file as UTF-8.
        delimiter: between cells.
        width: how many columns the header has.
    """
    if width < LEAST_COLUMNS or b'"' in data:
        return None
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    between = delimiter.encode()
    start = _end_of_line(data, 0)
    header = data[:start].split(between)
    first, count = _run(data, start + 1, between, width)
    if count < LEAST_COLUMNS or first > MOST_BEFORE or len(header) != width or count == width:
        return None
    rest = [between.join(header[:first] + header[first + count :])]
    length = 2 * count - 1
    pieces: list[bytes] = []
    blocks: list[np.ndarray] = []
    start += 1
    while start < len(data):
        end = _end_of_line(data, start)
        if end == start:
            rest.append(b"")  # so that lines keep their numbers
        else:
            at = start
            for _ in range(first):
                at = data.find(between, at, end) + 1
                if not at:
                    return None
            after = at + length
            if after > end or (after < end and data[after : after + 1] != between):
                return None
            pieces.append(data[at:after])
            # the delimiter on one side goes with the flags
            rest.append(data[start : at - 1] + data[after:end] if first else data[after + 1 : end])
            if len(pieces) * length >= _ROWS_AT_ONCE:
                blocks.append(_digits(pieces, length, between))
                pieces = []
        start = end + 1
    if pieces:
        blocks.append(_digits(pieces, length, between))
    if not blocks or any(block.size == 0 for block in blocks):
        return None
    return b"\n".join(rest), Flags(first, np.concatenate(blocks))


def sparse_flags(values: np.ndarray) -> sp.csr_array:
    """Flags as a sparse matrix of ones; finding them as booleans is several times faster than as numbers."""
    rows, width = values.shape
    places = np.flatnonzero(np.ascontiguousarray(values).view(bool))
    indptr = np.searchsorted(places, width * np.arange(rows + 1, dtype=np.int64))
    ones = np.ones(len(places), dtype=np.float32)
    return sp.csr_array((ones, (places % width).astype(np.int32), indptr.astype(np.int32)), shape=(rows, width))


def _end_of_line(data: bytes, start: int) -> int:
    end = data.find(b"\n", start)
    return len(data) if end < 0 else end


def _run(data: bytes, start: int, between: bytes, width: int) -> tuple[int, int]:
    """Start and length of the longest run of zeros and ones in the first rows."""
    flags = np.ones(width, dtype=bool)
    rows = 0
    while start < len(data) and rows < _SAMPLE_ROWS:
        end = _end_of_line(data, start)
        if end > start:
            cells = data[start:end].split(between)
            if len(cells) != width:
                return 0, 0
            flags &= np.array([cell in (b"0", b"1") for cell in cells])
            rows += 1
        start = end + 1
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]])))
    begins, ends = edges[::2], edges[1::2]
    if not rows or not len(begins):
        return 0, 0
    longest = int(np.argmax(ends - begins))
    return int(begins[longest]), int(ends[longest] - begins[longest])


def _digits(pieces: list[bytes], length: int, between: bytes) -> np.ndarray:
    """Rows of digits; ``None`` if a row has anything else."""
    letters = np.frombuffer(b"".join(pieces), dtype=np.uint8).reshape(len(pieces), length)
    digits = letters[:, ::2] - _ZERO  # values below zero wrap around to more than one
    if digits.max() > 1 or (letters[:, 1::2] != between[0]).any():
        return np.zeros((0, 0), dtype=np.uint8)
    return digits
