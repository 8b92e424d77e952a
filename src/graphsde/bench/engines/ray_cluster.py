"""Cells on the processors of a Ray cluster, or of this machine through a private Ray session."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import scipy.sparse as sp

from graphsde.base.errors import shorten
from graphsde.base.interrupt import Stopper
from graphsde.base.plugins import VARIABLE
from graphsde.bench.cells import Cell
from graphsde.bench.engines.base import Engine, Finished, Job, Limits, Say, Shift, register_engine, worker_count
from graphsde.bench.execute import graph_of
from graphsde.bench.journal import Outcome
from graphsde.graph.adjacency import Adjacency
from graphsde.graph.graph import Graph
from graphsde.graph.raw import Finding
from graphsde.graph.target import ClassTarget, RegressionTarget, Target
from graphsde.runs.workers import ray_session


def pack_graph(graph: Graph) -> dict[str, Any]:
    """Numeric arrays unchanged; everything else, mostly text, as one JSON string."""
    arrays: dict[str, np.ndarray] = {}
    _put_matrix(arrays, "adjacency", graph.adjacency.matrix)
    if sp.issparse(graph.features):
        _put_matrix(arrays, "features", graph.features)
    else:
        arrays["features"] = np.asarray(graph.features)
    arrays |= {name: found for name in ("labels", "values") if (found := getattr(graph, name)) is not None}
    text_ids = graph.node_ids.dtype == object
    if not text_ids:
        arrays["node_ids"] = graph.node_ids
    arrays |= {f"mask:{name}": mask for name, mask in graph.masks.items()}
    facts = {
        "directed": graph.adjacency.directed,
        "nodes": graph.num_nodes,
        "width": graph.features.shape[1],
        "class_names": graph.class_names,
        "node_ids": graph.node_ids.tolist() if text_ids else None,
        "feature_names": graph.feature_names,
        "categorical": {name: column.tolist() for name, column in graph.categorical.items()},
        "masks": list(graph.masks),
        "name": graph.name,
        "benchmark": graph.benchmark,
        "image_shape": graph.image_shape,
        "split": graph.split,
        "notes": [note.as_dict() for note in graph.notes],
    }
    return {"arrays": arrays, "facts": json.dumps(facts)}


def unpack_graph(parts: dict[str, Any]) -> Graph:
    """The inverse of :func:`pack_graph`: a graph with the same fingerprint."""
    arrays, facts = parts["arrays"], json.loads(parts["facts"])
    nodes = facts["nodes"]
    sparse = "features:data" in arrays
    ids = arrays["node_ids"] if facts["node_ids"] is None else np.array(facts["node_ids"], dtype=object)
    return Graph(
        adjacency=Adjacency(_matrix(arrays, "adjacency", (nodes, nodes)), directed=facts["directed"]),
        features=_matrix(arrays, "features", (nodes, facts["width"])) if sparse else arrays["features"],
        target=_target(arrays, tuple(facts["class_names"])),
        node_ids=ids,
        feature_names=_tuple(facts["feature_names"]),
        categorical=MappingProxyType(
            {name: np.array(column, dtype=object) for name, column in facts["categorical"].items()}
        ),
        masks=MappingProxyType({name: arrays[f"mask:{name}"] for name in facts["masks"]}),
        name=facts["name"],
        benchmark=facts["benchmark"],
        image_shape=_tuple(facts["image_shape"]),
        split=facts["split"],
        notes=tuple(Finding(**{**note, "where": tuple(note["where"])}) for note in facts["notes"]),
    )


def _target(arrays: dict[str, np.ndarray], class_names: tuple[str, ...]) -> Target:
    return RegressionTarget(arrays["values"]) if "values" in arrays else ClassTarget(arrays.get("labels"), class_names)


def _put_matrix(arrays: dict[str, np.ndarray], name: str, matrix: Any) -> None:
    arrays |= {f"{name}:{part}": getattr(matrix, part) for part in ("data", "indices", "indptr")}


def _matrix(arrays: dict[str, np.ndarray], name: str, shape: tuple[int, int]) -> sp.csr_array:
    return sp.csr_array(tuple(arrays[f"{name}:{part}"] for part in ("data", "indices", "indptr")), shape=shape)


def _tuple(values: list[Any] | None) -> tuple[Any, ...] | None:
    return None if values is None else tuple(values)


class CellActor:
    """Takes a cell as JSON and the parts of its graph, answers with the outcome as JSON.

    Args:
        plugins: modules to import first, see :func:`~graphsde.base.plugins.load_plugins`.
    """

    def __init__(self, plugins: str) -> None:
        from graphsde.base.plugins import load_plugins
        from graphsde.bench.worker import limit_memory

        load_plugins(plugins)
        limit_memory()

    def ready(self) -> int:
        return os.getpid()

    def run(self, cell_text: str, cpu_seconds: float, parts: dict[str, Any]) -> str:
        from graphsde.bench.cells import Cell
        from graphsde.bench.execute import holds_graph, keep_graph, run_cell

        cell = Cell(**json.loads(cell_text))
        if not holds_graph(cell):
            keep_graph(cell.dataset, unpack_graph(parts))
        return json.dumps(run_cell(cell, cpu_seconds).as_dict(), allow_nan=False)


# signals are checked in between
SECONDS_PER_WAIT = 0.25


@dataclass
class _Hand:
    """An actor and its current job; without a job it is starting."""

    actor: Any
    answer: Any
    deadline: float
    job: Job | None = None


@register_engine
class RayEngine(Engine):
    """Long-lived actors with one processor each; every graph is put into the object store once.

    Cells and outcomes are sent as JSON, graphs as arrays and JSON. The nodes of a cluster need the same
    version of graphsde, and what ``GRAPHSDE_PLUGINS`` names.
    """

    name, summary = "ray", "actors of a Ray cluster (--address), or of a private session on this machine"

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


class _Shift(Shift[_Hand]):
    """Of actors."""

    def __init__(self, ray: Any, cells: Sequence[Cell], size: int, limits: Limits, stopper: Stopper, say: Say) -> None:
        super().__init__(cells, size, limits, say)
        self.ray, self.stopper, self.anybody_came = ray, stopper, False
        self._graphs: dict[str, Any] = {}
        self._actor_class = ray.remote(num_cpus=1, max_restarts=0, max_task_retries=0)(CellActor)

    def hire(self) -> None:
        while len(self.crew) < min(self.size, self.unfinished):
            actor = self._actor_class.remote(os.environ.get(VARIABLE, ""))
            self.crew.append(_Hand(actor, actor.ready.remote(), time.monotonic() + self.limits.start_seconds))

    def wait(self) -> list[_Hand]:
        """Actors that have answered, died or taken too long, within a moment."""
        ready, _ = self.ray.wait([hand.answer for hand in self.crew], timeout=SECONDS_PER_WAIT)
        now = time.monotonic()
        return [hand for hand in self.crew if hand.answer in ready or now > hand.deadline]

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
                self._dismiss(hand)  # the next cell gets a new actor, whatever this one left behind
            else:
                self._give_next(hand)
        if job is not None and outcome is not None:
            yield job.cell, outcome

    def _dismiss(self, hand: _Hand) -> None:
        self.crew.remove(hand)
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
        yield from self.try_again(hand.job, cause, "an actor")

    def _did_not_come(self, cause: str) -> None:
        if cause == "hung" and self.anybody_came:  # a cluster with fewer free processors than requested
            self.size = max(1, len(self.crew))
            self.say(f"no further processor of the cluster became free: continuing with {self.size}")
            return
        if cause == "hung":
            self.did_not_start("no processor of the cluster became free", at_most=1)
        self.did_not_start(cause)

    def end(self) -> None:
        for hand in self.crew:
            self.ray.kill(hand.actor)


def _last_line(error: Exception) -> str:
    """Ray's messages are tracebacks; the cause is in their last line."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    return shorten(lines[-1].strip(), 300) if lines else type(error).__name__
