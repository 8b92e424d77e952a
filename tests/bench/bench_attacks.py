"""Attacks on a running bench, for every engine alike."""

from __future__ import annotations

import errno
import os
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from bench_support import CommandLine, bench, ended, lines, table, wait_until, written
from faulty_disk import FaultyDisk

from graphsde.base.errors import GraphsdeError
from graphsde.base.lock import exclusive

SIGNALS = [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]


def words(graph: Path, out: Path, *more: object, engine: str = "processes", seeds: object = 25) -> list[object]:
    start = ["bench", "tiny", "--datasets", graph, "--models", "label-propagation,mlp", "--seeds", seeds]
    return [*start, "--engine", engine, "--out", out, *more]


def kill_and_resume(
    graph: Path, folder: Path, run: CommandLine, engine: list[object], kills: int, seeds: int, seed: int = 0
) -> None:
    """Kill −9 at random times after a first finished cell; then let it end, and compare with an undisturbed run."""
    rng = np.random.default_rng(seed)
    out, log, gate = folder / "out", folder / "log", folder / "gate"
    command = [*words(graph, out, *gated(gate, seeds), seeds=seeds), *engine]
    share = 2 * seeds // (kills + 1)
    for _ in range(kills):
        target = min(lines(out) + int(rng.integers(1, max(2, share))), 2 * seeds - 2)
        process = run.start(*command, log=log)
        wait_until(
            lambda target=target, process=process: (
                (lines(out) >= target and ("--address" in engine or workers_of(process))) or not process.is_alive()
            ),
            "cells",
        )
        time.sleep(float(rng.random()) * 0.02)
        assert process.is_alive(), log.read_text()
        acknowledged = (out / "journal.jsonl").read_bytes().rpartition(b"\n")[0]
        process.kill()
        assert ended(process) == -signal.SIGKILL
        assert (out / "journal.jsonl").read_bytes().startswith(acknowledged)
        wait_until(lambda process=process: not workers_of(process), "workers end with their runner")
    gate.unlink()
    code, said = run.run(*command, log=log)
    assert code == 0, said
    assert len({record["id"] for record in written(out)}) == len(written(out)) == 2 * seeds
    bench(graph, folder / "undisturbed", seeds=tuple(range(seeds)), options={"gate": str(gate), "last": seeds - 1})
    assert table(out) == table(folder / "undisturbed")


def gated(gate: Path, seeds: int) -> list[object]:
    """Options of a bench that can't end before it is attacked, however slow the attacker is."""
    gate.touch()
    return ["--option", f"gate={gate}", "--option", f"last={seeds - 1}"]


def workers_of(process: Any) -> list[int]:
    found = []
    for other in psutil.process_iter(["pid", "cmdline"]):
        if (other.info["cmdline"] or [])[-2:] == ["graphsde.bench.worker", str(process.pid)]:
            found.append(other.info["pid"])
    return found


def interrupted(
    graph: Path, folder: Path, run: CommandLine, engine: list[object], number: signal.Signals, code: int
) -> None:
    out, log = folder / "out", folder / "log"
    command = [*words(graph, out, *gated(folder / "gate", 25)), *engine]
    process = run.start(*command, log=log)
    wait_until(lambda: lines(out) >= 2 or not process.is_alive(), "two cells")
    assert process.pid is not None and process.is_alive(), log.read_text()
    os.kill(process.pid, number)
    assert ended(process) == code, log.read_text()
    said = " ".join(log.read_text().split())
    assert f"interrupted by {number.name}" in said and "same command again" in said and str(out) in said
    assert "Traceback" not in said
    assert (out / "journal.jsonl").read_bytes().endswith(b"\n") and len(written(out)) >= 2
    with exclusive(out):
        pass


def survives_failing_disks(graph: Path, folder: Path, whole: Path, **engine: Any) -> None:
    """A write, a sync and a rename that fail while another process computes: told, and gone on with later."""
    for place, (operation, number, code) in enumerate(
        [("write", 5, errno.ENOSPC), ("fsync", 3, errno.EIO), ("replace", 1, errno.EACCES)]
    ):
        out = folder / str(place)
        with pytest.MonkeyPatch.context() as patch:
            disk = FaultyDisk(patch, out, operation, number, code)
            with pytest.raises(GraphsdeError, match="E-IO") as caught:
                bench(graph, out, **engine)
        assert disk.calls >= number and caught.value.exit_code == 74 and str(out) in str(caught.value)
        bench(graph, out)  # here: what is missing is in the journal alone, and a worker takes seconds to start
        assert table(out) == table(whole)
        assert len({record["id"] for record in written(out)}) == len(written(out)) == 6
