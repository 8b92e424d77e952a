"""A private temporary folder; one left behind by a killed process is removed later."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from graphsde.base.errors import GraphsdeError
from graphsde.base.lock import exclusive

# a folder is locked milliseconds after it is created
LONGEST_START = 3600.0


@contextlib.contextmanager
def private_folder(prefix: str, *, longest_place: int | None = None) -> Iterator[Path]:
    """A new folder, removed at the end; folders with the same prefix whose process has died are removed first.

    A lock shows which processes are alive: the system releases it when a process ends. Process ids are
    reused, and mean nothing in another container that shares the temporary folder.

    Args:
        prefix: of the folder's name; one per purpose.
        longest_place: if the path of the temporary folder is longer than this, ``/tmp`` is used, since addresses of
            sockets must be short.
    """
    place = Path(tempfile.gettempdir())
    if longest_place is not None and len(str(place)) > longest_place:
        place = Path("/tmp")
    clear_abandoned(place, prefix)
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=place))
    try:
        with exclusive(folder):
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def clear_abandoned(place: Path, prefix: str) -> list[Path]:
    """Remove folders whose process has died and return them; uncertain ones stay."""
    removed = []
    with contextlib.suppress(OSError):
        for folder in sorted(place.glob(f"{prefix}*")):
            if _is_ours(folder) and _is_abandoned(folder):
                shutil.rmtree(folder, ignore_errors=True)
                removed.append(folder)
    return removed


def _is_ours(folder: Path) -> bool:
    """A real folder of this user: anyone may write to the temporary folder."""
    try:
        found = os.lstat(folder)
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and (not hasattr(os, "getuid") or found.st_uid == os.getuid())


def _is_abandoned(folder: Path) -> bool:
    lock = folder / ".lock"
    try:
        if not lock.is_file() or lock.stat().st_size == 0:  # its process died at once, or is about to lock it
            return time.time() - folder.stat().st_mtime > LONGEST_START
        with exclusive(folder):
            return True
    except (OSError, GraphsdeError):
        return False
