"""The attacker's own tools: every change of a file is a numbered call, and the chosen one is disturbed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from reliability.__main__ import PREPARING, carry_out, judged
from reliability.arena import Case, Verdict
from reliability.journal import KEPT, ROOT, Journal, Line
from reliability.scenarios import Course, Scenario, complaint, observe_run
from reliability.warm import Ended

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="handles are named by /proc")

# writes, syncs, renames, links, removes: by os, by open, by pathlib, by shutil
WORK = """
import json, os, pathlib, shutil, sys
from reliability.disk import Disk, Disturbance
folder = pathlib.Path(sys.argv[1])
disk = Disk(str(folder), Disturbance(int(sys.argv[2]), sys.argv[3], 28) if len(sys.argv) > 2 else None)
disk.install()
(folder / "a").mkdir()
with open(folder / "a" / "one", "wb") as stream:
    stream.write(b"12345678")
    stream.flush()
    os.fsync(stream.fileno())
os.replace(folder / "a" / "one", folder / "a" / "two")
os.link(folder / "a" / "two", folder / "three")
(folder / "text").write_text("words")
handle = os.open(folder / "four", os.O_WRONLY | os.O_CREAT)
os.write(handle, b"abcd")
os.ftruncate(handle, 2)
os.close(handle)
shutil.rmtree(folder / "a")
(folder / "three").unlink()
open(folder.parent / "elsewhere", "w").close()
print(json.dumps([[(c.operation, c.path) for c in disk.calls], len(disk.missed)]))
"""
CALLS = [
    ["mkdir", "a"], ["open", "a/one"], ["write", "a/one"], ["fsync", "a/one"], ["rename", "a/two"], ["link", "three"],
    ["open", "text"], ["write", "text"], ["open", "four"], ["write", "four"], ["truncate", "four"],
    ["unlink", "a/two"], ["rmdir", "a"], ["unlink", "three"],
]  # fmt: skip


def work(folder: Path, *plan: object) -> subprocess.CompletedProcess[str]:
    folder.mkdir()
    command = [sys.executable, "-c", WORK, str(folder), *map(str, plan)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_every_change_is_counted_in_order_and_none_elsewhere(tmp_path: Path) -> None:
    done = work(tmp_path / "work")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [CALLS, 0]


@pytest.mark.parametrize(
    ("number", "when", "content"),
    [(2, "before", b""), (2, "during", b"1234"), (2, "after", b"12345678"), (4, "before", b"12345678")],
)
def test_a_kill_comes_exactly_there(tmp_path: Path, number: int, when: str, content: bytes) -> None:
    done = work(tmp_path / "work", number, when)
    assert done.returncode == -9
    assert (tmp_path / "work" / "a" / "one").read_bytes() == content
    assert not (tmp_path / "work" / "a" / "two").exists()


def test_a_fault_is_one_call_and_a_full_disk_all_that_follow(tmp_path: Path) -> None:
    for when, content in (("fault", b"words"), ("full", b"")):  # Python writes once more when it closes a file
        done = work(tmp_path / when, 7, when)
        assert done.returncode == 1 and "[Errno 28]" in done.stderr and f"{when}/text" in done.stderr
        assert (tmp_path / when / "text").read_bytes() == content and (tmp_path / when / "three").exists()


def scenario(*, grows: bool = False) -> Scenario:
    return Scenario("any", (), (), observe_run, grows=grows)


def course(old: object, new: object) -> Course:
    return Course(old, new, Ended(0, "", "", 0.0, 0.0, 0.0))


def test_old_and_new_are_right_and_all_else_is_not() -> None:
    old, new = {"model": 1, "metrics": 1}, {"model": 2, "metrics": 2}
    assert complaint(scenario(), course(old, new), old) is None
    assert complaint(scenario(), course(old, new), new) is None
    assert "mixture" in (complaint(scenario(), course(old, new), {"model": 2, "metrics": 1}) or "")
    assert "gone" in (complaint(scenario(), course(old, new), {"nothing": True}) or "")
    assert "can't be used" in (complaint(scenario(), course(old, new), {"broken": "E-CORRUPT"}) or "")
    nothing = {"nothing": True}
    assert complaint(scenario(), course(nothing, new), nothing) is None
    assert "not the new one" in (complaint(scenario(), course(nothing, new), {"model": 2, "metrics": 3}) or "")


def test_parts_of_a_growing_result_are_right_in_their_order() -> None:
    new = {"parts": [1, 2, 3], "twice": 0}
    for parts, right in (([], True), ([1, 2], True), ([2], False), ([1, 1], False), ([1, 4], False)):
        found = complaint(scenario(grows=True), course({"nothing": True}, new), {"parts": parts, "twice": 0})
        assert (found is None) == right
    assert complaint(scenario(grows=True), course({"nothing": True}, new), {"parts": [1], "twice": 1}) is not None


def test_the_last_line_of_a_case_counts_and_a_torn_one_does_not(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "runs.jsonl")
    for outcome, commit in (("broken", "a"), (KEPT, "b")):
        journal.append(Line("kills", "one", outcome, 0.1, 1.0, "2026-01-01", commit))
    journal.append(Line("faults", "one", KEPT, 0.1, 1.0, "2026-01-01", "a"))
    with open(journal.path, "a") as stream:
        stream.write('{"attack": "kills", "ca')
    assert [(line.attack, line.outcome) for line in journal.lines()] == [("kills", KEPT), ("faults", KEPT)]
    journal.compact("b", ["faults"])
    assert [line.attack for line in journal.lines()] == ["kills"]


def test_a_verdict_without_complaints_is_kept() -> None:
    assert Verdict().outcome == KEPT and Verdict(["one", "two"]).outcome == "one; two"


def test_an_attack_that_failed_by_itself_is_no_verdict() -> None:
    def line(case: str, outcome: str) -> Line:
        return Line("kills", case, outcome, 0.0, 0.0, "2026-01-01", "a")

    def fails() -> Verdict:
        raise FileNotFoundError("scratch")

    failed = carry_out(Case("one", fails))
    assert judged(line("one", KEPT)) and judged(line("one", "a mixture"))
    assert not judged(line("one", failed.outcome)) and not judged(line(PREPARING, "FileNotFoundError"))
