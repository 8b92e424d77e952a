"""What the tests of benches share: requests, records, and a command line that can be killed cheaply."""

from __future__ import annotations

import dataclasses
import json
import multiprocessing
import os
import time
from collections.abc import Callable, Sequence
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

from bench_parts import Tiny

from graphsde.base.interrupt import Stopper
from graphsde.bench.cells import Cell, ModelSpec, plan_cells
from graphsde.bench.engines import ENGINES, Limits
from graphsde.bench.folder import BenchFolder
from graphsde.bench.journal import Outcome, Record, make_record
from graphsde.bench.run import BenchRequest, BenchSummary, run_bench
from graphsde.bench.table import TableRow, tabulate

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parents[1] / "src"
MODELS = (ModelSpec("label-propagation"), ModelSpec("mlp"))
# a busy machine is slow by any factor: nothing that works may come near a limit
PATIENT = Limits(cpu_seconds=600.0, wall_seconds=1800.0, start_seconds=1800.0)
# for cells that would never end
HURRIED = Limits(cpu_seconds=600.0, wall_seconds=1.0, start_seconds=1800.0)


def cells_of(graph: Path, seeds: Sequence[int], task: str = Tiny.name, **options: object) -> list[Cell]:
    return plan_cells(task, options, [str(graph)], MODELS[:1], seeds)


def outcomes(engine: str, cells: list[Cell], limits: Limits = PATIENT, workers: int = 2) -> dict[int, Outcome]:
    running = ENGINES.get(engine)(workers).run(cells, limits, stopper=Stopper(), say=lambda text: None)
    found = [(cell.seed, outcome) for cell, outcome in running]
    assert sorted(seed for seed, _ in found) == sorted(cell.seed for cell in cells)  # every cell once
    return dict(found)


def timeless(outcome: Outcome) -> dict[str, float | None]:
    """The metrics that don't tell how long something took."""
    return {name: value for name, value in outcome.metrics.items() if "seconds" not in name}


def tiny_request(graph: Path, **changes: Any) -> BenchRequest:
    request = BenchRequest(Tiny.name, (str(graph),), MODELS, (0, 1, 2), engine="serial", workers=2)
    return dataclasses.replace(request, **changes)


def bench(graph: Path, out: Path, said: list[str] | None = None, **changes: Any) -> BenchSummary:
    say: Callable[[str], None] = (said if said is not None else []).append
    return run_bench(tiny_request(graph, **changes), out, say=say)


def table(out: Path) -> list[TableRow]:
    question, contents = BenchFolder(out).read()
    return tabulate(contents.records, question["options"])


def some_records(count: int) -> list[Record]:
    """Records with everything that JSON could trip over."""
    records = []
    for seed in range(count):
        cell = Cell("tiny", {}, "ü\n", "gcn", {"lr": 1e-05}, seed, "f" * 8, {"task": 1, "model": 1})
        outcome = Outcome("done", metrics={"a": 0.1 * seed, "b": None, "c": 1e300}, seconds={"cpu": 0.5, "wall": 1.0})
        if seed % 7 == 3:
            outcome = Outcome.failed('error: "{\\', attempts=3)
        records.append(make_record(cell, outcome, "serial", {"python": "3"}))
    return records


class CommandLine:
    """``graphsde …`` in copies of a warm process: what a kill costs is the run, not the import of torch."""

    def __init__(self) -> None:
        os.environ["PYTHONPATH"] = os.pathsep.join(map(str, (SOURCE, HERE)))
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(["bench_parts", "graphsde.cli.app", "graphsde.bench.run"])

    def start(self, *words: object, log: Path) -> ForkServerProcess:
        process = self._context.Process(target=_run, args=([str(word) for word in words], dict(os.environ), str(log)))
        process.start()
        return process

    def run(self, *words: object, log: Path) -> tuple[int, str]:
        process = self.start(*words, log=log)
        return ended(process), log.read_text()


def _run(words: list[str], environment: dict[str, str], log: str) -> None:
    import sys

    from graphsde.cli.app import main

    os.environ.clear()
    os.environ.update(environment)
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(output, 1)
    os.dup2(output, 2)
    sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
    sys.argv = ["graphsde", *words]
    try:
        main()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


def ended(process: ForkServerProcess) -> int:
    process.join(600)
    assert process.exitcode is not None, "the run does not end"
    return process.exitcode


def lines(out: Path) -> int:
    """Whole lines in the journal: what has been acknowledged is never more."""
    path = out / "journal.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def wait_until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 600
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain: {what}"
        time.sleep(0.01)


def attempts(folder: Path, seed: int) -> int:
    path = folder / f"attempts-{seed}"
    return len(path.read_text().splitlines()) if path.exists() else 0


def written(out: Path) -> list[Record]:
    """The journal read by hand."""
    return [json.loads(line)["record"] for line in (out / "journal.jsonl").read_text().splitlines()]
