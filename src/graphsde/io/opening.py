"""Opening a user's file: only regular files, never one that blocks, changes while it is read or claims too much."""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from graphsde.base.errors import BadInput, StorageError
from graphsde.base.memory import human_bytes, require_memory
from graphsde.base.storage import io_error
from graphsde.graph.ids import NUMBER

_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)


def status_of(path: Path) -> os.stat_result:
    """The file's status, or the typed error if there is no such thing."""
    try:
        return os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        raise BadInput(
            f"no such file or folder: {path}", code="E-NOT-A-FILE", place=str(path), fix="check the path"
        ) from None
    except ValueError:  # a NUL in the name
        raise BadInput("not a valid path", code="E-NOT-A-FILE", found=str(path), fix="check the path") from None
    except OSError as error:
        raise io_error("read", path, error) from error


def require_path(text: str | os.PathLike[str]) -> None:
    """Refuse an empty path, which would mean the current folder: usually an unset variable in a script."""
    if not os.fspath(text):
        raise BadInput(
            "the path is empty",
            code="E-NOT-A-FILE",
            found="''",
            expected="a benchmark's name, a folder or a file",
            fix="use '.' for the current folder",
        )


def require_regular(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        kind = next((words for test, words in _KINDS if test(status.st_mode)), "not a regular file")
        raise BadInput(
            f"{path.name or path} is {kind}",
            code="E-NOT-A-FILE",
            place=str(path),
            expected="a regular file",
            fix="use the path of a regular file with data",
        )


def require_inside(path: Path, folder: Path) -> None:
    """Refuse a table that is a link out of its folder: the sender of the folder chose the target."""
    with contextlib.suppress(OSError):
        target, root = os.path.realpath(path), os.path.realpath(folder)
        if os.path.commonpath([target, root]) != root:
            raise BadInput(
                f"{path.name} is a link that points outside its folder",
                code="E-NOT-A-FILE",
                place=str(path),
                found=target,
                expected=f"a regular file inside {folder}",
                fix="copy the file into the folder",
            )


@contextlib.contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Open for reading; raises :class:`StorageError` if the file changes before the block ends."""
    require_regular(path, status_of(path))
    try:
        # checking and opening are two steps: without O_NONBLOCK, a pipe put there in between would block
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        with os.fdopen(handle, "rb") as stream:
            before = os.fstat(handle)
            require_regular(path, before)
            try:
                yield stream
            finally:
                after = os.fstat(handle)
                if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
                    raise StorageError(
                        f"{path.name} changed while it was being read",
                        place=str(path),
                        found=f"{before.st_size} bytes, then {after.st_size}",
                        fix="wait until the program that writes it has finished, then read it again",
                    )
    except OSError as error:
        raise io_error("read", path, error) from error


LARGEST_CONTENT = 2_000_000_000
# compression beyond this ratio is suspicious, but honest sparse one-hot tables of moderate size reach it
LARGEST_RATIO = 100
MODERATE_CONTENT = 200_000_000


def refuse_bomb(
    path: Path, *, declared: int, compressed: int, moderate: int = MODERATE_CONTENT, ratio: int = LARGEST_RATIO
) -> None:
    """Check a file's declared unpacked size against limits before unpacking any of it.

    Args:
        path: the file, for the message.
        declared: bytes that its content would take.
        compressed: bytes that the file has.
        moderate: content up to this size may have any compression ratio.
        ratio: beyond that, how many times the size of the file is plausible.
    """
    found = declared / max(compressed, 1)
    if declared > LARGEST_CONTENT or (declared > moderate and found > ratio):
        beyond = f"{ratio} times the size of the file beyond {human_bytes(moderate)}"
        raise BadInput(
            f"{path.name} is {human_bytes(compressed)} and would unpack to {human_bytes(declared)}",
            code="E-BOMB",
            place=path.name,
            found=f"{found:,.0f} times its size",
            expected=f"at most {human_bytes(LARGEST_CONTENT)}, and at most {beyond}",
            fix="store features as sparse (CSR) arrays, or split the graph",
        )


SMALL_FILE = 10_000_000
SMALL_COST = 200_000_000


def refuse_cost(path: Path, *, cost: int, size: int, fix: str) -> None:
    """Check the cost of reading a file against the limit for its size, before it is read.

    A file of up to 10 MB may need 200 MB, whatever it holds; each further byte may need 100. An honest
    large graph comes in a large file, and the absolute allowance lets small files have any compression ratio.

    Args:
        path: the file, for the message.
        cost: bytes of memory at the peak; a microsecond counts as a hundred.
        size: bytes that the file has.
        fix: what to do about it.
    """
    allowed = SMALL_COST + LARGEST_RATIO * max(0, size - SMALL_FILE)
    if cost > allowed:
        raise BadInput(
            f"{path.name} is {human_bytes(size)}, but reading it would need about {human_bytes(cost)}",
            code="E-BOMB",
            place=path.name,
            found=f"{cost / max(size, 1):,.0f} times its size",
            expected=f"at most {human_bytes(allowed)} for a file of this size",
            fix=fix,
        )
    require_memory(cost, f"reading {path.name}", "use a machine with more memory, or a smaller graph")


_FORMULA = re.compile(r"[\t\r\n]|[ \xa0\u3000\ufeff\x00]*[=+\-@\uff1d\uff0b\uff0d\uff20]")


def safe_cell(value: object) -> str:
    """A value as a cell that no spreadsheet treats as a formula.

    Text that starts with ``=``, ``+``, ``-``, ``@`` (also full-width), a tab or a line break gets an
    apostrophe in front, also after blanks, which some programs strip; numbers stay numbers. For exports only: a
    file that is read back must keep its cells unchanged.

    Example:
        >>> safe_cell("=cmd()"), safe_cell(-0.5), safe_cell("ann")
        ("'=cmd()", '-0.5', 'ann')
    """
    text = "" if value is None else str(value)
    if _FORMULA.match(text) and not NUMBER.fullmatch(text.strip(" ")):
        return "'" + text
    return text


def no_utf8(path: Path, error: UnicodeDecodeError) -> BadInput:
    """The error for a text file in an unreadable encoding."""
    return BadInput(
        f"{path.name} is not UTF-8 text: {error.reason} at byte {error.start}",
        code="E-ENCODING",
        place=f"{path.name}, byte {error.start}",
        fix="save it as UTF-8",
    )
