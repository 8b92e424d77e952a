"""The journal of a bench: an append-only file of checksummed lines, each the record of a cell's outcome."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, TypedDict, cast

from graphsde.base import storage
from graphsde.base.renames import current
from graphsde.bench.cells import Cell, canonical

Status = Literal["done", "failed"]


@dataclass(frozen=True)
class Outcome:
    """The outcome of a cell.

    Args:
        status: ``done``, or finally ``failed``.
        cause: of a failure: ``time`` (CPU limit), ``memory``, ``killed``, ``hung`` (no answer), or ``error: …``.
        attempts: how often it was started; more than one only if a worker was lost.
        metrics: by name, ``None`` if undefined.
        curves: short series by name.
        seconds: ``cpu`` and ``wall``, without reading the graph.
    """

    status: Status
    cause: str | None = None
    attempts: int = 1
    metrics: dict[str, float | None] = field(default_factory=dict)
    curves: dict[str, list[float | None]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    @classmethod
    def failed(cls, cause: str, attempts: int = 1, seconds: dict[str, float] | None = None) -> Outcome:
        return cls("failed", cause, attempts, seconds=seconds or {})

    @property
    def kind(self) -> str:
        """The cause without its details, to count by."""
        return (self.cause or "").partition(":")[0]

    @property
    def interrupted_work(self) -> bool:
        """Whether the cell was cut off in the middle, so that its process may be in any state."""
        return self.kind == "time"

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


# how every line starts; used to find the next record if a line break was lost
PREFIX = b'{"check":"'


class Record(TypedDict):
    """A finished cell. ``engine`` and ``environment`` are only noted: they are not part of the cell's identity."""

    id: str
    address: str
    cell: dict[str, Any]
    status: str
    cause: str | None
    attempts: int
    metrics: dict[str, float | None]
    curves: dict[str, list[float | None]]
    seconds: dict[str, float]
    engine: str
    environment: dict[str, Any]


def make_record(cell: Cell, outcome: Outcome, engine: str, environment: dict[str, Any]) -> Record:
    asked = {"id": cell.id, "address": cell.address, "cell": cell.as_dict()}
    return cast(Record, {**asked, **outcome.as_dict(), "engine": engine, "environment": environment})


def encode(record: Record) -> bytes:
    """The record as one line in canonical JSON, the line break included."""
    check = hashlib.sha256(canonical(record).encode("ascii")).hexdigest()[:16]
    return canonical({"check": check, "record": record}).encode("ascii") + b"\n"


def decode(line: bytes) -> Record | None:
    """The record of a line without its line break; ``None`` if a single bit of it has changed.

    Comparing with the line that the record would give catches what a checksum of values can't: 1e5 for 1E5.
    """
    try:
        record = json.loads(line)["record"]
        if encode(record) != line + b"\n" or not _looks_right(record):
            return None
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    for figures in ("metrics", "curves"):
        record[figures] = {current("metric", name): value for name, value in record[figures].items()}
    return cast(Record, record)


def _looks_right(record: dict[str, Any]) -> bool:
    """Validate a line with a correct checksum that another program may have written."""
    if not set(Record.__required_keys__) <= set(record) or record["status"] not in ("done", "failed"):
        return False
    Cell(**record["cell"])
    return (
        isinstance(record["id"], str)
        and isinstance(record["address"], str)
        and all(isinstance(record[figures], dict) for figures in ("metrics", "curves"))
    )


@dataclass(frozen=True)
class Damage:
    """A damaged line."""

    line: int
    content: bytes


@dataclass(frozen=True)
class JournalContents:
    """A journal as read.

    Args:
        records: in the order in which cells finished; of several with one id the last one counts.
        damaged: lines with a wrong checksum.
        torn: what follows the last line break, if it is not a complete record.
        unterminated: the last record is complete, but its line break is missing.
    """

    records: list[Record]
    damaged: tuple[Damage, ...] = ()
    torn: bytes = b""
    unterminated: bool = False

    @property
    def latest(self) -> dict[str, Record]:
        """The record that counts of every cell, by id."""
        return {record["id"]: record for record in self.records}

    @property
    def warnings(self) -> list[str]:
        said = [f"line {damage.line} of the journal is damaged: its cell counts as not run" for damage in self.damaged]
        if self.torn:
            said.append("the last line of the journal was cut short: its cell counts as not run")
        return said


