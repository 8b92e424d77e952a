"""Named arrays in an ``.npz`` file: every declared size is checked before memory is allocated."""

from __future__ import annotations

import math
import tokenize
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, BinaryIO

import numpy as np
from numpy.lib import format as npy

from graphsde.base.errors import BadInput, shorten
from graphsde.io.opening import refuse_bomb
from graphsde.io.zip_directory import broken, open_member, open_zip

_LONGEST_HEADER = 4_000
_MOST_EMPTY_ROWS = 10_000_000
_PIECE = 1 << 24
_KIND = "npz file"
_PLAIN = "biufcSU"
_HEADER_ERRORS = (
    ValueError,
    TypeError,
    SyntaxError,
    MemoryError,
    RecursionError,
    EOFError,
    AttributeError,
    KeyError,
    OverflowError,
    tokenize.TokenError,
)


@dataclass(frozen=True)
class ArrayFacts:
    """What the header of an array says.

    Args:
        shape: its sizes.
        dtype: its kind of numbers.
        fortran_order: whether columns come first.
    """

    shape: tuple[int, ...]
    dtype: np.dtype
    fortran_order: bool

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def num_bytes(self) -> int:
        return self.size * self.dtype.itemsize

    @property
    def is_plain(self) -> bool:
        """Whether these are numbers or text."""
        return not self.dtype.hasobject and self.dtype.kind in _PLAIN


class ZipArrays:
    """Named arrays in an open ``.npz`` file.

    Args:
        stream: the open file.
        path: its name, for messages.

    The zip directory is checked first (number and names of members, sizes, compression), then the header of an array
    against the size of its member; only then is memory allocated.
    """

    def __init__(self, stream: BinaryIO, path: Path) -> None:
        self.path = path
        self.file_size = stream.seek(0, 2)
        stream.seek(0)
        self._zip = open_zip(stream, path.name, _KIND)
        members = self._zip.infolist()
        refuse_bomb(path, declared=sum(member.file_size for member in members), compressed=self.file_size)
        self._members = {member.filename.removesuffix(".npy"): member for member in members}

    @property
    def names(self) -> list[str]:
        return list(self._members)

    def __contains__(self, name: object) -> bool:
        return name in self._members

    def facts(self, name: str) -> ArrayFacts:
        """An array's header, checked against the size of the member; only the header is unpacked."""
        with self._member(name) as stream:
            facts = self._header(name, stream)
            if facts.is_plain:
                self._compare(name, facts, stream)
            return facts

    def holds_objects(self, name: str) -> bool:
        return self.facts(name).dtype.hasobject

    def read(self, name: str) -> np.ndarray:
        """The array; objects are always refused."""
        with self._member(name) as stream:
            facts = self._header(name, stream)
            if facts.dtype.hasobject:
                raise BadInput(
                    f"the array '{name}' holds Python objects, which could run arbitrary code when read",
                    code="E-PICKLE",
                    place=self._place(name),
                    found=str(facts.dtype),
                    expected="numbers or text (allow_pickle is never used)",
                    fix=f"save it as plain values, for example {name}.astype(str) or a numeric dtype",
                )
            if not facts.is_plain:
                raise BadInput(
                    f"the array '{name}' has dtype {shorten(str(facts.dtype), 60)}",
                    code="E-DTYPE",
                    place=self._place(name),
                    expected="numbers or text",
                )
            self._compare(name, facts, stream)
            flat = np.frombuffer(self._content(name, stream, facts), dtype=facts.dtype)
        array = flat.reshape(facts.shape[::-1]).T if facts.fortran_order else flat.reshape(facts.shape)
        return array if facts.dtype.isnative else array.astype(facts.dtype.newbyteorder("="))

    def _content(self, name: str, stream: IO[bytes], facts: ArrayFacts) -> bytearray:
        expected = facts.num_bytes
        content = bytearray(expected)
        view, filled = memoryview(content), 0
        while filled < expected:
            piece = stream.read(min(_PIECE, expected - filled))
            if not piece:
                reason = f"the array '{name}' ends after {filled:,} of {expected:,} bytes"
                raise broken(self.path.name, _KIND, reason)
            view[filled : filled + len(piece)] = piece
            filled += len(piece)
        stream.read(1)  # at the end of the member, the checksum is verified
        return content

    def _header(self, name: str, stream: IO[bytes]) -> ArrayFacts:
        try:
            version = npy.read_magic(stream)
            if version not in ((1, 0), (2, 0)):
                raise ValueError(f"version {version} of the npy format is not supported")
            reader = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
            shape, fortran_order, dtype = reader(stream, max_header_size=_LONGEST_HEADER)
        except _HEADER_ERRORS as error:
            reason = f"the member '{shorten(name, 60)}' is not an array: {shorten(str(error), 100)}"
            raise broken(self.path.name, _KIND, reason) from None
        if any(isinstance(side, bool) or side < 0 for side in shape) or len(shape) > 3:
            raise self._lie(name, shape, "sizes of at most three dimensions")
        return ArrayFacts(shape, dtype, fortran_order)

    def _compare(self, name: str, facts: ArrayFacts, stream: IO[bytes]) -> None:
        size = self._members[name].file_size - stream.tell()
        if facts.num_bytes != size or facts.dtype.itemsize == 0:
            needed = f"{facts.num_bytes:,} bytes"
            raise self._lie(name, facts.shape, f"{size:,} bytes, the size of what is stored; the shape takes {needed}")
        if size == 0 and max(facts.shape, default=0) > _MOST_EMPTY_ROWS:
            raise self._lie(name, facts.shape, "a size that is backed by values")

    def _lie(self, name: str, shape: tuple[int, ...], expected: str) -> BadInput:
        return BadInput(
            f"the header of '{name}' declares the shape {shorten(shape, 80)}",
            code="E-HEADER-LIE",
            place=self._place(name),
            expected=expected,
            fix="write the file again",
        )

    @contextmanager
    def _member(self, name: str) -> Iterator[IO[bytes]]:
        with open_member(self._zip, self._members[name], self.path.name, _KIND) as stream:
            yield stream

    def _place(self, name: str) -> str:
        return f"{self.path.name}, array {shorten(name, 60)}"
