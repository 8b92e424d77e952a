"""Cells on this machine: in worker processes that may crash safely, or one after the other in this process."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from graphsde.base.device import device_variable
from graphsde.base.errors import shorten
from graphsde.base.interrupt import Stopper
from graphsde.base.plugins import search_path
from graphsde.bench.cells import Cell
from graphsde.bench.engines.base import Engine, Finished, Job, Limits, Say, Shift, register_engine, worker_count
from graphsde.bench.execute import LIMITS_CPU, run_cell
from graphsde.bench.journal import Outcome

# waiting for the pipes of several processes at once works everywhere but on Windows
WAITS_FOR_PIPES = os.name != "nt"
# seconds that a worker that has closed its pipe gets to exit, on a possibly busy machine
LAST_BREATH = 60.0
ONE_THREAD = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}
# glibc hands large pieces back to the system as soon as they are freed, and the system clears them before it gives them
# out again: a quarter of the time of a wide network on 20,000 nodes; who has set these variables is obeyed
KEEPS_FREED_MEMORY = dict.fromkeys(("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_"), str(1 << 32))


class WorkerProcess:
    """A child process with a pipe for requests and a pipe for answers; its output goes to a separate file.

    Args:
        limits: time limits to start and to answer.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.job: Job | None = None
        self.ready = False
        self.deadline = time.monotonic() + limits.start_seconds
        self._pending = b""
        self._oom_kills = oom_kills()
        self._hung = False
        debug = bool(os.environ.get("GRAPHSDE_DEBUG"))
        self._words = None if debug else tempfile.TemporaryFile()  # noqa: SIM115 (it lives as long as the worker)
        self.process = subprocess.Popen(
            # -P: no modules from the current folder unless this process uses it
            [sys.executable, "-P", "-m", "graphsde.bench.worker", str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._words,
            env={**KEEPS_FREED_MEMORY, **os.environ, **ONE_THREAD, **device_variable(), "PYTHONPATH": search_path()},
        )

    @property
    def answers(self) -> int:
        """The file to wait for."""
        assert self.process.stdout is not None
        return self.process.stdout.fileno()

    @property
    def idle(self) -> bool:
        return self.ready and self.job is None

    @property
    def overdue(self) -> bool:
        return not self.idle and time.monotonic() > self.deadline

    def give(self, job: Job) -> None:
        self.job = job
        self.deadline = time.monotonic() + self.limits.patience
        order = {"cell": job.cell.as_dict(), "cpu_seconds": self.limits.cpu_seconds}
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # its end is noticed when answers are read
            self.process.stdin.write(json.dumps(order).encode() + b"\n")
            self.process.stdin.flush()

    def listen(self) -> list[dict[str, Any]] | None:
        """The answers that have arrived; ``None`` once the worker has closed its pipe. Call it if there are any."""
        arrived = os.read(self.answers, 1 << 16)
        if not arrived:
            return None
        *lines, self._pending = (self._pending + arrived).split(b"\n")
        return [json.loads(line) for line in lines]

    def kill(self, hung: bool = False) -> None:
        self._hung = hung
        if self.process.poll() is None:
            self.process.kill()

    def bury(self) -> str:
        """Wait for its end and return the cause; kills it first if it still runs."""
        if self.process.poll() is None and not self._hung:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(
                    timeout=LAST_BREATH
                )  # it has closed its pipe and is about to exit: wait for its exit code
        self.kill(self._hung)
        code = self.process.wait()
        words = self._last_words()
        for stream in (self.process.stdin, self.process.stdout, self._words):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        if self._hung:
            return "hung"
        if code < 0:
            name = signal.Signals(-code).name
            if name != "SIGKILL":
                return f"killed: {name}"
            return "memory" if oom_kills() > self._oom_kills else "killed"
        return f"error: the worker ended with code {code}{': ' + words if words else ''}"

    def _last_words(self) -> str:
        if self._words is None:
            return ""
        size = self._words.seek(0, os.SEEK_END)
        self._words.seek(max(0, size - 2000))
        lines = self._words.read().decode("utf-8", "replace").strip().splitlines()
        return shorten(lines[-1], 300) if lines else ""


def oom_kills() -> int:
    """How often the system has killed a process for lack of memory; 0 if unknown."""
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/proc/vmstat").read_text().splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return 0


@register_engine
class ProcessEngine(Engine):
    """Long-lived workers, one thread each, that exchange JSON over pipes.

    A worker that is killed, runs out of memory or does not answer costs its cell one attempt; the other workers don't
    notice. Workers end with this process, however it ends. Where waiting for pipes is impossible (Windows), cells run
    one after the other in this process.
    """

    name, summary = "processes", "one worker process per processor, as memory allows"

    def run(self, cells: Sequence[Cell], limits: Limits, *, stopper: Stopper, say: Say) -> Finished:
        if not cells:
            return
        if not WAITS_FOR_PIPES:
            say("worker processes are not supported on this system: running cells one after the other")
            yield from SerialEngine().run(cells, limits, stopper=stopper, say=say)
            return
        shift = _Shift(cells, min(self.workers or worker_count(cells), len(cells)), limits, say)
        try:
            while shift.unfinished:
                shift.assign()
                heard, overdue = shift.wait()
                for worker in heard:
                    messages = worker.listen()
                    yield from shift.lost(worker) if messages is None else shift.answered(worker, messages)
                for worker in overdue:
                    worker.kill(hung=True)
                    yield from shift.lost(worker)
        finally:
            shift.end()


class _Shift(Shift[WorkerProcess]):
    """Of worker processes."""

    def assign(self) -> None:
        while len(self.crew) < min(self.size, self.unfinished):
            self.crew.append(WorkerProcess(self.limits))
        for worker in self.crew:
            if worker.idle and self.waiting:
                worker.give(self.waiting.popleft())

    def wait(self) -> tuple[list[WorkerProcess], list[WorkerProcess]]:
        """Workers that have answered or closed their pipe, and those that have taken too long."""
        deadlines = [worker.deadline for worker in self.crew if not worker.idle]
        with selectors.DefaultSelector() as selector:
            for worker in self.crew:
                selector.register(worker.answers, selectors.EVENT_READ, worker)
            heard = [key.data for key, _ in selector.select(max(0.0, min(deadlines) - time.monotonic()))]
        return heard, [worker for worker in self.crew if worker.overdue and worker not in heard]

    def answered(self, worker: WorkerProcess, messages: list[dict[str, Any]]) -> Iterator[tuple[Cell, Outcome]]:
        for message in messages:
            if "ready" in message:
                worker.ready, self.failed_starts = True, 0
            elif worker.job is not None:
                job, worker.job = worker.job, None
                outcome = Outcome(**{**message, "attempts": job.attempt})
                if outcome.interrupted_work:
                    self._retire(worker)
                yield job.cell, outcome

    def _retire(self, worker: WorkerProcess) -> None:
        """An interrupted cell may leave its process in any state: the next one gets a new process."""
        self.crew.remove(worker)
        worker.kill()
        worker.bury()

    def lost(self, worker: WorkerProcess) -> Iterator[tuple[Cell, Outcome]]:
        self.crew.remove(worker)
        cause = worker.bury()
        if not worker.ready:
            self.did_not_start(cause)
        elif worker.job is not None:
            yield from self.try_again(worker.job, cause, "a worker")

    def end(self) -> None:
        for worker in self.crew:
            worker.kill()
        for worker in self.crew:
            worker.bury()


@register_engine
class SerialEngine(Engine):
    """Nothing to start and easy to debug; a crash or hang of a cell affects the whole bench."""

    name, summary = "serial", "one cell after the other in this process"

    def run(self, cells: Sequence[Cell], limits: Limits, *, stopper: Stopper, say: Say) -> Finished:
        if not LIMITS_CPU:
            say("CPU time can't be limited on this system: --cell-minutes is ignored")
        for cell in cells:
            with contextlib.redirect_stdout(sys.stderr):  # standard output is for results
                outcome = run_cell(cell, limits.cpu_seconds)
            yield cell, outcome
