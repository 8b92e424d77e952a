"""One writer at a time: a lock on a folder that is released when its process ends, however it ends."""

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
    """Hold ``folder``'s lock; a second process is refused at once, with the process id of the first.

    The system releases the lock when the process ends, so a file left behind by a dead process locks nothing; its
    content only names the holder.
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
                f"{_holder(handle)} is already writing to {folder}",
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
    """Check the lock without taking it, for programs that do slow work before they take it."""
    if os.path.exists(folder / ".lock"):  # a check must not create the file
        with exclusive(folder):
            pass


def _holder(handle: int) -> str:
    """The process that holds the lock, in words; its id is written a moment after the lock is taken."""
    try:
        text = os.read(handle, 32).decode("ascii", "replace").strip()
    except OSError:  # on Windows only the holder can read a locked file
        text = ""
    return f"process {text}" if text.isdecimal() else "another process"
