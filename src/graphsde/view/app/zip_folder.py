"""A folder of tables that came as a zip: only the tables leave it, and never more than it may hold."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from graphsde import storage
from graphsde.data.formats.bombs import refuse_bomb
from graphsde.data.formats.zip_arrays import MOST_MEMBERS, ZIP_ERRORS
from graphsde.errors import BadInput, shorten

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
