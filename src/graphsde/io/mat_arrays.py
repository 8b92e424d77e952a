"""Variables of MATLAB files of version 5 to 7.2, numbers and sparse matrices only.

scipy's reader follows wrong lengths of a damaged file out of bounds and crashes the process; this one reads no byte
that the file does not have.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, TypeAlias

import numpy as np
import scipy.sparse as sp

HEADER = 128
_MATRIX, _COMPRESSED = 14, 15
_STORED = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
_SPARSE, _COMPLEX, _LOGICAL = 5, 0x0800, 0x0200
# a class of numbers may be stored in a smaller type
_NUMBERS = {6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4", 14: "i8", 15: "u8"}
_AXES = 2
_PACKED_TAG = 256  # packed bytes that surely hold the first eight unpacked ones
Variable: TypeAlias = Any  # an array or a sparse matrix of numbers


class DamagedMat(ValueError):
    """The file contradicts its own tags."""


@dataclass(frozen=True)
class Place:
    """Where a variable is.

    Args:
        offset, length: of its bytes in the file.
        packed: whether these are compressed.
        unpacked: how many bytes it takes.
    """

    offset: int
    length: int
    packed: bool
    unpacked: int


def byte_order(header: bytes) -> str | None:
    """``<`` or ``>``, from the file's header; ``None`` if it is not one of these versions."""
    return {b"IM": "<", b"MI": ">"}.get(header[126:128])


def places(stream: BinaryIO, order: str) -> list[Place]:
    """All variables, from their tags alone."""
    size = stream.seek(0, 2)
    offset, found = HEADER, []
    while offset + 8 <= size:
        stream.seek(offset)
        kind, length = struct.unpack(order + "II", stream.read(8))
        offset += 8
        if offset + length > size:
            raise DamagedMat("a variable is cut off")
        unpacked, packed = length, kind == _COMPRESSED
        if packed:
            inner = _unpack(stream.read(min(length, _PACKED_TAG)), 8)
            if len(inner) < 8:
                raise DamagedMat("a variable is cut off")
            kind, unpacked = struct.unpack(order + "II", inner)
        if kind != _MATRIX:
            raise DamagedMat(f"an element of type {kind} is not a variable")
        found.append(Place(offset, length, packed, unpacked))
        offset += length
    return found


def read_variables(stream: BinaryIO, order: str, wanted: Collection[str]) -> dict[str, Variable]:
    """The variables whose lower-case name is wanted; ``None`` for one that is not a real matrix."""
    found: dict[str, Variable] = {}
    for place in places(stream, order):
        stream.seek(place.offset)
        content = stream.read(place.length)
        if place.packed:
            content = _unpack(content, place.unpacked + 8)[8:]
        if len(content) != place.unpacked:
            raise DamagedMat("a variable is cut off")
        parts = _elements(memoryview(content), order)
        flags, dims, letters = (next(parts, None) for _ in range(3))
        if flags is None or dims is None or letters is None or len(flags) < 2:
            raise DamagedMat("a variable has no name")
        name = letters.tobytes().decode("ascii", "replace")
        if name.lower() in wanted:
            found[name] = _variable(int(flags[0]), dims, parts, most_stored=int(flags[1]))
    return found


def _unpack(content: bytes, most: int) -> bytes:
    try:
        return zlib.decompressobj().decompress(content, most)
    except zlib.error as error:
        raise DamagedMat(str(error)) from None


def _elements(content: memoryview, order: str) -> Iterator[np.ndarray]:
    """The arrays inside a variable, one after the other."""
    offset = 0
    while offset + 8 <= len(content):
        word, length = struct.unpack_from(order + "II", content, offset)
        # up to four bytes may be stored with their type and length in one tag
        small = word >> 16
        kind, length, start = (word & 0xFFFF, small, offset + 4) if small else (word, length, offset + 8)
        if kind not in _STORED or (small > 4) or start + length > len(content):
            raise DamagedMat(f"an element of type {kind} and {length:,} bytes does not belong there")
        stored = np.dtype(order + _STORED[kind])
        if length % stored.itemsize:
            raise DamagedMat("an element is cut off")
        yield np.frombuffer(content, stored, length // stored.itemsize, start)
        offset = offset + 8 if small else start + -(-length // 8) * 8


def _variable(flags: int, dims: np.ndarray, parts: Iterator[np.ndarray], most_stored: int) -> Variable:
    kind = flags & 0xFF
    if flags & _COMPLEX or len(dims) != _AXES or not (kind == _SPARSE or kind in _NUMBERS):
        return None
    rows, columns = int(dims[0]), int(dims[1])
    if min(rows, columns) < 0:
        raise DamagedMat(f"a matrix of {rows:,} rows and {columns:,} columns")
    if kind == _SPARSE:
        return _sparse(rows, columns, parts, logical=bool(flags & _LOGICAL), most_stored=most_stored)
    values = next(parts, None)
    if values is None or len(values) != rows * columns:
        raise DamagedMat(f"{0 if values is None else len(values):,} numbers in a matrix of {rows:,} × {columns:,}")
    return values.astype(_NUMBERS[kind]).reshape((rows, columns), order="F")


def _sparse(rows: int, columns: int, parts: Iterator[np.ndarray], *, logical: bool, most_stored: int) -> Variable:
    indices, starts, values = (next(parts, None) for _ in range(3))
    if indices is None or starts is None or values is None or len(starts) != columns + 1:
        raise DamagedMat(f"a sparse matrix without the starts of its {columns:,} columns")
    starts = starts.astype(np.int64)
    stored = int(starts[-1])
    # allocated but unused space may follow the stored values
    fits = starts[0] == 0 and (np.diff(starts) >= 0).all() and stored <= min(len(indices), len(values), most_stored)
    places_used = indices[:stored].astype(np.int64)
    if not fits or (stored and (places_used.min() < 0 or places_used.max() >= rows)):
        raise DamagedMat("a sparse matrix has indices out of range")
    numbers = values[:stored].astype(np.bool_ if logical else np.float64)
    return sp.csc_array((numbers, places_used, starts), shape=(rows, columns))
