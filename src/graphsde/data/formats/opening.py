"""Opening a user's file: only a regular file, never one that blocks, never one that changes underneath."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from graphsde.errors import BadInput, StorageError
from graphsde.storage import io_error

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
            f"there is no file or folder {path}", code="E-NOT-A-FILE", place=str(path), fix="check the path"
        ) from None
    except ValueError:  # a NUL in the name
        raise BadInput("this is no path", code="E-NOT-A-FILE", found=str(path), fix="check the path") from None
    except OSError as error:
        raise io_error("read", path, error) from error


def require_regular(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        kind = next((words for test, words in _KINDS if test(status.st_mode)), "no regular file")
        raise BadInput(
            f"{path.name or path} is {kind}",
            code="E-NOT-A-FILE",
            place=str(path),
            expected="a regular file",
            fix="give the path of a file with data in it",
        )


def require_inside(path: Path, folder: Path) -> None:
    """Refuse a table whose name is a link that leads out of its folder: whoever sent the folder chose the target."""
    with contextlib.suppress(OSError):
        target, root = os.path.realpath(path), os.path.realpath(folder)
        if os.path.commonpath([target, root]) != root:
            raise BadInput(
                f"{path.name} is a link that leads out of its folder",
                code="E-NOT-A-FILE",
                place=str(path),
                found=target,
                expected=f"a regular file inside {folder}",
                fix="copy the file into the folder",
            )


@contextlib.contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Open for reading; a file that changes before the block ends gives :class:`StorageError`, whatever was read."""
    require_regular(path, status_of(path))
    try:
        # the check above and the opening are two steps: without O_NONBLOCK a pipe put there in between would block
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
                        f"{path.name} changed while it was read",
                        place=str(path),
                        found=f"{before.st_size} bytes, then {after.st_size}",
                        fix="wait until whatever writes it has finished, then read again",
                    )
    except OSError as error:
        raise io_error("read", path, error) from error
