"""One writer at a time: a lock on a folder that ends with its process, however that ends."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from graphsde.base import storage
from graphsde.base.errors import BadUsage


@contextlib.contextmanager
def exclusive(folder: Path) -> Iterator[None]:
    """Hold ``folder``'s lock; a second process is refused at once with the first one's number.

    The system lets go of the lock when the process ends, so that a file left behind by a dead one locks nothing; its
    content is only there to name the holder.
    """
    path = folder / ".lock"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise storage.io_error("write", path, error) from error
    try:
        _take(handle, fcntl.LOCK_EX, path)
        try:
            os.ftruncate(handle, 0)
            os.write(handle, str(os.getpid()).encode())
        except OSError as error:
            raise storage.io_error("write", path, error) from error
        yield
    finally:
        os.close(handle)


def refuse_if_held(folder: Path) -> None:
    """A look without holding on, for programs that have slow things to do before they take the lock."""
    path = folder / ".lock"
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return  # whatever it is, taking the lock will say so
    try:
        _take(handle, fcntl.LOCK_SH, path)
    finally:
        os.close(handle)


def _take(handle: int, kind: int, path: Path) -> None:
    try:
        fcntl.flock(handle, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        raise BadUsage(
            f"process {_holder(handle)} is writing to {path.parent} already",
            code="E-LOCKED",
            fix="wait for it, or choose another --out",
        ) from None
    except OSError as error:
        raise storage.io_error("lock", path, error) from error


def _holder(handle: int) -> str:
    text = os.pread(handle, 32, 0).decode("ascii", "replace").strip()
    return text if text.isdecimal() else "?"
