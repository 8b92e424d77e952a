"""The journal: what was acknowledged is read back, whatever has happened to the file since."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import numpy as np
import pytest
from bench_support import some_records

from graphsde.base.errors import StorageError
from graphsde.bench import journal as journal_module
from graphsde.bench.journal import Journal, Record, decode, encode, parse

RECORDS = some_records(100)
LINES = [encode(record) for record in RECORDS]
WHOLE = b"".join(LINES)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same lines are decoded over and over, and this disk need not be real: both only cost time."""
    known = {line[:-1]: record for record, line in zip(RECORDS, LINES, strict=True)}
    monkeypatch.setattr(journal_module, "decode", lambda line: known.get(line) or decode(line))
    monkeypatch.setattr(os, "fsync", lambda handle: None)


def appended(folder: Path, record: Record, said: list[str] | None = None) -> None:
    with Journal(folder).appending((said if said is not None else []).append) as journal:
        journal.append(record)


def test_a_record_is_one_line_of_json_and_comes_back_as_it_was() -> None:
    for record, line in zip(RECORDS, LINES, strict=True):
        assert line.count(b"\n") == 1 and line.endswith(b"\n")
        assert json.loads(line)["record"] == record == decode(line[:-1])


def test_records_are_appended_and_the_last_one_of_a_cell_counts(tmp_path: Path) -> None:
    first, second = RECORDS[3], {**RECORDS[3], "status": "done", "cause": None}
    for record in (first, RECORDS[4], second):
        appended(tmp_path, record)  # type: ignore[arg-type]
    contents = Journal(tmp_path).read()
    assert contents.records == [first, RECORDS[4], second] and not contents.warnings
    assert contents.latest[first["id"]] == second


def test_a_folder_without_a_journal_has_no_records(tmp_path: Path) -> None:
    assert Journal(tmp_path).read().records == []


