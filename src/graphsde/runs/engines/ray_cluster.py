"""Cells on the processors of a Ray cluster, or of this machine through Ray."""

from __future__ import annotations

import json
import os
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from graphsde.errors import shorten
from graphsde.runs.capacity import worker_count
from graphsde.runs.cells import Cell
from graphsde.runs.engines.base import Engine, Finished, Job, Limits, Say, cannot_start, next_try, register_engine
from graphsde.runs.engines.ray_actor import CellActor
from graphsde.runs.engines.ray_session import ray_session
from graphsde.runs.execute import graph_of
from graphsde.runs.outcome import Outcome
from graphsde.runs.plugins import VARIABLE
from graphsde.runs.shipping import pack_graph
from graphsde.runs.stopping import Stopper

MOST_FAILED_STARTS = 3
# signals are looked at in between
SECONDS_PER_WAIT = 0.25


@dataclass
class _Hand:
    """An actor and what it is busy with; without a job it is starting."""

    actor: Any
    answer: Any
    deadline: float
    job: Job | None = None


@register_engine
class RayEngine(Engine):
    """Long-lived actors with one processor each; every graph is put into the object store once.

    Only JSON travels for cells and outcomes, only arrays and JSON for graphs. The nodes of a cluster need the same
    version of graphsde, and what ``GRAPHSDE_PLUGINS`` names.
    """

    name, summary = "ray", "actors of a Ray cluster (--address), or of this machine, reachable from it alone"

    def run(self, cells: Sequence[Cell], limits: Limits, *, stopper: Stopper, say: Say) -> Finished:
        if not cells:
            return
        size = self.workers or (worker_count(cells) if self.address is None else None)
        with ray_session(self.address, size or 1, stopper=stopper, say=say) as ray:
            size = size or max(1, int(ray.cluster_resources().get("CPU", 1)))
            shift = _Shift(ray, cells, min(size, len(cells)), limits, stopper, say)
            try:
                while shift.unfinished:
                    with stopper.held():
                        shift.hire()
                        ended = shift.wait()
                    for hand in ended:
                        yield from shift.settle(hand)
            finally:
                shift.end()


class _Shift:
    """Who works and what waits, from the first cell to the last."""

    def __init__(self, ray: Any, cells: Sequence[Cell], size: int, limits: Limits, stopper: Stopper, say: Say) -> None:
        self.ray, self.size, self.limits, self.stopper, self.say = ray, size, limits, stopper, say
        self.waiting = deque(Job(cell) for cell in cells)
        self.hands: list[_Hand] = []
        self.failed_starts, self.anybody_came = 0, False
        self._graphs: dict[str, Any] = {}
        self._actor_class = ray.remote(num_cpus=1, max_restarts=0, max_task_retries=0)(CellActor)

    @property
    def unfinished(self) -> int:
        return len(self.waiting) + sum(hand.job is not None for hand in self.hands)

    def hire(self) -> None:
        while len(self.hands) < min(self.size, self.unfinished):
            actor = self._actor_class.remote(os.environ.get(VARIABLE, ""))
            self.hands.append(_Hand(actor, actor.ready.remote(), time.monotonic() + self.limits.start_seconds))

    def wait(self) -> list[_Hand]:
        """Those who have answered, died or taken too long, within a moment."""
        ready, _ = self.ray.wait([hand.answer for hand in self.hands], timeout=SECONDS_PER_WAIT)
        now = time.monotonic()
        return [hand for hand in self.hands if hand.answer in ready or now > hand.deadline]

    def settle(self, hand: _Hand) -> Iterator[tuple[Cell, Outcome]]:
        with self.stopper.held():
            answer, cause = self._hear(hand)
        if cause is not None:
            yield from self._lost(hand, cause)
            return
        job, hand.job = hand.job, None
        if job is None:
            self.failed_starts, self.anybody_came = 0, True
        outcome = None if job is None else Outcome(**{**json.loads(answer), "attempts": job.attempt})
        with self.stopper.held():
            if outcome is not None and outcome.interrupted_work:
                self._dismiss(hand)  # whatever the cell has left behind, the next one gets a new actor
            else:
                self._give_next(hand)
        if job is not None and outcome is not None:
            yield job.cell, outcome

    def _dismiss(self, hand: _Hand) -> None:
        self.hands.remove(hand)
        self.ray.kill(hand.actor)

    def _give_next(self, hand: _Hand) -> None:
        if not self.waiting:
            self._dismiss(hand)
            return
        job = self.waiting.popleft()
        parts = self._parts(job.cell)
        hand.answer = hand.actor.run.remote(json.dumps(job.cell.as_dict()), self.limits.cpu_seconds, parts)
        hand.job, hand.deadline = job, time.monotonic() + self.limits.patience

    def _parts(self, cell: Cell) -> Any:
        if cell.dataset not in self._graphs:
            self._graphs[cell.dataset] = self.ray.put(pack_graph(graph_of(cell)))
        return self._graphs[cell.dataset]

    def _hear(self, hand: _Hand) -> tuple[Any, str | None]:
        """The answer, or the cause of its absence."""
        failures = self.ray.exceptions
        try:
            return self.ray.get(hand.answer, timeout=0), None
        except failures.GetTimeoutError:
            return None, "hung"
        except failures.OutOfMemoryError:
            return None, "memory"
        except failures.RayActorError as error:
            return None, "killed" if hand.job is not None else f"error: {_last_line(error)}"
        except failures.RayError as error:
            return None, f"error: {_last_line(error)}"

    def _lost(self, hand: _Hand, cause: str) -> Iterator[tuple[Cell, Outcome]]:
        with self.stopper.held():
            self._dismiss(hand)
        if hand.job is None:
            self._did_not_come(cause)
            return
        follows = next_try(hand.job, cause, self.limits)
        if isinstance(follows, Job):
            self.say(f"an actor was lost ({cause}): {hand.job.cell.label} is tried again")
            self.waiting.appendleft(follows)
        else:
            yield hand.job.cell, follows

    def _did_not_come(self, cause: str) -> None:
        if cause == "hung" and self.anybody_came:  # a cluster with fewer free processors than were asked for
            self.size = max(1, len(self.hands))
            self.say(f"no further processor of the cluster became free: going on with {self.size}")
            return
        self.failed_starts += 1
        if cause == "hung" or self.failed_starts >= MOST_FAILED_STARTS:
            raise cannot_start("no processor of the cluster became free" if cause == "hung" else cause)

    def end(self) -> None:
        for hand in self.hands:
            self.ray.kill(hand.actor)


def _last_line(error: Exception) -> str:
    """Ray's messages are tracebacks; what happened stands at their end."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    return shorten(lines[-1].strip(), 300) if lines else type(error).__name__
