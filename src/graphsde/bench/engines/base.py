"""Base of engines, which decide where and when cells run; how many cells fit on this machine at once."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Generic, Protocol, TypeVar

import scipy.sparse as sp

from graphsde.base.errors import BadUsage, GraphsdeError
from graphsde.base.interrupt import Stopper
from graphsde.base.memory import available_bytes
from graphsde.base.registry import Registry
from graphsde.bench.cells import Cell
from graphsde.bench.journal import Outcome
from graphsde.datasets.source import open_graph
from graphsde.graph.graph import Graph

# an interpreter with torch and everything that a fit imports
BASE_BYTES = 500 * 2**20
# memory for samples, scores and copies beyond the fit itself, by experience
SLACK = 3


def worker_count(cells: Iterable[Cell]) -> int:
    """One worker per processor, fewer if the largest cell would not fit that often into free memory."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    needed = BASE_BYTES + SLACK * max(_hungers(cells), default=0)
    return max(1, min(cores, available_bytes() // needed))


def _hungers(cells: Iterable[Cell]) -> Iterable[int]:
    kinds: dict[str, dict[str, Cell]] = {}
    for cell in cells:
        kinds.setdefault(cell.dataset, {}).setdefault(cell.label, cell)
    for dataset, by_label in kinds.items():
        graph = open_graph(dataset)
        for cell in by_label.values():
            yield _memory_of(cell, graph)


def _memory_of(cell: Cell, graph: Graph) -> int:
    """The model's own estimate if it has one, otherwise a multiple of the graph."""
    model = cell.make_model()
    memory = getattr(model, "memory", None)
    if memory is not None:
        try:
            model.resolve(graph)
            return int(memory(graph))
        except GraphsdeError:
            pass  # the cell itself will report what is wrong
    features = graph.features.nnz if sp.issparse(graph.features) else graph.features.size  # type: ignore[union-attr]
    return 12 * int(features) + 40 * (graph.num_edges + graph.num_nodes * max(graph.num_classes, 1))


Say = Callable[[str], None]
Finished = Generator[tuple[Cell, Outcome], None, None]


@dataclass(frozen=True)
class Limits:
    """When to give up.

    Args:
        cpu_seconds: CPU-time limit of a cell; a cell that exceeds it fails with the cause ``time``.
        wall_seconds: a worker without an answer for this long counts as hung; default: three times the CPU time and a
            minute, since a busy machine is not the cell's fault.
        start_seconds: time limit until a worker is ready.
        attempts: how often a cell may lose its worker.
    """

    cpu_seconds: float = 600.0
    wall_seconds: float | None = None
    start_seconds: float = 900.0
    attempts: int = 3

    def __post_init__(self) -> None:
        for name in ("cpu_seconds", "wall_seconds", "start_seconds", "attempts"):
            value = getattr(self, name)
            if value is not None and not 0 < value < float("inf"):
                raise BadUsage(f"{name} is {value}", expected="a positive number")

    @property
    def patience(self) -> float:
        return 3 * self.cpu_seconds + 60 if self.wall_seconds is None else self.wall_seconds


@dataclass(frozen=True)
class Job:
    """A cell on its way, with the number of the attempt."""

    cell: Cell
    attempt: int = 1


class Engine(ABC):
    """Runs cells somewhere. Subclasses set ``name`` and ``summary`` and are registered in :data:`ENGINES`.

    Args:
        workers: how many cells at once; ``None`` lets the engine choose.
        address: of a cluster, for engines that have one.
    """

    name: ClassVar[str]
    summary: ClassVar[str]

    def __init__(self, workers: int | None = None, address: str | None = None) -> None:
        if workers is not None and workers < 1:
            raise BadUsage(f"invalid number of workers: {workers}", expected="at least 1")
        self.workers, self.address = workers, address

    @abstractmethod
    def run(self, cells: Sequence[Cell], limits: Limits, *, stopper: Stopper, say: Say) -> Finished:
        """Every cell once with its outcome, in the order they finish; close the iterator to stop early.

        The same cell gives the same metrics, bit by bit, on every engine.
        """


# this many workers in a row that end before they are ready are no accident
MOST_FAILED_STARTS = 3


class Busy(Protocol):
    """A worker; without a job it is idle or starting."""

    job: Job | None


W = TypeVar("W", bound=Busy)


class Shift(Generic[W]):
    """Active workers and waiting cells, from the first cell to the last."""

    def __init__(self, cells: Sequence[Cell], size: int, limits: Limits, say: Say) -> None:
        self.waiting = deque(Job(cell) for cell in cells)
        self.size, self.limits, self.say = size, limits, say
        self.crew: list[W] = []
        self.failed_starts = 0

    @property
    def unfinished(self) -> int:
        return len(self.waiting) + sum(worker.job is not None for worker in self.crew)

    def try_again(self, job: Job, cause: str, who: str) -> Iterator[tuple[Cell, Outcome]]:
        """Handle a lost worker: another attempt, or a failure with its cause."""
        if job.attempt < self.limits.attempts:
            self.say(f"{who} was lost ({cause}): retrying {job.cell.label}")
            self.waiting.appendleft(Job(job.cell, job.attempt + 1))
        else:
            yield job.cell, Outcome.failed(cause, job.attempt)

    def did_not_start(self, cause: str, *, at_most: int | None = None) -> None:
        """Count it, and give up after too many in a row."""
        self.failed_starts += 1
        if self.failed_starts >= (MOST_FAILED_STARTS if at_most is None else at_most):
            fix = "run again with GRAPHSDE_DEBUG=1, or with --engine serial"
            raise GraphsdeError(f"workers can't start: {cause}", code="E-WORKER", fix=fix)


ENGINES: Registry[type[Engine]] = Registry("engine", base=Engine)
register_engine = ENGINES.add_class
