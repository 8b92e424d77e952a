"""Files that a visitor gives: kept under their hash, so that a run can find its graph again."""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from graphsde import storage
from graphsde.data.formats import FORMATS, PICKLED, read
from graphsde.errors import BadInput, GraphsdeError, shorten
from graphsde.memory import human_bytes
from graphsde.view.app.limits import UPLOAD_BYTES, UPLOAD_MEGABYTES
from graphsde.view.app.zip_folder import TABLE_FILES, unpack_tables

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
