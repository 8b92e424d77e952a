"""``graphsde …`` in copies of a process that has imported everything: a case costs the work, not the imports."""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import io
import json
import mmap
import os
import resource
import signal
import struct
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reliability.disk import Call, Disk, Disturbance

# a child that takes longer than this hangs; the slowest takes a few seconds on a busy machine
PATIENCE = 120


@dataclass(frozen=True)
class Ended:
    """How a copy ended.

    Args:
        code: its exit code; negative for the signal that killed it.
        output, errors: what it said.
        seconds, cpu_seconds: of wall clock, the copying included; of the processor, which no neighbour makes longer.
        megabytes: by how much its memory grew at most.
        epochs: epochs of training that it did.
        acknowledged: cells that a bench had reported as done.
        calls, missed: what it did to the watched folder, where nothing was disturbed.
        value: what the called function gave back.
    """

    code: int
    output: str
    errors: str
    seconds: float
    cpu_seconds: float
    megabytes: float
    epochs: int = 0
    acknowledged: int = 0
    calls: tuple[Call, ...] = ()
    missed: tuple[Call, ...] = ()
    value: Any = None
    modules: tuple[str, ...] = field(default=(), repr=False)

    @property
    def killed(self) -> bool:
        return self.code == -signal.SIGKILL


class Warm:
    """A process with everything imported and nothing begun, which runs commands in copies of itself."""

    def __init__(self, scratch: Path) -> None:
        import torch

        import graphsde.cli.app  # noqa: F401

        torch.set_num_threads(1)
        self.scratch = scratch
        self._counters = mmap.mmap(-1, 24)
        _count_work(self._counters)
        _save_every_epoch()
        _program()
        gc.freeze()  # a copy that collects garbage would touch, and so copy, every page

    def graphsde(
        self, words: Sequence[object], *, watched: Path | None = None, disturbance: Disturbance | None = None
    ) -> Ended:
        """A verb of the command line; below ``watched`` its calls are counted, and one is disturbed if so asked."""
        return self.begin(words, watched=watched, disturbance=disturbance).wait()

    def call(self, function: Callable[[], Any]) -> Ended:
        """What a function gives back, as JSON can hold it."""
        return self._copy(function, None)

    def learn_imports(self, ended: Ended) -> None:
        """Import here what a copy had to import, so that the next one need not."""
        for name in ended.modules:
            if name not in sys.modules and not name.startswith("__"):
                with contextlib.suppress(Exception):
                    importlib.import_module(name)

    def begin(
        self, words: Sequence[object], *, watched: Path | None = None, disturbance: Disturbance | None = None
    ) -> Running:
        """As :meth:`graphsde`, without waiting for the end."""
        disk = None if watched is None else Disk(str(watched), disturbance)
        return self._begin(lambda: _command([str(word) for word in words]), disk)

    def _copy(self, function: Callable[[], Any], disk: Disk | None) -> Ended:
        return self._begin(function, disk).wait()

    def _begin(self, function: Callable[[], Any], disk: Disk | None) -> Running:
        self._counters[:] = bytes(24)
        folder = tempfile.TemporaryDirectory(dir=self.scratch)
        child = os.fork()
        if child == 0:
            struct.pack_into("q", self._counters, 16, _resident())
            _live(function, disk, Path(folder.name))
        return Running(child, folder, self._counters)


class Running:
    """A copy at work."""

    def __init__(self, number: int, folder: tempfile.TemporaryDirectory[str], counters: mmap.mmap) -> None:
        self.number, self._folder, self._counters, self._begin = number, folder, counters, time.perf_counter()

    def paused(self) -> bool:
        """Wait until it has paused or ended; whether it paused. One that has ended must still be waited for."""
        found = os.waitid(os.P_PID, self.number, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        return found is not None and found.si_code == os.CLD_STOPPED

    def go_on(self) -> None:
        os.kill(self.number, signal.SIGCONT)

    def wait(self) -> Ended:
        _, status, used = os.wait4(self.number, 0)
        seconds = time.perf_counter() - self._begin
        with self._folder as name:
            said = {part: _read(Path(name) / part) for part in ("output", "errors", "result")}
        result = json.loads(said["result"] or "{}")
        epochs, acknowledged, resident = struct.unpack("qqq", self._counters[:])
        return Ended(
            os.waitstatus_to_exitcode(status),
            said["output"],
            said["errors"],
            seconds,
            used.ru_utime + used.ru_stime,
            max(0.0, (used.ru_maxrss - resident) / 1024),
            epochs,
            acknowledged,
            tuple(Call(*one) for one in result.get("calls", ())),
            tuple(Call(*one) for one in result.get("missed", ())),
            result.get("value"),
            tuple(result.get("modules", ())),
        )


def _live(function: Callable[[], Any], disk: Disk | None, folder: Path) -> None:
    """The life of a copy; it never returns."""
    code, known, value = 70, set(sys.modules), None
    try:
        signal.alarm(PATIENCE)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        for number, name in ((1, "output"), (2, "errors")):
            os.dup2(os.open(folder / name, os.O_WRONLY | os.O_CREAT, 0o644), number)
        sys.stdout = io.TextIOWrapper(io.FileIO(1, "w", closefd=False), write_through=True)
        sys.stderr = io.TextIOWrapper(io.FileIO(2, "w", closefd=False), write_through=True)
        report = os.open(folder / "result", os.O_WRONLY | os.O_CREAT, 0o644)
        if disk is not None:
            disk.install()
        try:
            value = function()
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        facts: dict[str, Any] = {"value": value, "modules": sorted(set(sys.modules) - known)}
        if disk is not None and disk.disturbance is None:
            facts["calls"] = [(call.operation, call.path) for call in disk.calls]
            facts["missed"] = [(call.operation, call.path) for call in disk.missed]
        content = json.dumps(facts).encode()
        while content:
            content = content[os.write(report, content) :]
    except BaseException:
        traceback.print_exc()
    os._exit(code)


def answer(*words: object) -> tuple[int, str, str]:
    """A verb in this process: its exit code, output and errors."""
    output, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
        try:
            _command([str(word) for word in words])
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
    return code, output.getvalue(), errors.getvalue()


def _command(words: list[str]) -> None:
    sys.argv = ["graphsde", *words]
    _program()(args=words, prog_name="graphsde")


@functools.cache
def _program() -> Any:
    """The command line; a tenth of a second to put together, so only once."""
    import typer

    from graphsde.cli.app import app

    return typer.main.get_command(app)


def _count_work(counters: mmap.mmap) -> None:
    """Work that is done, seen from outside of the process that does it: the count outlives a kill."""
    from graphsde.cli.bench import CellBar
    from graphsde.nn.training import Training

    def add(place: int) -> None:
        struct.pack_into("q", counters, place, struct.unpack_from("q", counters, place)[0] + 1)

    advance, show = Training.advance, CellBar.show

    def counted(self: Training) -> Any:
        record = advance(self)
        add(0)
        return record

    def shown(self: CellBar, state: Any) -> None:
        if state.cell is not None:
            add(8)
        show(self, state)

    Training.advance = counted  # type: ignore[method-assign]
    CellBar.show = shown  # type: ignore[method-assign]


def _save_every_epoch() -> None:
    """Checkpoints are due after every epoch: half a minute is longer than the attacks train."""
    from graphsde.nn.checkpoint import Checkpoint

    Checkpoint.__init__.__defaults__ = (0.0,)


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


def _resident() -> int:
    """This process's own memory in kB, which a copy begins with."""
    with open("/proc/self/statm") as stream:
        return int(stream.read().split()[1]) * (resource.getpagesize() // 1024)
