"""Engines: the same bits everywhere; lost workers cost an attempt; nothing leaks."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import psutil
import pytest
from bench_parts import Tiny
from bench_support import HURRIED, PATIENT, attempts, bench, cells_of, outcomes, timeless, wait_until

import graphsde as gs
from graphsde.base.errors import BadUsage, GraphsdeError, MissingExtra
from graphsde.base.interrupt import Interrupted, StopNow, Stopper
from graphsde.bench.cells import ModelSpec, plan_cells
from graphsde.bench.engines import Limits
from graphsde.bench.engines import base as capacity
from graphsde.bench.engines import local as worker_process
from graphsde.bench.engines.local import ProcessEngine, SerialEngine
from graphsde.bench.engines.ray_cluster import pack_graph, unpack_graph
from graphsde.bench.execute import CellTimeout, cpu_limit, run_cell

from support import block_graph


def test_serial_and_processes_agree_bit_by_bit_also_with_a_trained_model(graph_folder: Path, plugins: None) -> None:
    cells = cells_of(graph_folder, range(6))
    cells += plan_cells("misclassification", {}, [str(graph_folder)], [ModelSpec("gcn", {"epochs": 5})], [7])
    one, other = outcomes("serial", cells, Limits()), outcomes("processes", cells, Limits())
    for seed, outcome in one.items():
        assert timeless(other[seed]) == timeless(outcome)
        assert other[seed].curves == outcome.curves and other[seed].status == "done"


def test_trouble_stays_with_its_cell(graph_folder: Path, tmp_path: Path, plugins: None) -> None:
    """Killed (5 times), out of memory (3), out of time, broken: each has its cause, neighbours don't notice."""
    seeds = [*range(6), *range(7, 14)]
    cells = cells_of(graph_folder, seeds, "trouble", folder=str(tmp_path))
    found = outcomes("processes", cells)
    assert {seed: outcome.cause for seed, outcome in found.items() if outcome.status == "failed"} == {
        2: "killed",
        3: "memory",
        4: "memory",
        5: "memory",
        7: "time",
        8: "error: ZeroDivisionError: \\x1b[31mred",
        9: "error: E-DIVERGED: the state is not finite.",
    }
    assert {seed: found[seed].attempts for seed in (0, 1, 2, 3, 10, 11)} == {
        0: 2, 1: 2, 2: 3, 3: 1, 10: 2, 11: 1
    }  # fmt: skip
    assert {seed: attempts(tmp_path, seed) for seed in seeds} == {seed: found[seed].attempts for seed in seeds}
    untroubled = outcomes("serial", cells_of(graph_folder, seeds))
    for seed in (0, 1, 10, 11, 12, 13):
        assert found[seed].metrics == untroubled[seed].metrics
    assert found[7].seconds["cpu"] > 0


def test_a_cell_that_hangs_has_three_attempts(graph_folder: Path, tmp_path: Path, plugins: None) -> None:
    (found,) = outcomes("processes", cells_of(graph_folder, [6], "trouble", folder=str(tmp_path)), HURRIED).values()
    assert (found.cause, found.attempts) == ("hung", 3)


def test_the_limit_of_processor_time_reaches_the_cell(graph_folder: Path, tmp_path: Path, plugins: None) -> None:
    cells = cells_of(graph_folder, [14], "trouble", folder=str(tmp_path))
    limits = dataclasses.replace(PATIENT, cpu_seconds=0.2)
    for engine in ("serial", "processes"):
        assert outcomes(engine, cells, limits)[14].cause == "time"


def test_a_cell_out_of_time_takes_its_process_with_it(graph_folder: Path, tmp_path: Path, plugins: None) -> None:
    """Seed 7 spends its time; what it left half done must not meet the cell after it."""
    cells = cells_of(graph_folder, [12, 7, 13], "trouble", folder=str(tmp_path))
    found = outcomes("processes", cells, workers=1)
    assert [found[seed].cause for seed in (12, 7, 13)] == [None, "time", None]
    process = {seed: (tmp_path / f"attempts-{seed}").read_text() for seed in (12, 7, 13)}
    assert process[12] == process[7] != process[13]