def test_what_is_interrupted_before_its_first_record_leaves_no_journal(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    with pytest.raises(KeyboardInterrupt), journal.appending():
        raise KeyboardInterrupt
    assert not journal.path.exists()
    appended(tmp_path, RECORDS[0])
    with pytest.raises(KeyboardInterrupt), journal.appending():
        raise KeyboardInterrupt
    assert journal.read().records == [RECORDS[0]]


def test_cut_at_every_byte_every_whole_record_is_read(quick: None) -> None:
    starts = np.cumsum([0, *map(len, LINES)])
    for cut in range(len(WHOLE) + 1):
        contents = parse(WHOLE[:cut])
        # a record is whole with its last brace; the line break is only for its neighbour
        whole = int(np.searchsorted(starts[1:] - 1, cut, side="right"))
        assert contents.records == RECORDS[:whole] and not contents.damaged
        assert bool(contents.torn) == (cut not in (starts[whole], starts[whole] - 1))


def test_cut_at_every_byte_of_a_record_appending_works_afterwards(tmp_path: Path, quick: None) -> None:
    path, before = tmp_path / "journal.jsonl", b"".join(LINES[:3])
    for cut in range(len(LINES[3]) + 1):
        path.write_bytes(before + LINES[3][:cut])
        said: list[str] = []
        appended(tmp_path, RECORDS[5], said)
        kept = LINES[3] if cut >= len(LINES[3]) - 1 else b""
        assert path.read_bytes() == before + kept + LINES[5]
        assert bool(said) == (0 < cut < len(LINES[3]) - 1)


def test_a_flipped_bit_is_detected_and_the_rest_is_readable(quick: None) -> None:
    rng = np.random.default_rng(0)
    starts = np.cumsum([0, *map(len, LINES)])
    positions = rng.integers(len(WHOLE), size=990).tolist() + (starts[1:] - 1)[-10:].tolist()  # line breaks too
    for position in positions:
        flipped = bytearray(WHOLE)
        flipped[position] ^= 1 << int(rng.integers(8))
        contents = parse(bytes(flipped))
        hit = int(np.searchsorted(starts, position, side="right")) - 1
        assert contents.records == RECORDS[:hit] + RECORDS[hit + 1 :]
        assert contents.warnings


def test_every_bit_of_a_line_matters() -> None:
    line = LINES[0][:-1]
    for position in range(len(line)):
        for bit in range(8):
            flipped = bytearray(line)
            flipped[position] ^= 1 << bit
            assert decode(bytes(flipped)) is None


def test_damaged_lines_are_set_aside_before_they_leave_the_journal(tmp_path: Path) -> None:
    bad = LINES[1].replace(b"1e+300", b"2e+300")
    assert bad != LINES[1]
    (tmp_path / "journal.jsonl").write_bytes(LINES[0] + bad + LINES[2] + LINES[3][:20])
    said: list[str] = []
    appended(tmp_path, RECORDS[4], said)
    assert (tmp_path / "journal.jsonl").read_bytes() == LINES[0] + LINES[2] + LINES[4]
    aside = [json.loads(line) for line in (tmp_path / "journal.damaged.jsonl").read_text().splitlines()]
    assert [entry["content"].encode("latin-1") for entry in aside] == [bad[:-1], LINES[3][:20]]
    assert "line 2" in said[0] and "cut short" in said[1] and "journal.damaged.jsonl" in said[0]
    (tmp_path / "journal.jsonl").write_bytes(LINES[0] + b"\xff\xfe\n")
    appended(tmp_path, RECORDS[5])
    assert len((tmp_path / "journal.damaged.jsonl").read_text().splitlines()) == 3


@pytest.mark.parametrize(
    "text",
    [
        b"", b"\n\n", b"{}\n", b"null\n", b"[" * 100_000 + b"\n", b'{"check":"","record":{"id":NaN}}\n',
        b'{"check":"' * 1000, b"\x00" * 50,
    ],
)  # fmt: skip
def test_anything_can_be_read(text: bytes) -> None:
    contents = parse(LINES[0] + text)
    assert contents.records == RECORDS[:1]


def test_a_right_checksum_on_something_else_is_no_record() -> None:
    assert decode(encode({"id": "x"})[:-1]) is None  # type: ignore[typeddict-item]
    assert decode(encode({**RECORDS[0], "cell": {"model": "gcn"}})[:-1]) is None
    assert decode(encode({**RECORDS[0], "status": "perhaps"})[:-1]) is None


@pytest.mark.parametrize("name", ["write", "fsync"])
def test_a_failed_append_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    real = os.write

    def fails(handle: int, *content: bytes) -> int:
        if name == "write":
            real(handle, content[0][:7])  # the disk takes a little before it is full
        raise OSError(errno.ENOSPC, "No space left on device")

    with Journal(tmp_path).appending() as journal:
        journal.append(RECORDS[0])
        with monkeypatch.context() as patch:
            patch.setattr(os, name, fails)
            with pytest.raises(StorageError, match=r"journal\.jsonl"):
                journal.append(RECORDS[1])
        assert (tmp_path / "journal.jsonl").read_bytes() == LINES[0]
        journal.append(RECORDS[2])
    assert (tmp_path / "journal.jsonl").read_bytes() == LINES[0] + LINES[2]


def test_a_record_is_synced_before_it_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []
    real_write, real_sync = os.write, os.fsync
    monkeypatch.setattr(os, "write", lambda handle, content: (events.append("write"), real_write(handle, content))[1])
    monkeypatch.setattr(os, "fsync", lambda handle: (events.append("sync"), real_sync(handle))[1])
    with Journal(tmp_path).appending() as journal:
        events.clear()
        journal.append(RECORDS[0])
        assert events == ["write", "sync"] and RECORDS[0]["id"] in journal.latest


def test_a_disk_that_takes_few_bytes_at_a_time_gets_them_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write
    monkeypatch.setattr(os, "write", lambda handle, content: real(handle, content[:100]))
    appended(tmp_path, RECORDS[0])
    assert Journal(tmp_path).read().records == RECORDS[:1]
