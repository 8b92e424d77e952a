"""One writer at a time: a lock on a folder that ends with its process, however that ends."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from filelock import lock_descriptor

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
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise storage.io_error("write", path, error) from error
    try:
        try:
            free = lock_descriptor(handle, blocking=False)
        except OSError as error:
            raise storage.io_error("lock", path, error) from error
        if not free:
            raise BadUsage(
                f"{_holder(handle)} is writing to {folder} already",
                code="E-LOCKED",
                fix="wait for it, or choose another --out",
            )
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
    if os.path.exists(folder / ".lock"):  # a look leaves nothing behind where there was nothing
        with exclusive(folder):
            pass


def _holder(handle: int) -> str:
    """The process that has the lock, in words; its number comes a moment after the lock itself."""
    try:
        text = os.read(handle, 32).decode("ascii", "replace").strip()
    except OSError:  # Windows lets nobody but the holder read what is locked
        text = ""
    return f"process {text}" if text.isdecimal() else "another process"
