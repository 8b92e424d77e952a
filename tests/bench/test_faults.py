"""Long runs under attack: kills, full disks, signals, rivals. Nothing acknowledged is lost, nothing is done twice."""

from __future__ import annotations

import errno
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from bench_attacks import SIGNALS, interrupted, kill_and_resume, survives_failing_disks, words, workers_of
from bench_support import CommandLine, attempts, bench, table, wait_until, written
from faulty_disk import FaultyDisk
from typer.testing import CliRunner

from graphsde.base.errors import BadUsage
from graphsde.base.lock import exclusive, refuse_if_held
from graphsde.cli.app import app


def test_killed_five_times_over_fifty_cells(graph_folder: Path, tmp_path: Path, command_line: CommandLine) -> None:
    kill_and_resume(graph_folder, tmp_path, command_line, ["--workers", 1], kills=5, seeds=25)


def test_a_worker_in_the_middle_of_a_cell_ends_with_its_runner(
    graph_folder: Path, tmp_path: Path, command_line: CommandLine
) -> None:
    command = ["bench", "trouble", "--datasets", graph_folder, "--models", "mlp", "--seeds", "6,", "--workers", 1]
    command += ["--option", f"folder={tmp_path}", "--out", tmp_path / "out"]
    process = command_line.start(*command, log=tmp_path / "log")
    wait_until(lambda: attempts(tmp_path, 6) == 1, "the cell that hangs")
    assert len(workers_of(process)) == 1
    process.kill()
    wait_until(lambda: not workers_of(process), "the worker ends")


@pytest.mark.slow
def test_killed_fifty_times_over_five_hundred_cells(
    graph_folder: Path, tmp_path: Path, command_line: CommandLine
) -> None:
    kill_and_resume(graph_folder, tmp_path, command_line, ["--workers", 2], kills=50, seeds=250, seed=1)


# how many calls there are below the folder of a bench: a fresh one of six cells, and one that begins with a repair
CALLS = {
    (False, "write"): 8, (False, "fsync"): 7, (False, "replace"): 1,
    (True, "write"): 6, (True, "fsync"): 5, (True, "replace"): 2,
}  # fmt: skip
POINTS = [
    (repair, operation, number, code)
    for (repair, operation), count in CALLS.items()
    for number in range(1, count + 1)
    for code in (errno.ENOSPC, errno.EIO, errno.EACCES)
]


@pytest.fixture(scope="module")
def whole(graph_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("whole")
    bench(graph_folder, out)
    return out


@pytest.mark.parametrize("repair", [False, True], ids=["fresh", "repair"])
def test_a_failing_disk_is_exit_code_74_and_resuming_completes(
    graph_folder: Path, tmp_path: Path, whole: Path, plugins: None, repair: bool
) -> None:
    points = [point[1:] for point in POINTS if point[0] == repair]
    for place, (operation, number, code) in enumerate(points):
        out = tmp_path / str(place)
        if repair:
            # four records, the second damaged, the last cut short
            first, second, third, fourth = (whole / "journal.jsonl").read_bytes().splitlines(keepends=True)[:4]
            out.mkdir()
            (out / "journal.jsonl").write_bytes(first + second.replace(b"1", b"2", 1) + third + fourth[:50])
            (out / "bench.json").write_bytes((whole / "bench.json").read_bytes())
        old = {path.name: path.read_bytes() for path in out.glob("*.json*")}
        arguments = [str(word) for word in words(graph_folder, out, engine="serial", seeds=3)]
        with pytest.MonkeyPatch.context() as patch:
            disk = FaultyDisk(patch, out, operation, number, code)
            result = CliRunner().invoke(app, arguments)
        assert disk.calls >= number, f"there is no {operation} number {number}"
        assert result.exit_code == 74, result.output
        assert "E-IO" in result.stderr and str(out) in result.stderr and os.strerror(code) in result.stderr
        for name, content in old.items():
            now = (out / name).read_bytes()
            assert now.startswith(content) or (name == "journal.jsonl" and repair and now.startswith(first + third))
        assert not list(out.glob(".*.part"))
        again = CliRunner().invoke(app, arguments)
        assert again.exit_code == 0, again.output
        assert table(out) == table(whole)
        assert len({record["id"] for record in written(out)}) == len(written(out)) == 6


def test_a_failing_disk_while_workers_compute(graph_folder: Path, tmp_path: Path, whole: Path, plugins: None) -> None:
    survives_failing_disks(graph_folder, tmp_path, whole, engine="processes", workers=1)


@pytest.mark.parametrize(("number", "code"), SIGNALS)
@pytest.mark.parametrize("engine", ["serial", "processes"])
def test_a_signal_ends_a_bench_with_its_code_and_a_way_to_go_on(
    graph_folder: Path, tmp_path: Path, command_line: CommandLine, engine: str, number: signal.Signals, code: int
) -> None:
    interrupted(graph_folder, tmp_path, command_line, ["--engine", engine, "--workers", 1], number, code)


@pytest.fixture
def rival(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the lock."""
    code = (
        "import sys, time; from pathlib import Path; from graphsde.base.lock import exclusive\n"
        "with exclusive(Path(sys.argv[1])): print('held', flush=True); time.sleep(600)"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "out")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_second_runner_is_refused_with_the_name_of_the_first(
    graph_folder: Path, tmp_path: Path, rival: subprocess.Popen[str], plugins: None
) -> None:
    for engine in ("serial", "processes", "ray"):
        result = CliRunner().invoke(app, [str(word) for word in words(graph_folder, tmp_path / "out", engine=engine)])
        assert result.exit_code == 2 and f"E-LOCKED: process {rival.pid} is already writing to" in result.stderr
    with pytest.raises(BadUsage, match=f"process {rival.pid} "):
        bench(graph_folder, tmp_path / "out")
    assert not (tmp_path / "out" / "journal.jsonl").exists()


def test_the_second_runner_needs_no_torch_to_be_refused(
    graph_folder: Path, tmp_path: Path, rival: subprocess.Popen[str], plugins: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GRAPHSDE_PLUGINS")
    command = [sys.executable, "-X", "importtime", "-m", "graphsde", *map(str, words(graph_folder, tmp_path / "out"))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and f"process {rival.pid} is already writing to" in done.stderr
    assert not re.search(r"\| +torch$", done.stderr, re.MULTILINE)


def test_the_lock_of_a_dead_process_is_taken_over(
    graph_folder: Path, tmp_path: Path, rival: subprocess.Popen[str]
) -> None:
    rival.kill()
    rival.wait()
    assert (tmp_path / "out" / ".lock").read_text() == str(rival.pid)
    assert bench(graph_folder, tmp_path / "out").done == 6


@pytest.mark.parametrize("content", ["", "1", "rubbish\x1b[31m", "own"])
def test_what_a_lock_file_says_locks_nothing(graph_folder: Path, tmp_path: Path, content: str) -> None:
    (tmp_path / ".lock").write_text(str(os.getpid()) if content == "own" else content)
    refuse_if_held(tmp_path)
    assert bench(graph_folder, tmp_path).done == 6


def test_reading_needs_no_lock(graph_folder: Path, tmp_path: Path) -> None:
    bench(graph_folder, tmp_path)
    with exclusive(tmp_path):
        assert len(table(tmp_path)) == 8