def test_workers_have_one_thread_and_keep_freed_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    class Seen(Exception):
        pass

    def started(command: list[str], *, env: dict[str, str], **rest: object) -> None:
        raise Seen(env)

    def environment() -> dict[str, str]:
        with pytest.raises(Seen) as seen:
            worker_process.WorkerProcess(PATIENT)
        return dict(seen.value.args[0])

    monkeypatch.setattr(worker_process.subprocess, "Popen", started)
    monkeypatch.setenv("OMP_NUM_THREADS", "8")
    monkeypatch.delenv("MALLOC_TRIM_THRESHOLD_", raising=False)
    found = environment()
    assert found["OMP_NUM_THREADS"] == "1" and int(found["MALLOC_TRIM_THRESHOLD_"]) > 1 << 30
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "131072")
    assert environment()["MALLOC_TRIM_THRESHOLD_"] == "131072"


def test_time_is_not_up_in_the_middle_of_an_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "slow_module.py").write_text(
        "import time\nend = time.process_time() + 0.5\nwhile time.process_time() < end:\n    pass\nwhole = True\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(CellTimeout), cpu_limit(0.1):
        import slow_module

        while True:
            pass
    assert sys.modules["slow_module"] is slow_module and slow_module.whole


def test_time_that_was_up_in_the_middle_of_an_import_is_up_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "slow_last_module.py").write_text(
        "import time\nend = time.process_time() + 0.1\nwhile time.process_time() < end:\n    pass\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(CellTimeout), cpu_limit(0.02):
        import slow_last_module  # noqa: F401


def test_closing_the_engine_ends_its_workers(graph_folder: Path, plugins: None) -> None:
    before = {child.pid for child in psutil.Process().children()}
    running = ProcessEngine(1).run(cells_of(graph_folder, range(3)), PATIENT, stopper=Stopper(), say=lambda text: None)
    next(running)
    (worker,) = [child for child in psutil.Process().children() if child.pid not in before]
    running.close()
    assert not worker.is_running()


def test_workers_that_cannot_start_are_given_up(graph_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPHSDE_PLUGINS", "nowhere_at_all")
    monkeypatch.setattr("graphsde.bench.engines.base.MOST_FAILED_STARTS", 1)
    with pytest.raises(GraphsdeError, match="nowhere_at_all") as caught:
        outcomes("processes", cells_of(graph_folder, [0]))
    assert caught.value.code == "E-WORKER"


def test_a_death_by_the_systems_want_of_memory_is_told_from_a_kill(monkeypatch: pytest.MonkeyPatch) -> None:
    for kills, cause in (([3, 3], "killed"), ([3, 4], "memory")):
        counts = iter(kills)
        monkeypatch.setattr(worker_process, "oom_kills", lambda counts=counts: next(counts))
        worker = worker_process.WorkerProcess(Limits())
        worker.process.kill()
        assert worker.bury() == cause
    monkeypatch.undo()
    assert worker_process.oom_kills() >= 0


def test_processor_time_is_limited_in_the_main_thread_only() -> None:
    begin = time.process_time()
    with pytest.raises(CellTimeout), cpu_limit(0.2):
        while True:
            with contextlib.suppress(Exception):
                sum(range(1000))
    assert time.process_time() - begin > 0.1  # the timer counts in ticks, the clock does not
    assert signal.getitimer(signal.ITIMER_PROF) == (0.0, 0.0)
    ended = []

    def elsewhere() -> None:
        with cpu_limit(0.001):
            ended.append(sum(range(10_000)))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert ended


def test_a_cell_changes_neither_threads_nor_signals_of_its_process(graph_folder: Path) -> None:
    import torch

    threads, handler = torch.get_num_threads(), signal.getsignal(signal.SIGPROF)
    torch.set_num_threads(2)
    assert run_cell(cells_of(graph_folder, [0])[0], 600).status == "done"
    assert torch.get_num_threads() == 2 and signal.getsignal(signal.SIGPROF) == handler
    torch.set_num_threads(threads)


def test_a_stop_in_the_middle_of_a_cell_is_not_a_failure_of_the_cell(graph_folder: Path, tmp_path: Path) -> None:
    cell = cells_of(graph_folder, [6], "trouble", folder=str(tmp_path))[0]

    def stop() -> None:
        wait_until(lambda: attempts(tmp_path, 6) == 1, "the cell is at work")
        os.kill(os.getpid(), signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM)
    with Stopper() as stopper:
        threading.Thread(target=stop).start()
        with pytest.raises(StopNow):
            run_cell(cell, 600)
    assert stopper.received == signal.SIGTERM and signal.getsignal(signal.SIGTERM) == before


def test_a_held_signal_waits_for_the_end_of_the_block() -> None:
    reached = False
    with Stopper() as stopper, pytest.raises(StopNow), stopper.held():
        os.kill(os.getpid(), signal.SIGINT)
        with stopper.held():
            reached = True
    assert reached


def test_where_pipes_and_timers_are_missing_cells_run_one_after_the_other(
    graph_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells = cells_of(graph_folder, range(3))
    usual = outcomes("serial", cells)
    monkeypatch.setattr(worker_process, "WAITS_FOR_PIPES", False)
    monkeypatch.setattr(worker_process, "LIMITS_CPU", False)
    said: list[str] = []
    found = list(ProcessEngine().run(cells, PATIENT, stopper=Stopper(), say=said.append))
    assert [timeless(outcome) for _, outcome in found] == [timeless(usual[cell.seed]) for cell, _ in found]
    assert len(found) == 3 and len(said) == 2
    assert "one after the other" in said[0] and "CPU time can't be limited" in said[1]


def test_the_number_of_workers_is_bounded_by_memory(graph_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cells = cells_of(graph_folder, [0])
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(64)))
    monkeypatch.setattr(capacity, "available_bytes", lambda: 100 * 2**30)
    assert capacity.worker_count(cells) == 64
    monkeypatch.setattr(capacity, "available_bytes", lambda: 3 * capacity.BASE_BYTES)
    assert capacity.worker_count(cells) == 2  # the graph takes a little beyond the base
    monkeypatch.setattr(capacity, "available_bytes", lambda: 0)
    assert capacity.worker_count(cells) == 1
    hungry = plan_cells(Tiny.name, {}, [str(graph_folder)], [ModelSpec("gcn", {"hidden": 65_536})], [0])
    monkeypatch.setattr(capacity, "available_bytes", lambda: 10 * capacity.BASE_BYTES)
    assert capacity.worker_count(hungry) < capacity.worker_count(cells) < 10


def test_a_worker_limits_its_own_memory() -> None:
    code = "from resource import *; from graphsde.bench.worker import limit_memory as limit; limit(); "
    code += "print(getrlimit(RLIMIT_DATA)[0])"
    env = {**os.environ, "GRAPHSDE_MEMORY_LIMIT": "100"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env)
    assert 100 * 2**20 < int(done.stdout) < 100 * 2**30
    assert resource.getrlimit(resource.RLIMIT_DATA)[0] == resource.RLIM_INFINITY


def test_a_shipped_graph_is_the_same_graph() -> None:
    dense = block_graph()
    named = gs.from_arrays(
        np.eye(30, dtype=np.float32), dense.adjacency.matrix, labels=dense.labels, directed=True,
        node_ids=[f"ü-{i}" for i in range(30)], class_names=["a", "b", "c"], train_mask=dense.train_mask,
    )  # fmt: skip
    for graph in (dense, named, gs.load("digits"), gs.load("diabetes")):
        arrived = unpack_graph(pack_graph(graph))
        assert arrived.fingerprint == graph.fingerprint and arrived.notes == graph.notes
        assert arrived.adjacency.directed == graph.adjacency.directed and arrived.feature_names == graph.feature_names
        assert (arrived.name, arrived.split, arrived.image_shape) == (graph.name, graph.split, graph.image_shape)
        assert arrived.benchmark == graph.benchmark and arrived.target.plain() == graph.target.plain()
        assert set(arrived.masks) == set(graph.masks)
        json.loads(pack_graph(graph)["facts"])


def test_a_missing_cluster_extra_is_said(graph_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtra, match=r"graphsde\[cluster\]"):
        outcomes("ray", cells_of(graph_folder, [0]))


def test_a_signal_while_ray_starts_ends_the_bench_like_any_other(
    graph_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Ray:
        """Leaves by itself when it is told to end, as the real one does while it starts."""

        def is_initialized(self) -> bool:
            return False

        def init(self, **options: object) -> None:
            sys.exit(15)

        def shutdown(self) -> None: ...

    monkeypatch.setitem(sys.modules, "ray", Ray())
    with pytest.raises(Interrupted, match="same command again") as caught:
        bench(graph_folder, tmp_path, engine="ray")
    assert caught.value.exit_code == 143 and "RAY_AUTH_TOKEN" not in os.environ


def test_limits_and_workers_are_checked() -> None:
    assert Limits(cpu_seconds=10).patience == 90 and Limits(wall_seconds=5).patience == 5
    for wrong in ({"cpu_seconds": 0}, {"wall_seconds": -1.0}, {"attempts": 0}, {"cpu_seconds": float("nan")}):
        with pytest.raises(BadUsage):
            Limits(**wrong)  # type: ignore[arg-type]
    with pytest.raises(BadUsage, match="number of workers: 0"):
        SerialEngine(workers=0)
