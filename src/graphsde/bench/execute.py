"""One cell, run in this process within a CPU-time limit: the same bits on every engine."""

from __future__ import annotations

import contextlib
import gc
import math
import os
import signal
import threading
import time
import traceback
from collections import OrderedDict
from collections.abc import Iterator
from types import FrameType
from typing import Any

from graphsde.base.errors import BadInput, GraphsdeError, NotEnoughMemory, shorten
from graphsde.bench.cells import Cell
from graphsde.bench.journal import Outcome
from graphsde.datasets.source import open_graph
from graphsde.graph.graph import Graph


class CellTimeout(BaseException):
    """The CPU time of a cell is used up. Not an ``Exception``: model code that catches those must not catch it."""


# Windows has no timer for CPU time: cells have no limit there, and the engine says so
LIMITS_CPU = hasattr(signal, "setitimer")


@contextlib.contextmanager
def cpu_limit(seconds: float) -> Iterator[None]:
    """Raise :class:`CellTimeout` once the process has spent ``seconds`` of CPU inside; only in the main thread.

    It is raised again every second, since Python swallows exceptions in finalisers, but not while a module is being
    imported: an interrupted import would stay broken for every later cell. A cell that gets to its end in spite of all
    that is too late all the same. Call :func:`lift_cpu_limit` after catching one.
    """
    if not LIMITS_CPU or threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(number: int, frame: FrameType | None) -> None:
        frames = traceback.walk_stack(frame) if frame is not None else ()
        if not any(one.f_code.co_filename.startswith("<frozen importlib") for one, _ in frames):
            raise CellTimeout

    before = signal.signal(signal.SIGPROF, ring)
    begin = time.process_time()
    signal.setitimer(signal.ITIMER_PROF, seconds, 1.0)
    try:
        yield
        if time.process_time() - begin > seconds:
            raise CellTimeout
    finally:
        lift_cpu_limit()
        signal.signal(signal.SIGPROF, before)


def lift_cpu_limit() -> None:
    signal.setitimer(signal.ITIMER_PROF, 0)


# cells come graph by graph; keeping more than the last two would waste memory
GRAPHS_KEPT = 2
_graphs: OrderedDict[str, Graph] = OrderedDict()


def run_cell(cell: Cell, cpu_seconds: float) -> Outcome:
    """Prepare, fit and measure. Any failure is an outcome, not an exception.

    Args:
        cell: what to do.
        cpu_seconds: CPU-time limit.
    """
    begin = _clocks()
    try:
        with single_threaded(), cpu_limit(cpu_seconds):
            graph = graph_of(cell)
            begin = _clocks()
            task = cell.make_task()
            measured = task.measure(cell.make_model, task.prepare(graph, cell.seed), cell.seed)
            metrics = {name: _plain(value) for name, value in measured.metrics.items()}
            curves = {name: [_plain(value) for value in values] for name, values in measured.curves.items()}
        return Outcome("done", metrics=metrics, curves=curves, seconds=_since(begin))
    except CellTimeout:
        lift_cpu_limit()
        return Outcome.failed("time", seconds=_since(begin))
    except Exception as error:
        if os.environ.get("GRAPHSDE_DEBUG"):
            traceback.print_exc()
        cause = _cause(error)
        error.__traceback__ = None
        gc.collect()  # the frames of the failure hold the memory that the next cell needs
        return Outcome.failed(cause, seconds=_since(begin))


def graph_of(cell: Cell) -> Graph:
    """The cell's graph, cached between cells; refused if it is not the planned one."""
    if not holds_graph(cell):
        keep_graph(cell.dataset, open_graph(cell.dataset))
    graph = _graphs[cell.dataset]
    if graph.fingerprint != cell.data:
        raise BadInput(
            f"{cell.dataset} is not the graph that the bench was planned with",
            code="E-DATA-CHANGED",
            found=graph.fingerprint[:12],
            expected=cell.data[:12],
        )
    return graph


def holds_graph(cell: Cell) -> bool:
    return cell.dataset in _graphs and _graphs[cell.dataset].fingerprint == cell.data


def keep_graph(dataset: str, graph: Graph) -> None:
    _graphs[dataset] = graph
    _graphs.move_to_end(dataset)
    while len(_graphs) > GRAPHS_KEPT:
        _graphs.popitem(last=False)


@contextlib.contextmanager
def single_threaded() -> Iterator[None]:
    """One thread everywhere: another order of summation would change bits, and cells run in parallel anyway."""
    import torch
    from threadpoolctl import threadpool_limits

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(limits=1):
            yield
    finally:
        torch.set_num_threads(before)


def _cause(error: Exception) -> str:
    text = str(error)
    if isinstance(error, MemoryError | NotEnoughMemory) or any(
        words in text for words in ("can't allocate memory", "not enough memory", "bad_alloc")
    ):
        return "memory"
    return "error: " + shorten(text if isinstance(error, GraphsdeError) else f"{type(error).__name__}: {text}", 400)


def _plain(value: Any) -> float | None:
    """A JSON number; nonfinite values are undefined."""
    number = value if isinstance(value, int) else float(value)
    return number if math.isfinite(number) else None


def _clocks() -> dict[str, float]:
    return {"cpu": time.process_time(), "wall": time.perf_counter()}


def _since(begin: dict[str, float]) -> dict[str, float]:
    return {name: round(now - begin[name], 4) for name, now in _clocks().items()}
