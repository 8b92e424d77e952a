"""Files that a visitor gives, zipped folders too: kept under their hash, so that a run can find its graph again."""

from __future__ import annotations

import hashlib
import io
import re
import shutil
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from graphsde.base import storage
from graphsde.base.errors import BadInput, GraphsdeError, shorten
from graphsde.base.memory import human_bytes
from graphsde.io.opening import refuse_bomb
from graphsde.io.read import FORMATS, PICKLED, read
from graphsde.io.zip_directory import MOST_MEMBERS, ZIP_ERRORS
from graphsde.view.app.words import UPLOAD_BYTES, UPLOAD_MEGABYTES

TABLE_FILES = frozenset({"nodes.csv", "nodes.parquet", "edges.csv", "edges.parquet", "graph.yaml"})
_HARMLESS_CONTENT = 1_000_000
_PIECE = 1 << 20


def unpack_tables(content: bytes, name: str, target: Path) -> None:
    """Write the tables of a zip into ``target``.

    They may lie at the top or together in one folder. Names that lead elsewhere, links, twins and archives within the
    archive are refused; other files stay where they are. What a member unpacks to is counted while it is unpacked,
    since the size that it announces is the sender's word.
    """
    label = Path(shorten(name, 80))
    with _corrupt(label):
        archive = zipfile.ZipFile(io.BytesIO(content))
        members = archive.infolist()
    if len(members) > MOST_MEMBERS:
        raise BadInput(f"{label} has {len(members):,} members", code="E-BOMB", expected=f"at most {MOST_MEMBERS:,}")
    refuse_bomb(
        label,
        declared=sum(member.file_size for member in members),
        compressed=len(content),
        moderate=_HARMLESS_CONTENT,
    )
    for file, member in _tables(members, label).items():
        with storage.writing(target / file) as stream, _corrupt(label):
            _copy(archive, member, stream, label, len(content))


def _tables(members: list[zipfile.ZipInfo], label: Path) -> dict[str, zipfile.ZipInfo]:
    found: dict[str, zipfile.ZipInfo] = {}
    for member in members:
        _refuse_ways_out(member, label)
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


def _refuse_ways_out(member: zipfile.ZipInfo, label: Path) -> None:
    name = member.filename
    linked = (member.external_attr >> 28) == 0xA
    if ".." in name.replace("\\", "/").split("/") or name.startswith(("/", "\\")) or ":" in name or linked:
        raise BadInput(
            f"a member of {label} leads out of the archive",
            code="E-PATH",
            found=name,
            expected="plain names",
            fix="pack the folder again",
        )
    if member.flag_bits & 0x1:
        raise BadInput(f"{label} is encrypted", code="E-CORRUPT", fix="pack the folder again without a password")


def _copy(
    archive: zipfile.ZipFile, member: zipfile.ZipInfo, stream: io.IOBase | object, label: Path, size: int
) -> None:
    done = 0
    with archive.open(member) as source:
        while piece := source.read(_PIECE):
            done += len(piece)
            if done > member.file_size:
                refuse_bomb(label, declared=max(done, 2**62), compressed=size)
            stream.write(piece)  # type: ignore[union-attr]


@contextmanager
def _corrupt(label: Path) -> Iterator[None]:
    try:
        yield
    except ZIP_ERRORS as error:
        raise BadInput(
            f"{label} is no whole zip file: {shorten(str(error), 120)}",
            code="E-CORRUPT",
            expected="a folder packed by an ordinary program",
            fix="pack or upload it again",
        ) from None


ACCEPTED = ("zip", "npz", "graphml", "xml", "csv", "parquet", "yaml")
SINGLE = (".npz", ".graphml", ".xml")


@dataclass(frozen=True)
class Upload:
    """One file as it came in; its name is the visitor's and not to be trusted."""

    name: str
    content: bytes


def keep_upload(files: Sequence[Upload], folder: Path) -> Path:
    """Store what was uploaded below ``folder`` and give the path under which it is read as a graph.

    Args:
        files: one archive or graph file, or ``nodes`` and ``edges`` tables (and ``graph.yaml``) side by side.
        folder: where uploads are kept; the same files are kept once.
    """
    _refuse_large(files)
    if not files:
        raise BadInput("nothing was uploaded", code="E-EMPTY", expected=FORMATS + ", or such a folder as a .zip")
    digest = hashlib.sha256()
    for file in sorted(files, key=lambda one: one.name):
        name = file.name.encode("utf-8", "surrogatepass")
        digest.update(len(name).to_bytes(8, "little") + name + len(file.content).to_bytes(8, "little") + file.content)
    home = folder / digest.hexdigest()[:16]
    try:
        target = _store(files, home)
        read(target)  # whoever can't be read is told so now and not kept
    except GraphsdeError:
        shutil.rmtree(home, ignore_errors=True)
        raise
    return target


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
            f"the upload has {human_bytes(size)}",
            code="E-BOMB",
            found=human_bytes(size),
            expected=f"at most {UPLOAD_MEGABYTES} MB",
            fix="fit larger graphs from the command line: graphsde fit FOLDER --out RUN; the page shows the run",
        )


def _stem(name: str) -> str:
    """What is harmless of a visitor's file name."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", Path(name).stem).strip("-")[:40] or "graph"


def _unknown(files: Sequence[Upload]) -> BadInput:
    first = shorten(files[0].name, 80)
    if Path(files[0].name).suffix.lower() in PICKLED:
        return BadInput(
            f"{first} is a pickle, which could run any program when it is opened; it was not opened",
            code="E-PICKLE",
            expected=FORMATS,
        )
    given = ", ".join(shorten(file.name, 40) for file in files[:5])
    return BadInput(
        f"{given} can't be read as a graph",
        code="E-FORMAT",
        expected="nodes.csv and edges.csv together (or .parquet), the two in a .zip, an .npz or a .graphml file",
    )
