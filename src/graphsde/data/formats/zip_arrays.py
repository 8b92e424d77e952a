"""The arrays of an ``.npz`` file, each looked at before it is unpacked, none of them unpickled."""

from __future__ import annotations

import errno
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, BinaryIO

import numpy as np
from numpy.lib import format as npy

from graphsde.data.formats.bombs import refuse_bomb
from graphsde.errors import BadInput, shorten

MOST_MEMBERS = 1_000
_LONGEST_HEADER = 4_000
_MOST_EMPTY_ROWS = 10_000_000
_END_RECORD = b"PK\x05\x06"
_PIECE = 1 << 24
# what the standard library's reader raises on damaged files, as seen by fuzzing it
ZIP_ERRORS = (
    zipfile.BadZipFile,
    zipfile.LargeZipFile,
    zlib.error,
    struct.error,
    EOFError,
    NotImplementedError,
    RuntimeError,
    ValueError,
    OverflowError,
    IndexError,
    KeyError,
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


class ZipArrays:
    """Named arrays in an open ``.npz`` file.

    Args:
        stream: the open file.
        path: its name, for messages.

    The zip directory is checked first (number and names of members, sizes, compression), then the header of an array
    against the size of its member, and only then memory is taken for it.
    """

    def __init__(self, stream: BinaryIO, path: Path) -> None:
        self.path = path
        size = stream.seek(0, 2)
        _refuse_crowds(stream, path, size)
        with self._corrupt():
            self._zip = zipfile.ZipFile(stream)
        members = self._zip.infolist()
        self._check_names(members)
        refuse_bomb(path, declared=sum(member.file_size for member in members), compressed=size)
        self._members = {member.filename.removesuffix(".npy"): member for member in members}

    @property
    def names(self) -> list[str]:
        return list(self._members)

    def __contains__(self, name: object) -> bool:
        return name in self._members

    def facts(self, name: str) -> ArrayFacts:
        with self._member(name) as stream:
            return self._header(name, stream)

    def holds_objects(self, name: str) -> bool:
        return self.facts(name).dtype.hasobject

    def read(self, name: str) -> np.ndarray:
        """The array; objects are refused, whatever they are."""
        with self._member(name) as stream:
            facts = self._header(name, stream)
            if facts.dtype.hasobject:
                raise BadInput(
                    f"the array '{name}' holds Python objects, which could run any program when they are read",
                    code="E-PICKLE",
                    place=self._place(name),
                    found=str(facts.dtype),
                    expected="numbers or text (allow_pickle is never used)",
                    fix=f"save it as plain values, for example {name}.astype(str) or a numeric dtype",
                )
            if facts.dtype.kind not in "biufcSU":
                raise BadInput(
                    f"the array '{name}' has dtype {shorten(str(facts.dtype), 60)}",
                    code="E-DTYPE",
                    place=self._place(name),
                    expected="numbers or text",
                )
            self._compare(name, facts, self._members[name].file_size - stream.tell())
            flat = np.frombuffer(self._content(name, stream, facts), dtype=facts.dtype)
        array = flat.reshape(facts.shape[::-1]).T if facts.fortran_order else flat.reshape(facts.shape)
        return array if facts.dtype.isnative else array.astype(facts.dtype.newbyteorder("="))

    def _content(self, name: str, stream: IO[bytes], facts: ArrayFacts) -> bytearray:
        expected = _num_bytes(facts)
        content = bytearray(expected)
        view, filled = memoryview(content), 0
        while filled < expected:
            piece = stream.read(min(_PIECE, expected - filled))
            if not piece:
                raise self._broken(f"the array '{name}' ends after {filled:,} of {expected:,} bytes")
            view[filled : filled + len(piece)] = piece
            filled += len(piece)
        stream.read(1)  # at the end of the member, the checksum is compared
        return content

    def _header(self, name: str, stream: IO[bytes]) -> ArrayFacts:
        try:
            version = npy.read_magic(stream)
            if version not in ((1, 0), (2, 0)):
                raise ValueError(f"version {version} of the npy format is not read")
            reader = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
            shape, fortran_order, dtype = reader(stream, max_header_size=_LONGEST_HEADER)
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError, EOFError, AttributeError) as error:
            raise self._broken(f"the member '{shorten(name, 60)}' is no array: {shorten(str(error), 100)}") from None
        if any(side < 0 for side in shape) or len(shape) > 3:
            raise self._lie(name, shape, "sizes of at most three dimensions")
        return ArrayFacts(shape, dtype, fortran_order)

    def _compare(self, name: str, facts: ArrayFacts, size: int) -> None:
        if _num_bytes(facts) != size or facts.dtype.itemsize == 0:
            needed = f"{_num_bytes(facts):,} bytes"
            raise self._lie(name, facts.shape, f"{size:,} bytes, the size of what is stored; the shape takes {needed}")
        if size == 0 and max(facts.shape, default=0) > _MOST_EMPTY_ROWS:
            raise self._lie(name, facts.shape, "a size that is backed by values")

    def _lie(self, name: str, shape: tuple[int, ...], expected: str) -> BadInput:
        return BadInput(
            f"the header of '{name}' announces the shape {shorten(shape, 80)}",
            code="E-HEADER-LIE",
            place=self._place(name),
            expected=expected,
            fix="write the file again",
        )

    @contextmanager
    def _member(self, name: str) -> Iterator[IO[bytes]]:
        with self._corrupt(), self._zip.open(self._members[name]) as stream:
            yield stream

    @contextmanager
    def _corrupt(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if error.errno != errno.EINVAL:  # a directory that points before the beginning of the file
                raise
            raise self._broken(str(error)) from None
        except ZIP_ERRORS as error:
            raise self._broken(str(error)) from None

    def _broken(self, reason: str) -> BadInput:
        return BadInput(
            f"{self.path.name} is no whole npz file: {shorten(reason, 200)}",
            code="E-CORRUPT",
            place=self.path.name,
            expected="a file written by numpy.savez or numpy.savez_compressed",
            fix="write, copy or download the file again",
        )

    def _place(self, name: str) -> str:
        return f"{self.path.name}, array {shorten(name, 60)}"

    def _check_names(self, members: list[zipfile.ZipInfo]) -> None:
        seen: set[str] = set()
        for member in members:
            name = member.filename
            parts = name.replace("\\", "/").split("/")
            linked = (member.external_attr >> 28) == 0xA
            if name in seen or ".." in parts or name.startswith(("/", "\\")) or ":" in name or linked:
                why = "occurs twice" if name in seen else "leads out of the file"
                raise BadInput(
                    f"the member '{shorten(name, 80)}' {why}",
                    code="E-PATH",
                    place=self.path.name,
                    found=name,
                    expected="different, plain names",
                    fix="write the file again with numpy.savez",
                )
            seen.add(name)
            if member.flag_bits & 0x1:
                raise self._broken("it is encrypted")
            if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise self._broken(f"its compression method {member.compress_type} is not one that numpy uses")


def _refuse_crowds(stream: BinaryIO, path: Path, size: int) -> None:
    """Count the members from the end record: listing a hundred thousand of them takes longer than reading a graph."""
    stream.seek(max(0, size - 66_000))
    tail = stream.read()
    at = tail.rfind(_END_RECORD)
    count = int.from_bytes(tail[at + 10 : at + 12], "little") if at >= 0 else 0
    directory = int.from_bytes(tail[at + 12 : at + 16], "little") if at >= 0 else 0
    stream.seek(0)
    if count > MOST_MEMBERS or (directory > 1000 * MOST_MEMBERS and at >= 0):
        raise BadInput(
            f"{path.name} has too many members",
            code="E-BOMB",
            place=path.name,
            found=f"{count:,} members in {directory:,} bytes",
            expected=f"at most {MOST_MEMBERS:,} arrays",
        )


def _num_bytes(facts: ArrayFacts) -> int:
    count = 1
    for side in facts.shape:
        count *= side
    return count * facts.dtype.itemsize
