"""Opening an untrusted zip archive: its directory is checked before it is listed, a member before it is read."""

from __future__ import annotations

import errno
import io
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, BinaryIO

from graphsde.base.errors import BadInput, shorten

MOST_MEMBERS = 1_000
# a member takes 46 bytes of the directory plus its name: room for a thousand with long names, and still fast
LARGEST_DIRECTORY = 1_000_000
_LOCAL_HEADER = struct.Struct("<4s5H3L2H")
_ENCRYPTED, _SIZES_FOLLOW, _UNTOLD = 0x1, 0x8, 0xFFFFFFFF
# what the standard library's reader raises on damaged files, found by fuzzing
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


def open_zip(stream: BinaryIO, label: str, kind: str) -> zipfile.ZipFile:
    """An archive whose directory is small and whose members have plain, different names.

    Args:
        stream: the open file.
        label: its name, for messages.
        kind: what it should be, for messages.
    """
    source = _Source(stream, label)
    with whole_zip(label, kind):
        archive = zipfile.ZipFile(source)
    source.listing = False
    members = archive.infolist()
    if len(members) > MOST_MEMBERS:
        raise _crowd(label, f"{len(members):,} members")
    seen: set[str] = set()
    for member in members:
        _check_member(member, seen, label, kind)
    return archive


@contextmanager
def open_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, label: str, kind: str) -> Iterator[IO[bytes]]:
    """A member's content; damage found while reading is a typed error, too."""
    with whole_zip(label, kind):
        _compare_headers(archive, member)
        with archive.open(member) as stream:
            yield stream


@contextmanager
def whole_zip(label: str, kind: str) -> Iterator[None]:
    """Damage found by the standard library, as a typed error."""
    try:
        yield
    except OSError as error:
        if error.errno not in (None, errno.EINVAL):  # a directory that points before the start of the file
            raise
        raise broken(label, kind, str(error)) from None
    except ZIP_ERRORS as error:
        raise broken(label, kind, str(error)) from None


def broken(label: str, kind: str, reason: str) -> BadInput:
    return BadInput(
        f"{label} is not a complete {kind}: {shorten(reason, 200)}",
        code="E-CORRUPT",
        place=label,
        expected=_WRITERS.get(kind, "an archive made by a standard program"),
        fix="write, copy or download the file again",
    )


_WRITERS = {"npz file": "a file written by numpy.savez or numpy.savez_compressed"}


class _Source(io.RawIOBase):
    """The file, with a limit on single reads while the directory is listed.

    The size of the directory is in one of several records (there are two kinds, and a comment may look like a
    third). Whichever the standard library uses, it then reads that many bytes in one call, and this is the
    call that is checked: parsing the records ourselves could be fooled by a polyglot file.
    """

    def __init__(self, stream: BinaryIO, label: str) -> None:
        self.stream, self.label, self.listing = stream, label, True

    def read(self, size: int = -1, /) -> bytes:
        if self.listing and size > LARGEST_DIRECTORY:
            raise _crowd(self.label, f"a directory of {size:,} bytes")
        return self.stream.read(size)

    def seek(self, offset: int, whence: int = 0, /) -> int:
        return self.stream.seek(offset, whence)

    def tell(self) -> int:
        return self.stream.tell()

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True


def _crowd(label: str, found: str) -> BadInput:
    return BadInput(
        f"{label} has too many members",
        code="E-BOMB",
        place=label,
        found=found,
        expected=f"at most {MOST_MEMBERS:,} members",
    )


def _check_member(member: zipfile.ZipInfo, seen: set[str], label: str, kind: str) -> None:
    name = member.filename
    linked = (member.external_attr >> 28) == 0xA
    plain = name.removesuffix(".npy") if kind == "npz file" else name  # numpy treats both as the array of this name
    if (
        plain in seen
        or ".." in name.replace("\\", "/").split("/")
        or name.startswith(("/", "\\"))
        or ":" in name
        or linked
    ):
        why = "occurs twice" if plain in seen else "points outside the file"
        raise BadInput(
            f"the member '{shorten(name, 80)}' {why}",
            code="E-PATH",
            place=label,
            found=name,
            expected="different, plain names",
            fix="write the file again",
        )
    seen.add(plain)
    if member.flag_bits & _ENCRYPTED:
        raise broken(label, kind, "it is encrypted")
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise broken(label, kind, f"its compression method {member.compress_type} is not supported")


def _compare_headers(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> None:
    """Refuse a member whose own header contradicts the directory: programs would read different contents.

    The standard library compares their names.
    """
    stream = archive.fp
    assert stream is not None
    stream.seek(member.header_offset)
    fields = _LOCAL_HEADER.unpack(stream.read(_LOCAL_HEADER.size))
    signature, _, flags, method, _, _, checksum, compressed, size = fields[:9]
    same = signature == b"PK\x03\x04" and method == member.compress_type and not (flags ^ member.flag_bits) & _ENCRYPTED
    if not flags & _SIZES_FOLLOW:
        told = ((compressed, member.compress_size), (size, member.file_size))
        same &= checksum == member.CRC and all(one in (other, _UNTOLD) for one, other in told)
    if not same:
        raise zipfile.BadZipFile(f"the header of {shorten(member.filename, 60)!r} differs from the directory")
