"""A benchmark's files: from a named folder, next to the checkout, the cache, or their origin; sha256 checked."""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import io
import logging
import os
import ssl
import sys
import tempfile
import time
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from filelock import lock_descriptor

from graphsde.base.errors import BadInput, BadUsage, StorageError
from graphsde.base.storage import io_error, write_bytes, write_text
from graphsde.base.terminal import make_console


def cache_folder() -> Path | None:
    """``$GRAPHSDE_CACHE``, else ``$XDG_CACHE_HOME/graphsde``, else ``~/.cache/graphsde``; ``None`` without a home."""
    if named := os.environ.get("GRAPHSDE_CACHE"):
        return Path(named).expanduser()
    base = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(base):  # the XDG specification says to ignore relative values
        return Path(base) / "graphsde"
    try:
        return Path.home() / ".cache" / "graphsde"
    except RuntimeError:
        return None


def read_converted(key: str) -> dict[str, np.ndarray] | None:
    """The arrays cached under ``key``, or ``None`` if they are missing or damaged."""
    folder = cache_folder()
    if folder is None:
        return None
    path = folder / "converted" / f"{key}.npz"
    try:
        content = path.read_bytes()
        if hashlib.sha256(content).hexdigest() != _record(path).read_text(encoding="ascii").strip():
            return None
        with np.load(io.BytesIO(content), allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (OSError, ValueError, zipfile.BadZipFile):
        return None


def write_converted(key: str, arrays: Mapping[str, np.ndarray]) -> None:
    """Cache ``arrays`` under ``key``; a cache that can't be written is ignored."""
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


CHUNK = 1 << 16
LOOPBACK = ("127.0.0.1", "::1", "localhost")

Progress = Callable[[str, int, int], None]
"""Called with a file's name, the bytes so far and the bytes in total."""


@dataclass(frozen=True)
class PublishedFile:
    """A file with known content.

    Args:
        path: inside a data folder, e.g. ``"Cora/raw/ind.cora.x"``.
        origin: the address of the folder that publishes it, ending in ``/``.
        size: its bytes; nothing beyond them is ever read.
        sha256: hex digest of its content.
    """

    path: str
    origin: str
    size: int
    sha256: str

    @property
    def name(self) -> str:
        return self.path.rsplit("/", 1)[-1]


def fetch(
    file: PublishedFile,
    target: Path,
    *,
    base_url: str | None = None,
    progress: Progress | None = None,
    timeout: float = 30.0,
    attempts: int = 4,
    pause: float = 0.5,
) -> None:
    """Download ``file`` to ``target``; on a wrong hash, delete it and try once more from the start.

    pooch decides whether there is anything to do, checks the hash and moves the file into place. The transfer itself is
    ours: an interrupted one stays as ``target.part`` and is resumed, in this call and in later ones,
    and nothing beyond the known size is read, while pooch's downloader starts over and reads to the end
    (``test_a_broken_transfer_is_taken_up_where_it_ended``, ``test_no_more_than_the_known_size_is_read``).
    """
    import pooch

    url = (base_url or file.origin) + file.name
    _require_secure(url)
    part = target.with_name(target.name + ".part")

    def download(url: str, output: str, _: object) -> None:
        _transfer(url, file, part, progress, timeout, attempts, pause)
        os.replace(part, output)

    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with _alone_in(target.parent), _quiet(pooch.get_logger()):
            for _ in range(2):
                with contextlib.suppress(ValueError):  # wrong hash: pooch has removed the file
                    pooch.retrieve(url, f"sha256:{file.sha256}", target.name, target.parent, downloader=download)
                    return
    except OSError as error:
        raise io_error("write", target, error) from error
    raise BadInput(
        f"{file.name} is not the published file, after two downloads",
        code="E-HASH",
        place=url,
        expected=f"sha256 {file.sha256}",
        fix="something changes the file in transit: check proxies, or download it another way",
    )


def _transfer(
    url: str, file: PublishedFile, part: Path, progress: Progress | None, timeout: float, attempts: int, pause: float
) -> None:
    """Fill ``part`` until the server has nothing more to send; the caller checks the result."""
    opener = urllib.request.build_opener(
        urllib.request.HTTPSHandler(context=ssl.create_default_context()), _SecureRedirects()
    )
    reason = ""
    for attempt in range(attempts):
        if attempt:
            time.sleep(pause * 2 ** (attempt - 1))
        held = part.stat().st_size if part.exists() else 0
        if held > file.size:
            part.unlink()
            held = 0
        if held == file.size:
            return
        headers = {"Accept-Encoding": "identity", "User-Agent": "graphsde"}
        if held:
            headers["Range"] = f"bytes={held}-"
        try:
            response = opener.open(urllib.request.Request(url, headers=headers), timeout=timeout)
        except urllib.error.HTTPError as error:
            reason = f"the server answered {error.code} {error.reason}"
            if error.code == 416:  # a leftover that is not a part of this file
                part.unlink(missing_ok=True)
            elif error.code < 500 and error.code != 429:
                raise StorageError(
                    f"can't download {file.name}: {reason}", code="E-HTTP", place=url, fix="try again later"
                ) from error
            continue
        except urllib.error.URLError as error:
            if isinstance(error.reason, ssl.SSLError):
                raise StorageError(
                    f"can't download {file.name}: the server's certificate is not trusted ({error.reason})",
                    code="E-TLS",
                    place=url,
                    fix="check the clock, the system's certificates and proxies; checking is never switched off",
                ) from error
            raise _offline(file, url, str(error.reason)) from error  # never connected: retrying is pointless
        except (OSError, http.client.HTTPException) as error:
            reason = f"{type(error).__name__}: {error}"
            continue
        with response:
            if _receive(response, file, part, held, progress):
                return
        reason = "the transfer was cut off"
    raise _offline(file, url, f"{reason}, {attempts} times")


def _receive(
    response: http.client.HTTPResponse, file: PublishedFile, part: Path, held: int, progress: Progress | None
) -> bool:
    """Append to ``part``; returns whether the server sent everything it announced."""
    if response.status != 206 or not str(response.headers.get("Content-Range", "")).startswith(f"bytes {held}-"):
        held = 0
    announced = response.headers.get("Content-Length")
    end = held + int(announced) if announced and announced.isdigit() else file.size
    with open(part, "ab" if held else "wb") as stream:
        while held < file.size and (chunk := _read(response, min(CHUNK, file.size - held))):
            stream.write(chunk)
            held += len(chunk)
            if progress is not None:
                progress(file.name, held, file.size)
        stream.flush()
        os.fsync(stream.fileno())
    return held >= min(end, file.size)


def _read(response: http.client.HTTPResponse, amount: int) -> bytes:
    try:
        return response.read(amount)
    except (OSError, http.client.HTTPException):  # keep what came so far and request the rest again
        return b""


def _offline(file: PublishedFile, url: str, reason: str) -> StorageError:
    return StorageError(
        f"can't download {file.name}: {reason}", code="E-OFFLINE", place=url, fix="check the connection, then try again"
    )


def _require_secure(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in LOOPBACK):
        return
    raise BadUsage("files are downloaded over https only", code="E-INSECURE", found=url, expected="an https address")


class _SecureRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *args: Any) -> urllib.request.Request | None:
        _require_secure(args[-1])
        return super().redirect_request(*args)


