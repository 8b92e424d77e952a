"""Uploaded files and zipped folders: stored under their hash, so that a run can find its graph again."""

from __future__ import annotations

import hashlib
import io
import json
import re
import shutil
import zipfile
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from graphsde.base import storage
from graphsde.base.errors import BadInput, GraphsdeError, StorageError, shorten
from graphsde.base.memory import human_bytes
from graphsde.io.opening import refuse_bomb
from graphsde.io.read import FORMATS, PICKLED
from graphsde.io.zip_directory import open_member, open_zip
from graphsde.view.app.confined import check_readable
from graphsde.view.app.words import UPLOAD_BYTES, UPLOAD_MEGABYTES, UPLOAD_QUOTA

TABLE_FILES = frozenset({"nodes.csv", "nodes.parquet", "edges.csv", "edges.parquet", "graph.yaml"})
_HARMLESS_CONTENT = 1_000_000
_PIECE = 1 << 20
_KIND = "zip file"
_CHECKED = "checked.json"


def unpack_tables(content: bytes, name: str, target: Path) -> None:
    """Write the tables of a zip into ``target``.

    They may be at the top or together in one folder. Names that point outside, links, duplicates and archives in the
    archive are refused; other files are ignored. What a member unpacks to is counted while it is unpacked,
    since its declared size can't be trusted.
    """
    label = Path(shorten(name, 80))
    archive = open_zip(io.BytesIO(content), str(label), _KIND)
    members = archive.infolist()
    refuse_bomb(
        label,
        declared=sum(member.file_size for member in members),
        compressed=len(content),
        moderate=_HARMLESS_CONTENT,
    )
    for file, member in _tables(members, label).items():
        with storage.writing(target / file) as stream, open_member(archive, member, str(label), _KIND) as source:
            _copy(source, member, stream, label, len(content))


def _tables(members: list[zipfile.ZipInfo], label: Path) -> dict[str, zipfile.ZipInfo]:
    found: dict[str, zipfile.ZipInfo] = {}
    for member in members:
        path = PurePosixPath(member.filename)
        file = path.name.lower()
        if member.is_dir() or file not in TABLE_FILES or path.parts[0] == "__MACOSX":
            continue
        if file in found or len(path.parts) > 2:
            why = "twice" if file in found else "too deep inside"
            raise BadInput(
                f"{label} has {file} {why}",
                code="E-PATH",
                found=member.filename,
                expected="one nodes table and one edges table, at the top or in one folder",
            )
        found[file] = member
    if not found:
        inside = ", ".join(shorten(member.filename, 40) for member in members[:5]) or "nothing"
        raise BadInput(
            f"{label} has no tables of nodes and edges",
            code="E-FORMAT",
            found=inside,
            expected="nodes.csv and edges.csv (or .parquet), at the top or in one folder",
        )
    return found


def _copy(source: IO[bytes], member: zipfile.ZipInfo, stream: IO[bytes], label: Path, size: int) -> None:
    done = 0
    while piece := source.read(_PIECE):
        done += len(piece)
        if done > member.file_size:
            refuse_bomb(label, declared=max(done, 2**62), compressed=size)
        stream.write(piece)


ACCEPTED = ("zip", "npz", "graphml", "xml", "csv", "parquet", "yaml")
SINGLE = (".npz", ".graphml", ".xml")


@dataclass(frozen=True)
class Upload:
    """One file as uploaded; its name is untrusted."""

    name: str
    content: bytes


