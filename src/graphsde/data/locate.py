"""Where a benchmark's files come from: a named folder, a folder beside the checkout, the cache, the publisher.

Whatever the source, a file's bytes are read once, compared with the pinned sha256, and only then handed on.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from graphsde.data.cache import cache_folder
from graphsde.data.download import Progress, PublishedFile, fetch
from graphsde.errors import BadInput, StorageError
from graphsde.storage import io_error

DATA_VARIABLE = "GRAPHSDE_DATA"

Contents = dict[str, bytes]
"""A file's bytes under its name."""


def named_folders(root: str | os.PathLike[str] | None = None) -> list[Path]:
    """Folders that may hold benchmark files, in the order in which they are looked at.

    The argument, then ``$GRAPHSDE_DATA``, then ``../shared/data`` beside a source checkout.
    """
    folders = [Path(folder).expanduser() for folder in (root, os.environ.get(DATA_VARIABLE)) if folder]
    checkout = Path(__file__).resolve().parents[3]
    if (checkout / "pyproject.toml").is_file():
        folders.append(checkout.parent / "shared" / "data")
    return folders


def from_named_folder(files: Sequence[PublishedFile], root: str | os.PathLike[str] | None = None) -> Contents | None:
    """The files from the first named folder that has all of them, ``None`` if no folder has."""
    folder = _first_with_all(files, named_folders(root))
    return None if folder is None else {file.name: read_verified(folder / file.path, file) for file in files}


def find_folder(files: Sequence[PublishedFile]) -> Path | None:
    """The folder on this machine from which the files would be taken, without opening them."""
    cache = cache_folder()
    return _first_with_all(files, [*named_folders(), *([] if cache is None else [cache / "data"])])


def _first_with_all(files: Sequence[PublishedFile], folders: Sequence[Path]) -> Path | None:
    return next((one for one in folders if all((one / file.path).is_file() for file in files)), None)


def from_cache_or_origin(
    files: Sequence[PublishedFile],
    *,
    download: bool = True,
    progress: Progress | None = None,
    base_url: str | None = None,
) -> Contents:
    """The files from the cache, those that are missing or damaged there downloaded first."""
    contents = {file.name: content for file in files if (content := _from_cache(file)) is not None}
    missing = [file for file in files if file.name not in contents]
    if missing and not download:
        raise _not_here(missing, "downloading is switched off")
    with _writable_folder() as folder, _progress_or_bar(progress, missing) as report:
        for file in missing:
            try:
                fetch(file, folder / file.path, base_url=base_url, progress=report)
            except StorageError as error:
                if error.code in ("E-OFFLINE", "E-HTTP"):
                    raise _not_here(missing, error.message, code=error.code) from error
                raise
            contents[file.name] = read_verified(folder / file.path, file)
    return contents


def read_verified(path: Path, file: PublishedFile) -> bytes:
    """The bytes at ``path``, refused unless they are the published ones."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise io_error("read", path, error) from error
    digest = hashlib.sha256(content).hexdigest()
    if digest != file.sha256:
        raise BadInput(
            f"{file.name} is not the published file: its sha256 differs",
            code="E-HASH",
            place=str(path),
            found=f"sha256 {digest}",
            expected=f"sha256 {file.sha256}",
            fix="replace the file; it was not opened",
        )
    return content


def _from_cache(file: PublishedFile) -> bytes | None:
    """What the cache holds of ``file``; a damaged copy counts as none, for it can be had again."""
    cache = cache_folder()
    if cache is None:
        return None
    try:
        return read_verified(cache / "data" / file.path, file)
    except (StorageError, BadInput):
        return None


@contextlib.contextmanager
def _writable_folder() -> Iterator[Path]:
    """The cache's data folder; a temporary one where the cache can't be written."""
    cache = cache_folder()
    if cache is not None:
        folder = cache / "data"
        with contextlib.suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK | os.X_OK):
            yield folder
            return
    with tempfile.TemporaryDirectory(prefix="graphsde-") as temporary:
        yield Path(temporary)


@contextlib.contextmanager
def _progress_or_bar(progress: Progress | None, files: Sequence[PublishedFile]) -> Iterator[Progress | None]:
    """The caller's own callback, or else a bar on standard error if a person is looking."""
    if progress is not None or not files or not sys.stderr.isatty():
        yield progress
        return
    from rich.console import Console
    from rich.progress import Progress as Bars

    with Bars(console=Console(stderr=True), transient=True) as bars:
        tasks = {file.name: bars.add_task(file.name, total=file.size) for file in files}
        yield lambda name, done, total: bars.update(tasks[name], completed=done)


def _not_here(missing: Sequence[PublishedFile], reason: str, *, code: str = "E-OFFLINE") -> StorageError:
    folder = missing[0].path.rsplit("/", 1)[0]
    names = ", ".join(file.name for file in missing)
    return StorageError(
        f"files of a benchmark graph are not on this machine: {names} ({reason})",
        code=code,
        place=missing[0].origin,
        fix=(
            f"connect to the network, or put these files into DATA/{folder}, where DATA is a folder of yours, "
            f"and set the environment variable {DATA_VARIABLE}=DATA"
        ),
    )