@contextlib.contextmanager
def _quiet(logger: logging.Logger) -> Iterator[None]:
    """Silence pooch's messages on standard error, where our bar is; the user's own use of pooch is unaffected."""
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)


@contextlib.contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Two processes must not fill the same ``.part``; if locks don't work, the hash still catches it."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):
            lock_descriptor(stack.enter_context(open(folder / ".lock", "a")).fileno())
        yield


DATA_VARIABLE = "GRAPHSDE_DATA"

Contents = dict[str, bytes]
"""A file's bytes under its name."""


def named_folders(root: str | os.PathLike[str] | None = None) -> list[Path]:
    """Folders that may hold benchmark files, in search order.

    The argument, then ``$GRAPHSDE_DATA``, then ``../shared/data`` next to a source checkout.
    """
    folders = [Path(folder).expanduser() for folder in (root, os.environ.get(DATA_VARIABLE)) if folder]
    checkout = Path(__file__).resolve().parents[3]
    if (checkout / "pyproject.toml").is_file():
        folders.append(checkout.parent / "shared" / "data")
    return folders


def from_named_folder(files: Sequence[PublishedFile], root: str | os.PathLike[str] | None = None) -> Contents | None:
    """The files from the first named folder that has all of them, ``None`` if there is none."""
    folder = _first_with_all(files, named_folders(root))
    return None if folder is None else {file.name: read_verified(folder / file.path, file) for file in files}


def find_folder(files: Sequence[PublishedFile]) -> Path | None:
    """The local folder that the files would come from, without opening them."""
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
    """The files from the cache; missing or damaged ones are downloaded first."""
    contents = {file.name: content for file in files if (content := _from_cache(file)) is not None}
    missing = [file for file in files if file.name not in contents]
    if missing and not download:
        raise _not_here(missing, "downloads are disabled")
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
    """The bytes at ``path``; refused unless they are the published ones."""
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
    """The cached copy of ``file``; a damaged copy counts as missing, since it can be downloaded again."""
    cache = cache_folder()
    if cache is None:
        return None
    try:
        return read_verified(cache / "data" / file.path, file)
    except (StorageError, BadInput):
        return None


@contextlib.contextmanager
def _writable_folder() -> Iterator[Path]:
    """The cache's data folder; a temporary one if the cache can't be written."""
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
    """The caller's own callback, otherwise a bar on standard error if it is a terminal."""
    if progress is not None or not files or not sys.stderr.isatty():
        yield progress
        return
    from rich.progress import Progress as Bars

    with Bars(console=make_console(stderr=True), transient=True) as bars:
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
            f"connect to the network, or put these files into DATA/{folder}, where DATA is any folder of yours, "
            f"and set the environment variable {DATA_VARIABLE}=DATA"
        ),
    )