def keep_upload(files: Sequence[Upload], folder: Path) -> Path:
    """Store an upload below ``folder`` and return the path to read it from as a graph.

    Args:
        files: one archive or graph file, or ``nodes`` and ``edges`` tables (and ``graph.yaml``) side by side.
        folder: where uploads are kept; identical files are kept once.
    """
    _refuse_large(files)
    if not files:
        raise BadInput("nothing was uploaded", code="E-EMPTY", expected=FORMATS + ", or such a folder as a .zip")
    digest = hashlib.sha256()
    for file in sorted(files, key=lambda one: one.name):
        name = file.name.encode("utf-8", "surrogatepass")
        digest.update(len(name).to_bytes(8, "little") + name + len(file.content).to_bytes(8, "little") + file.content)
    home = folder / digest.hexdigest()[:16]
    if (kept := _kept(home)) is not None:
        return kept
    _refuse_beyond_quota(folder, sum(len(file.content) for file in files))
    try:
        target = _store(files, home)
        _refuse_beyond_quota(folder, 0)  # an archive has become larger
        check_readable(target)  # unreadable files are reported now and not kept
        storage.write_json(home / _CHECKED, {"path": target.name})
    except GraphsdeError:
        shutil.rmtree(home, ignore_errors=True)
        raise
    return target


def _kept(home: Path) -> Path | None:
    """Where these same files are already stored, if they were read before."""
    try:
        target = home / Path(json.loads((home / _CHECKED).read_text(encoding="utf-8"))["path"]).name
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return target if target.exists() else None


def stored_bytes(folder: Path) -> int:
    """Disk space of all uploads below ``folder``."""
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file()) if folder.is_dir() else 0


def clear_uploads(folder: Path, in_use: Collection[str]) -> int:
    """Remove unused uploads.

    Args:
        folder: where uploads are kept.
        in_use: paths of graphs that runs use; their uploads stay.

    Returns:
        The bytes that were freed.
    """
    before = stored_bytes(folder)
    needed = {Path(one).resolve() for one in in_use}
    for home in folder.iterdir() if folder.is_dir() else ():
        if home.is_dir() and not any(home.resolve() in path.parents for path in needed):
            shutil.rmtree(home, ignore_errors=True)
    return before - stored_bytes(folder)


def _refuse_beyond_quota(folder: Path, more: int) -> None:
    taken = stored_bytes(folder)
    if taken + more > UPLOAD_QUOTA:
        raise StorageError(
            f"the uploads of this page would use {human_bytes(taken + more)}",
            code="E-UPLOAD-QUOTA",
            place=folder.name,
            found=human_bytes(taken),
            expected=f"at most {human_bytes(UPLOAD_QUOTA)}",
            fix="clear old uploads, or remove unneeded runs and then clear",
        )


def _store(files: Sequence[Upload], home: Path) -> Path:
    names = {file.name.lower(): file for file in files}
    suffix = Path(files[0].name).suffix.lower()
    if len(files) == 1 and suffix in SINGLE:
        target = home / (_stem(files[0].name) + suffix)
        storage.write_bytes(target, files[0].content)
    elif len(files) == 1 and suffix == ".zip":
        target = home / _stem(files[0].name)
        unpack_tables(files[0].content, files[0].name, target)
    elif set(names) <= TABLE_FILES:
        target = home / "tables"
        for lower, file in names.items():
            storage.write_bytes(target / lower, file.content)
    else:
        raise _unknown(files)
    return target


def _refuse_large(files: Sequence[Upload]) -> None:
    size = sum(len(file.content) for file in files)
    if size > UPLOAD_BYTES:
        raise BadInput(
            f"the upload is {human_bytes(size)}",
            code="E-BOMB",
            found=human_bytes(size),
            expected=f"at most {UPLOAD_MEGABYTES} MB",
            fix="fit larger graphs from the command line: graphsde fit FOLDER --out RUN; the page shows the run",
        )


def _stem(name: str) -> str:
    """The safe part of a visitor's file name."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", Path(name).stem).strip("-")[:40] or "graph"


def _unknown(files: Sequence[Upload]) -> BadInput:
    first = shorten(files[0].name, 80)
    if Path(files[0].name).suffix.lower() in PICKLED:
        return BadInput(
            f"{first} is a pickle, which could run arbitrary code when opened; it was not opened",
            code="E-PICKLE",
            expected=FORMATS,
        )
    given = ", ".join(shorten(file.name, 40) for file in files[:5])
    return BadInput(
        f"{given} can't be read as a graph",
        code="E-FORMAT",
        expected="nodes.csv and edges.csv together (or .parquet), the two in a .zip, an .npz or a .graphml file",
    )