def parse(content: bytes) -> JournalContents:
    """Read what can be read; nothing in ``content`` makes this fail."""
    *lines, tail = content.split(b"\n")
    records: list[Record] = []
    damaged: list[Damage] = []
    for number, line in enumerate(lines, start=1):
        record = decode(line)
        if record is not None:
            records.append(record)
            continue
        for piece in _pieces(line):
            salvaged = decode(piece)
            if salvaged is None:
                damaged.append(Damage(number, piece))
            else:
                records.append(salvaged)
    last = decode(tail) if tail else None
    if last is not None:
        records.append(last)
    return JournalContents(records, tuple(damaged), b"" if last is not None else tail, unterminated=last is not None)


class Journal:
    """``journal.jsonl`` in a folder. Reading needs no lock; :meth:`appending` requires the folder's lock."""

    def __init__(self, folder: str | Path) -> None:
        self.path = Path(folder) / "journal.jsonl"
        self.damaged_path = Path(folder) / "journal.damaged.jsonl"
        self.former_path = Path(folder) / "journal.former.jsonl"

    def read(self) -> JournalContents:
        try:
            return parse(self.path.read_bytes())
        except FileNotFoundError:
            return JournalContents([])
        except OSError as error:
            raise storage.io_error("read", self.path, error) from error

    @contextlib.contextmanager
    def appending(self, say: Callable[[str], None] = lambda text: None) -> Iterator[Appender]:
        """Repair what an interruption or a bad disk left behind, then append."""
        contents = self.read()
        for sentence in contents.warnings:
            say(f"{sentence}; it is kept in {self.damaged_path.name}")
        if contents.damaged or contents.torn or contents.unterminated:
            self._repair(contents)
        try:
            new = not self.path.exists()
            binary = getattr(os, "O_BINARY", 0)  # Windows would write other line breaks than we count
            handle = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | binary, 0o644)
        except OSError as error:
            raise storage.io_error("write", self.path, error) from error
        try:
            if new:
                storage.sync_folder(self.path.parent)
            yield Appender(self.path, handle, contents.latest)
        finally:
            begun = os.fstat(handle).st_size > 0
            os.close(handle)
            if not begun:  # interrupted before its first record: as if it had not been started
                with contextlib.suppress(OSError):
                    self.path.unlink()

    def set_aside(self, which: Callable[[Record], bool]) -> int:
        """Move records into ``journal.former.jsonl``, and say how many; only for who holds the folder's lock."""
        records = self.read().records
        gone = [record for record in records if which(record)]
        if gone:
            before = self.former_path.read_bytes() if self.former_path.exists() else b""
            storage.write_bytes(self.former_path, before + b"".join(map(encode, gone)))
            storage.write_bytes(self.path, b"".join(encode(record) for record in records if record not in gone))
        return len(gone)

    def _repair(self, contents: JournalContents) -> None:
        """Nothing is lost: bad lines are written to the other file before they leave this one."""
        aside = [*contents.damaged]
        if contents.torn:
            aside.append(Damage(0, contents.torn))
        if aside:
            # latin-1 gives every byte a character: what is damaged may not be text
            lines = [json.dumps({"line": d.line, "content": d.content.decode("latin-1")}) + "\n" for d in aside]
            before = storage.read_text(self.damaged_path) if self.damaged_path.exists() else ""
            storage.write_text(self.damaged_path, before + "".join(lines))
        storage.write_bytes(self.path, b"".join(encode(record) for record in contents.records))


class Appender:
    """Appends records; ``latest`` holds the record that counts of every cell."""

    def __init__(self, path: Path, handle: int, latest: dict[str, Record]) -> None:
        self.path, self.latest = path, latest
        self._handle = handle
        self._size = os.fstat(handle).st_size

    def append(self, record: Record) -> None:
        """On return the record is on disk; on failure the file is unchanged."""
        line = encode(record)
        try:
            rest = line
            while rest:
                rest = rest[os.write(self._handle, rest) :]
            os.fsync(self._handle)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(self._handle, self._size)
            raise storage.io_error("write", self.path, error) from error
        self._size += len(line)
        self.latest[record["id"]] = record


def _pieces(line: bytes) -> list[bytes]:
    """A lost line break joins two records; the second one starts as every record does."""
    starts = [0]
    while (found := line.find(PREFIX, starts[-1] + 1)) >= 0:
        starts.append(found)
    return [line[start:stop] for start, stop in zip(starts, [*starts[1:], len(line)], strict=True)]
