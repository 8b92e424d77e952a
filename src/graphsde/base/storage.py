"""Atomic files, complete or absent: written under a temporary name, synced, renamed."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar

from graphsde.base.errors import BadInput, StorageError, shorten

if TYPE_CHECKING:
    from pydantic import BaseModel

Document = TypeVar("Document", bound="BaseModel")


@contextlib.contextmanager
def writing(path: Path) -> Iterator[IO[bytes]]:
    """Open ``path`` for writing; the old file stays until the new one is complete and on disk."""
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(temporary, "xb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
        sync_folder(path.parent)
    except OSError as error:
        raise io_error("write", path, error) from error
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)


def write_bytes(path: Path, content: bytes) -> None:
    with writing(path) as stream:
        stream.write(content)


def write_text(path: Path, content: str) -> None:
    write_bytes(path, content.encode("utf-8"))


def write_json(path: Path, value: Any) -> None:
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def read_text(path: Path) -> str:
    try:
        return Path(path).read_bytes().decode("utf-8")
    except OSError as error:
        raise io_error("read", Path(path), error) from error
    except UnicodeDecodeError as error:
        raise damaged(Path(path), f"not UTF-8 at byte {error.start}") from None


def read_json(path: Path) -> Any:
    """The value in a JSON file that this package wrote; anything else counts as damage."""
    try:
        return json.loads(read_text(path), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise damaged(path, f"not JSON: {type(error).__name__}") from None


def _refuse_constant(name: str) -> None:
    raise ValueError(name)


def read_document(path: Path, kind: type[Document]) -> Document:
    """A JSON file that must have the fields of ``kind``."""
    value = read_json(path)
    try:
        return kind.model_validate(value)
    except ValueError as error:
        first = error.errors()[0] if hasattr(error, "errors") else {"loc": (), "msg": str(error)}
        where = ".".join(str(part) for part in first["loc"])
        raise damaged(path, f"{where or 'the whole'}: {first['msg']}") from None


def damaged(path: Path, why: str, fix: str = "restore the file from a backup, or fit again") -> BadInput:
    """The error for a file of ours whose content is not what we wrote."""
    return BadInput(f"{Path(path).name} is damaged ({shorten(why)})", code="E-CORRUPT", place=str(path), fix=fix)


def sha256(path: Path) -> str:
    try:
        with open(path, "rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise io_error("read", Path(path), error) from error


def io_error(verb: str, path: Path, error: OSError) -> StorageError:
    reason = error.strerror or type(error).__name__
    return StorageError(
        f"can't {verb} {path}: {reason}", place=str(path), fix="check the path, its permissions and the disk"
    )


def sync_folder(folder: Path) -> None:
    """Make the rename itself durable; not every file system can."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
