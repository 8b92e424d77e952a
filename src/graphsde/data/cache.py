"""The user's cache folder, and converted graphs kept there as plain arrays."""

from __future__ import annotations

import hashlib
import io
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from graphsde.errors import StorageError
from graphsde.storage import write_bytes, write_text


def cache_folder() -> Path | None:
    """``$GRAPHSDE_CACHE``, else ``$XDG_CACHE_HOME/graphsde``, else ``~/.cache/graphsde``; ``None`` without a home."""
    if named := os.environ.get("GRAPHSDE_CACHE"):
        return Path(named).expanduser()
    base = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(base):  # the XDG specification has relative values ignored
        return Path(base) / "graphsde"
    try:
        return Path.home() / ".cache" / "graphsde"
    except RuntimeError:
        return None


def read_converted(key: str) -> dict[str, np.ndarray] | None:
    """The arrays kept under ``key``, or ``None`` if they are not there or not as they were written."""
    folder = cache_folder()
    if folder is None:
        return None
    path = folder / "converted" / f"{key}.npz"
    try:
        content = path.read_bytes()
        recorded = _record(path).read_text(encoding="ascii").strip()
        if hashlib.sha256(content).hexdigest() != recorded:
            return None
        with np.load(io.BytesIO(content), allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (OSError, ValueError, zipfile.BadZipFile):
        return None


def write_converted(key: str, arrays: Mapping[str, np.ndarray]) -> None:
    """Keep ``arrays`` under ``key``; a cache that can't be written is done without."""
    folder = cache_folder()
    if folder is None:
        return
    stream = io.BytesIO()
    np.savez(stream, **arrays)  # type: ignore[arg-type]
    path = folder / "converted" / f"{key}.npz"
    try:
        write_bytes(path, stream.getvalue())
        write_text(_record(path), hashlib.sha256(stream.getvalue()).hexdigest() + "\n")
    except StorageError:
        return


def _record(path: Path) -> Path:
    return path.with_name(path.name + ".sha256")
