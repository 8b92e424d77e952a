"""What an engine is: it decides where and when cells run, and nothing else."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from graphsde.errors import BadUsage, GraphsdeError
from graphsde.registry import Registry
from graphsde.runs.cells import Cell
from graphsde.runs.outcome import Outcome
from graphsde.runs.stopping import Stopper

Say = Callable[[str], None]
Finished = Generator[tuple[Cell, Outcome], None, None]


@dataclass(frozen=True)
class Limits:
    """When to give up.

    Args:
        cpu_seconds: the most processor time of a cell; beyond, it has failed with the cause ``time``.
        wall_seconds: without an answer for so long a worker counts as hung; by default thrice the processor time and a
            minute, since a busy machine is no fault of the cell.
        start_seconds: the most time until a worker is ready.
        attempts: how often a cell may lose its worker.
    """

    cpu_seconds: float = 600.0
    wall_seconds: float | None = None
    start_seconds: float = 300.0
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
    """Runs cells somewhere. Subclasses set ``name`` and ``summary`` and are put into :data:`ENGINES`.

    Args:
        workers: how many cells at once; ``None`` lets the engine choose.
        address: of a cluster, for engines that have one.
    """

    name: ClassVar[str]
    summary: ClassVar[str]

    def __init__(self, workers: int | None = None, address: str | None = None) -> None:
        if workers is not None and workers < 1:
            raise BadUsage(f"{workers} workers can't do anything", expected="at least 1")
        self.workers, self.address = workers, address

    @abstractmethod
    def run(self, cells: Sequence[Cell], limits: Limits, *, stopper: Stopper, say: Say) -> Finished:
        """Every cell once with what became of it, in whatever order they finish; close the iterator to stop early.

        The same cell gives the same metrics, bit by bit, on every engine.
        """


def next_try(job: Job, cause: str, limits: Limits) -> Job | Outcome:
    """What follows from a lost worker: another attempt, or a failure with its cause."""
    if job.attempt < limits.attempts:
        return Job(job.cell, job.attempt + 1)
    return Outcome.failed(cause, job.attempt)


def cannot_start(reason: str) -> GraphsdeError:
    return GraphsdeError(
        f"workers can't start: {reason}",
        code="E-WORKER",
        fix="run again with GRAPHSDE_DEBUG=1, or with --engine serial",
    )


ENGINES: Registry[type[Engine]] = Registry("engine")


def register_engine(cls: type[Engine]) -> type[Engine]:
    """Class decorator: makes an engine known to ``graphsde list engines`` and ``--engine``."""
    ENGINES.add(cls.name, cls, summary=cls.summary)
    return cls
