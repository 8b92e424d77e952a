"""The only truth of a bench: an append-only file of checksummed lines, synced before a cell counts as done."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from graphsde import storage
from graphsde.runs.record import PREFIX, Record, decode, encode


@dataclass(frozen=True)
class Damage:
    """A line that is not what was written."""

    line: int
    content: bytes


@dataclass(frozen=True)
class JournalContents:
    """A journal as it was found.

    Args:
        records: in the order in which cells finished; of several with one id the last one counts.
        damaged: lines with a wrong checksum.
        torn: what stands behind the last line break, if it is no whole record.
        unterminated: the last record is whole, but its line break is missing.
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
    """``journal.jsonl`` in a folder. Reading needs no lock; :meth:`appending` is only for who holds the folder's."""

    def __init__(self, folder: str | Path) -> None:
        self.path = Path(folder) / "journal.jsonl"
        self.damaged_path = Path(folder) / "journal.damaged.jsonl"

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
            handle = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise storage.io_error("write", self.path, error) from error
        try:
            if new:
                storage.sync_folder(self.path.parent)
            yield Appender(self.path, handle, contents.latest)
        finally:
            os.close(handle)

    def _repair(self, contents: JournalContents) -> None:
        """Nothing is thrown away: bad lines are in the other file before they leave this one."""
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
        """On return the record is on disk; on failure the file is as it was."""
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
    """A lost line break joins two records; the second one begins as every record does."""
    starts = [0]
    while (found := line.find(PREFIX, starts[-1] + 1)) >= 0:
        starts.append(found)
    return [line[start:stop] for start, stop in zip(starts, [*starts[1:], len(line)], strict=True)]
