"""One published file onto this machine: TLS verified, resumable, size capped, sha256 checked before it counts."""

from __future__ import annotations

import contextlib
import http.client
import os
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from graphsde.errors import BadInput, BadUsage, StorageError
from graphsde.storage import io_error, sha256

CHUNK = 1 << 16
LOOPBACK = ("127.0.0.1", "::1", "localhost")

Progress = Callable[[str, int, int], None]
"""Called with a file's name, the bytes that are here and the bytes it has in all."""


class Response(Protocol):
    status: int
    headers: Any

    def read(self, amount: int, /) -> bytes: ...


@dataclass(frozen=True)
class PublishedFile:
    """A file whose bytes are known beforehand.

    Args:
        path: where it lies under a data folder, e.g. ``"Cora/raw/ind.cora.x"``.
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
    """Download ``file`` to ``target``; a wrong hash deletes what came and tries once more from the start.

    An interrupted transfer stays as ``target.part`` and is taken up where it ended, in this call and in later ones.
    """
    url = (base_url or file.origin) + file.name
    _require_secure(url)
    part = target.with_name(target.name + ".part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with _alone_in(target.parent):
            if _is_whole(target, file):
                return
            for _ in range(2):
                _transfer(url, file, part, progress, timeout, attempts, pause)
                if _is_whole(part, file):
                    os.replace(part, target)
                    return
                part.unlink(missing_ok=True)
    except OSError as error:
        raise io_error("write", target, error) from error
    raise BadInput(
        f"{file.name} as downloaded twice is not the published file",
        code="E-HASH",
        place=url,
        expected=f"sha256 {file.sha256}",
        fix="something on the way changes the file: look at proxies, or fetch it by other means",
    )


def _is_whole(path: Path, file: PublishedFile) -> bool:
    return path.is_file() and path.stat().st_size == file.size and sha256(path) == file.sha256


def _transfer(
    url: str, file: PublishedFile, part: Path, progress: Progress | None, timeout: float, attempts: int, pause: float
) -> None:
    """Fill ``part`` until the server has nothing more to give; what it holds then is the caller's to judge."""
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
            if error.code == 416:  # a leftover that is no beginning of this file
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
            raise _offline(file, url, str(error.reason)) from error  # never connected: no use in trying again
        except (OSError, http.client.HTTPException) as error:
            reason = f"{type(error).__name__}: {error}"
            continue
        with response:
            if _receive(response, file, part, held, progress):
                return
        reason = "the transfer was cut off"
    raise _offline(file, url, f"{reason}, {attempts} times")


def _receive(response: Response, file: PublishedFile, part: Path, held: int, progress: Progress | None) -> bool:
    """Append to ``part``; whether the server gave all that it announced."""
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


def _read(response: Response, amount: int) -> bytes:
    try:
        return response.read(amount)
    except (OSError, http.client.HTTPException):  # what came so far is kept, the rest is asked for again
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
def _alone_in(folder: Path) -> Iterator[None]:
    """Two processes must not fill the same ``.part``; where locks don't work, the hash still tells."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(ImportError, OSError):
            import fcntl

            lock = stack.enter_context(open(folder / ".lock", "a"))
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
