"""A worker process as the engine sees it: started, asked, listened to, and mourned with a reason."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from graphsde.errors import shorten
from graphsde.runs.engines.base import Job, Limits
from graphsde.runs.plugins import search_path

ONE_THREAD = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}


class WorkerProcess:
    """A child process with a pipe for orders and a pipe for answers; what it prints goes to a file of its own.

    Args:
        limits: how long it may take to start and to answer.
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
            # -P: the current folder is no place for modules unless it is one for this process
            [sys.executable, "-P", "-m", "graphsde.runs.worker", str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._words,
            env={**os.environ, **ONE_THREAD, "PYTHONPATH": search_path()},
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
        with contextlib.suppress(BrokenPipeError):  # its end is noticed where answers are read
            self.process.stdin.write(json.dumps(order).encode() + b"\n")
            self.process.stdin.flush()

    def listen(self) -> list[dict[str, Any]] | None:
        """The answers that have arrived; ``None`` once the worker has hung up. Call it when there is something."""
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
        """Wait for its end and tell the cause; ends it first if it still runs."""
        if self.process.poll() is None and not self._hung:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(timeout=10)  # it has hung up and is about to end: let it say with which code
        self.kill(self._hung)
        code = self.process.wait()
        words = self._last_words()
        for stream in (self.process.stdin, self.process.stdout, self._words):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        if self._hung:
            return "hung"
        if code == -signal.SIGKILL:
            return "memory" if oom_kills() > self._oom_kills else "killed"
        if code < 0:
            return f"killed: {signal.Signals(-code).name}"
        return f"error: the worker ended with code {code}{': ' + words if words else ''}"

    def _last_words(self) -> str:
        if self._words is None:
            return ""
        size = self._words.seek(0, os.SEEK_END)
        self._words.seek(max(0, size - 2000))
        lines = self._words.read().decode("utf-8", "replace").strip().splitlines()
        return shorten(lines[-1], 300) if lines else ""


def oom_kills() -> int:
    """How often the system has ended a process for want of memory; 0 where it does not tell."""
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/proc/vmstat").read_text().splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return 0
