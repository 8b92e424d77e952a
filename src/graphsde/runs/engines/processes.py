"""As many cells at once as the machine takes, each in a worker process that may die without harm."""

from __future__ import annotations

import selectors
import time
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

from graphsde.runs.capacity import worker_count
from graphsde.runs.cells import Cell
from graphsde.runs.engines.base import Engine, Finished, Job, Limits, Say, cannot_start, next_try, register_engine
from graphsde.runs.engines.worker_process import WorkerProcess
from graphsde.runs.outcome import Outcome
from graphsde.runs.stopping import Stopper

# so many workers in a row that end before they are ready are no accident
MOST_FAILED_STARTS = 3


@register_engine
class ProcessEngine(Engine):
    """Long-lived workers, one thread each, that speak JSON over pipes.

    A worker that is killed, runs out of memory or does not answer costs its cell one attempt; the other workers don't
    notice. Workers end with this process, however it ends.
    """

    name, summary = "processes", "one worker process per processor, as far as memory allows"

    def run(self, cells: Sequence[Cell], limits: Limits, *, stopper: Stopper, say: Say) -> Finished:
        if not cells:
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


class _Shift:
    """Who works and what waits, from the first cell to the last."""

    def __init__(self, cells: Sequence[Cell], size: int, limits: Limits, say: Say) -> None:
        self.waiting = deque(Job(cell) for cell in cells)
        self.size, self.limits, self.say = size, limits, say
        self.crew: list[WorkerProcess] = []
        self.failed_starts = 0

    @property
    def unfinished(self) -> int:
        return len(self.waiting) + sum(worker.job is not None for worker in self.crew)

    def assign(self) -> None:
        while len(self.crew) < min(self.size, self.unfinished):
            self.crew.append(WorkerProcess(self.limits))
        for worker in self.crew:
            if worker.idle and self.waiting:
                worker.give(self.waiting.popleft())

    def wait(self) -> tuple[list[WorkerProcess], list[WorkerProcess]]:
        """Those who have answered or hung up, and those who have taken too long."""
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
        """A cell that was cut off anywhere may have left anything behind: the next one gets a new process."""
        self.crew.remove(worker)
        worker.kill()
        worker.bury()

    def lost(self, worker: WorkerProcess) -> Iterator[tuple[Cell, Outcome]]:
        self.crew.remove(worker)
        cause = worker.bury()
        if not worker.ready:
            self.failed_starts += 1
            if self.failed_starts >= MOST_FAILED_STARTS:
                raise cannot_start(cause)
        elif worker.job is not None:
            follows = next_try(worker.job, cause, self.limits)
            if isinstance(follows, Job):
                self.say(f"a worker was lost ({cause}): {worker.job.cell.label} is tried again")
                self.waiting.appendleft(follows)
            else:
                yield worker.job.cell, follows

    def end(self) -> None:
        for worker in self.crew:
            worker.kill()
        for worker in self.crew:
            worker.bury()
