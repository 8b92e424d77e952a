"""One model trained on the parts of a graph, which synchronise at every sparse product.

A *job* is a folder of memory-mapped arrays in the order of the parts, and ``job.json``. Every process that works on it
holds some parts and reads their slices; all parts run the ordinary training on their own nodes (see
:mod:`graphsde.base.world`), so that they hold the same weights at any time. Nothing in the folder is executed.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from graphsde.base import storage
from graphsde.base.interrupt import InterruptGuard
from graphsde.base.memory import memory_limit
from graphsde.base.world import Wire, run_parts, world
from graphsde.graph.build import require_trainable
from graphsde.graph.graph import Graph
from graphsde.graph.halo import Halo, Layout, PartMatrix
from graphsde.graph.part_graph import PartAdjacency, PartGraph
from graphsde.graph.partition import Method, partition
from graphsde.graph.sparse import SparseMatrix
from graphsde.graph.target import TARGETS
from graphsde.models.base import MODELS
from graphsde.models.neural import NeuralModel
from graphsde.models.race import Candidate
from graphsde.nn.callbacks import Callback
from graphsde.nn.checkpoint import Checkpoint, TrainState, under
from graphsde.nn.encoding import FeatureEncoder
from graphsde.nn.likelihood import TargetScale
from graphsde.nn.training import rows_of_masks
from graphsde.sde.brownian import keys_of
from graphsde.sde.marginals import row_energies
from graphsde.uncertainty.evidence import evidence_of

JOB, FIRST = "job.json", "first.safetensors"
METIS_BYTES, METIS_SHARE = 100, 0.25
"""Bytes that METIS needs per entry of the adjacency matrix, and the share of a limit that it may use."""
FEW_PARTS = 4
"""Default number of parts."""
_ROWS = 1 << 16  # of features that are encoded at once
M = TypeVar("M", bound=NeuralModel)


def prepare(model: NeuralModel, graph: Graph, folder: Path, parts: int) -> None:
    """Write the job: what every part needs of ``graph``, and what was determined on the whole graph."""
    model.resolve(graph)
    require_trainable(graph, early_stop=model.settings.early_stop)
    entrants = {one._candidate.name if one._candidate else "": one for one in model._entrants(graph)}
    entrants.setdefault("", model)
    folder.mkdir(parents=True, exist_ok=True)
    layout = Layout.of(partition(graph.adjacency, parts, method=_method(graph.num_edges)), parts)
    _write(folder, "order", layout.order)
    _write(folder, "starts", layout.starts)
    _write_rows(folder, "operator", graph.adjacency.normalized, layout)
    if graph.adjacency.directed:
        turned = sp.csr_array(graph.adjacency.normalized.T)
        turned.sort_indices()
        _write_rows(folder, "transpose", turned, layout)
    _write_nodes(folder, graph, layout, entrants.values())
    encoders = {
        one.settings.scaling: model._first_encoder or FeatureEncoder.fit(graph, one.settings.scaling)
        for one in entrants.values()
    }
    for encoder in {one.scaling: one for one in encoders.values()}.values():
        _write_features(folder, encoder, graph, layout)
    scale = model._first_scale
    if scale is None and graph.values is not None:
        scale = TargetScale.of(graph)
    if model._first_tensors is not None:
        Checkpoint(folder / FIRST).save(
            TrainState(
                {f"tensor.{name}": one for name, one in model._first_tensors.items()}
                | {f"momentum.{name}": one for name, one in model._first_momentum.items()}
            )
        )
    candidates = [one._candidate for name, one in entrants.items() if name and one._candidate is not None]
    job = {
        "model": model.name,
        "given": model._given,
        "settings": {name: one.settings.model_dump(mode="json") for name, one in entrants.items()},
        "candidates": [vars(one) for one in candidates],
        "encoders": {name: one.as_dict() for name, one in encoders.items()},
        "target": {"kind": graph.target_kind, "class_names": list(graph.class_names)},
        "scale": None if scale is None else scale.as_dict(),
        "nodes": graph.num_nodes,
        "parts": parts,
        "directed": graph.adjacency.directed,
        "name": graph.name,
    }
    storage.write_json(folder / JOB, job)  # last: once it exists, everything does


def _method(entries: int) -> Method:
    """How to partition a graph of this many entries: METIS needs memory in proportion to them, streaming hardly any."""
    limit = memory_limit()
    return "stream" if limit is not None and METIS_BYTES * entries > METIS_SHARE * limit else "auto"


def _write(folder: Path, name: str, array: np.ndarray) -> None:
    np.save(folder / f"{name}.npy", array, allow_pickle=False)


def _new(folder: Path, name: str, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    return np.lib.format.open_memmap(folder / f"{name}.npy", mode="w+", dtype=dtype, shape=shape)


def _write_rows(folder: Path, name: str, matrix: sp.csr_array, layout: Layout) -> None:
    """All rows, part by part, and the places that each part has to fetch."""
    places = layout.places()
    crow = _new(folder, f"{name}-crow", (len(layout.order) + layout.parts,), np.int64)  # every part starts with 0
    col = _new(folder, f"{name}-col", (matrix.nnz,), np.int64)
    values = _new(folder, f"{name}-values", (matrix.nnz,), np.float32)
    halos, entries = [], [0]
    for part in range(layout.parts):
        first, last = int(layout.starts[part]), int(layout.starts[part + 1])
        own_crow, own_col, own_values = layout.rows(matrix, part, places)
        begin, end = entries[-1], entries[-1] + len(own_col)
        crow[first + part : last + part + 1], col[begin:end], values[begin:end] = own_crow, own_col, own_values
        outside = own_col[(own_col < first) | (own_col >= last)]
        halos.append(np.unique(outside))
        entries.append(end)
    _write(folder, f"{name}-entries", np.array(entries))
    _write(folder, f"{name}-halo", np.concatenate(halos) if halos else np.zeros(0, np.int64))
    _write(folder, f"{name}-halo-starts", np.cumsum([0, *map(len, halos)]))


def _write_nodes(folder: Path, graph: Graph, layout: Layout, models: Any) -> None:
    order = layout.order
    _write(folder, "keys", keys_of(graph).numpy()[order])
    encoded = graph.target.encoded
    if encoded is not None:
        _write(folder, "target", encoded[order])
    for name, rows in zip(("train", "val"), rows_of_masks(graph), strict=True):
        mask = np.zeros(graph.num_nodes, dtype=bool)
        mask[rows.numpy()] = True
        _write(folder, name, mask[order])
    settings = [one.settings for one in models]
    if any(s.consistency.by_evidence and s.consistency.kind != "none" for s in settings):
        _write(folder, "tail", evidence_of(graph).tail_share()[order])
    powers = {
        s.steps + shift
        for s in settings
        if s.noise_by == "marginals" and s.sigma > 0
        for shift in (0, 1)  # smoothed noise needs one more
    }
    for power in sorted(powers):
        _write(folder, f"energies-{power}", row_energies(graph.adjacency.operator, power).numpy()[order])


def _write_features(folder: Path, encoder: FeatureEncoder, graph: Graph, layout: Layout) -> None:
    name, order = f"features-{encoder.scaling}", layout.order
    plain = isinstance(graph.features, np.ndarray) and not graph.categorical
    if plain and encoder.scaling in ("standard", "none"):
        out = _new(folder, name, graph.features.shape, np.float32)
        for first in range(0, len(order), _ROWS):
            rows = np.asarray(graph.features)[order[first : first + _ROWS]]
            some = SimpleNamespace(features=rows, categorical={}, feature_names=graph.feature_names)
            out[first : first + _ROWS] = encoder.transform(some)  # type: ignore[arg-type]
        return
    matrix = encoder.transform(graph)
    if not sp.issparse(matrix):
        _write(folder, name, np.asarray(matrix)[order])
        return
    rows = sp.csr_array(matrix)[order]
    for field in ("indptr", "indices"):
        _write(folder, f"{name}-{field}", getattr(rows, field).astype(np.int64))
    _write(folder, f"{name}-data", rows.data.astype(np.float32))
    _write(folder, f"{name}-shape", np.array(rows.shape))


@dataclass(frozen=True)
class Whole:
    """What was determined on the whole graph."""

    settings: Mapping[str, dict[str, Any]]
    candidates: Sequence[Candidate]
    encoders: Mapping[str, dict[str, Any]]

    def encoder(self, scaling: str) -> FeatureEncoder:
        return FeatureEncoder.from_dict(self.encoders[scaling])


class Energies:
    """A part's rows of :func:`~graphsde.sde.marginals.row_energies` of the whole graph."""

    def __init__(self, job: Job, rows: slice) -> None:
        self._job, self._rows = job, rows

    def energies(self, steps: int) -> Tensor:
        return torch.from_numpy(self._job.array(f"energies-{steps}")[self._rows])


class Job:
    """A job in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder)
        self.content: dict[str, Any] = storage.read_json(self.folder / JOB)

    @property
    def parts(self) -> int:
        return int(self.content["parts"])

    def array(self, name: str) -> np.ndarray:
        # copy on write: torch requires writable memory; nothing writes to it
        return np.load(self.folder / f"{name}.npy", mmap_mode="c", allow_pickle=False)

    def has(self, name: str) -> bool:
        return (self.folder / f"{name}.npy").is_file()

    @cached_property
    def layout(self) -> Layout:
        return Layout(self.array("order"), np.asarray(self.array("starts")))

    def model(self) -> NeuralModel:
        """As requested, not fitted."""
        cls = MODELS.get(self.content["model"])
        model = cls(**self.content["given"])
        assert isinstance(model, NeuralModel)
        if (scale := self.content["scale"]) is not None:
            model._first_scale = TargetScale.from_dict(scale)
        if (first := Checkpoint(self.folder / FIRST).load()) is not None:
            model._first_tensors = under("tensor.", first.tensors)
            model._first_momentum = under("momentum.", first.tensors)
        return model

    def part(self, part: int, *, shared: bool) -> PartGraph:
        """One part; ``shared`` if all of them are in this process."""
        own = slice(int(self.layout.starts[part]), int(self.layout.starts[part + 1]))
        operator = self._operator(part, own, shared)
        names = {encoder["scaling"] for encoder in self.content["encoders"].values()}
        target = self.content["target"]
        names_of_classes = [tuple(target["class_names"])] if target["class_names"] else []
        encoded = np.array(self.array("target")[own]) if self.has("target") else None
        features = {name: self._features(name, own) for name in sorted(names)}
        return PartGraph(
            PartAdjacency(operator),
            np.zeros((own.stop - own.start, 0), np.float32),
            np.asarray(self.layout.order[own]),
            TARGETS.of_kind(target["kind"])(encoded, *names_of_classes),  # type: ignore[call-arg]
            masks={name: np.array(self.array(name)[own]) for name in ("train", "val")},
            name=self.content["name"],
            keys=np.array(self.array("keys")[own]),
            encoded=features,
            whole=Whole(
                self.content["settings"],
                [Candidate(**one) for one in self.content["candidates"]],
                self.content["encoders"],
            ),
            tail_share=np.array(self.array("tail")[own]) if self.has("tail") else None,
        )

    def _operator(self, part: int, own: slice, shared: bool) -> PartMatrix:
        symmetric = not self.content["directed"]
        turned = None if symmetric else self._rows("transpose", part, own, shared, symmetric=False, turned=None)
        matrix = self._rows("operator", part, own, shared, symmetric=symmetric, turned=turned)
        if turned is not None:
            turned._other = matrix
        return matrix

    def _rows(
        self, name: str, part: int, own: slice, shared: bool, *, symmetric: bool, turned: PartMatrix | None
    ) -> PartMatrix:
        begin, end = self.array(f"{name}-entries")[part : part + 2].tolist()
        crow = self.array(f"{name}-crow")[own.start + part : own.stop + part + 1]
        col, values = self.array(f"{name}-col")[begin:end], self.array(f"{name}-values")[begin:end]
        halo = None
        if not shared:
            places, starts = self.array(f"{name}-halo"), self.array(f"{name}-halo-starts")
            each = [np.asarray(places[starts[one] : starts[one + 1]]) for one in range(self.parts)]
            wanted = [one[np.searchsorted(one, own.start) : np.searchsorted(one, own.stop)] for one in each]
            halo = Halo(self.layout.starts, part, each[part], wanted)
            size = own.stop - own.start
            inside = (col >= own.start) & (col < own.stop)
            col = np.where(inside, col - own.start, size + np.searchsorted(each[part], col))
        return PartMatrix(
            torch.from_numpy(crow),
            torch.from_numpy(col),
            torch.from_numpy(values),
            own.stop - own.start,
            first=own.start if shared else 0,
            halo=halo,
            nodes=int(self.content["nodes"]),
            symmetric=symmetric,
            turned=turned,
            found=Energies(self, own),
        )

    def _features(self, scaling: str, own: slice) -> Tensor | SparseMatrix:
        name = f"features-{scaling}"
        if self.has(name):
            return torch.from_numpy(self.array(name)[own])
        indptr = np.array(self.array(f"{name}-indptr")[own.start : own.stop + 1])
        entries = slice(int(indptr[0]), int(indptr[-1]))
        return SparseMatrix(
            torch.from_numpy(indptr - indptr[0]),
            torch.from_numpy(self.array(f"{name}-indices")[entries]),
            torch.from_numpy(self.array(f"{name}-data")[entries]),
            (own.stop - own.start, int(self.array(f"{name}-shape")[1])),
        )


class _Reader(Checkpoint):
    """For all parts but the first: they have the same values, which need not be saved twice."""

    def due(self) -> bool:
        return False

    def save(self, state: TrainState) -> None:
        pass


class _Agreed:
    """A signal that all parts agree on: they must end in the same epoch."""

    def __init__(self, interrupt: InterruptGuard | None) -> None:
        self._interrupt = interrupt

    @property
    def received(self) -> int | None:
        own = None if self._interrupt is None else self._interrupt.received
        numbers = torch.cat(world().gather(torch.tensor([own or 0])))
        return int(numbers.max()) or None


def work(
    folder: Path,
    held: Sequence[int],
    wire: Wire | None,
    *,
    callbacks: Sequence[Callback] = (),
    checkpoint: Checkpoint | None = None,
    interrupt: InterruptGuard | None = None,
) -> NeuralModel | None:
    """Train the parts of this process; returns the result if it holds the first part, otherwise ``None``.

    Args:
        folder: the job.
        held: the parts of this process.
        wire: to the other processes, if there are any.
        callbacks: for the process that holds the first part.
        checkpoint: where that process keeps the state; all read it.
        interrupt: of this process.
    """
    job = Job(folder)

    def program(part: int) -> NeuralModel:
        model = job.model()
        kept = checkpoint
        if checkpoint is not None and part:
            kept = _Reader(checkpoint.path)
        return model.fit(
            job.part(part, shared=wire is None),
            callbacks=callbacks if part == 0 else (),
            checkpoint=kept,
            interrupt=_Agreed(interrupt),  # type: ignore[arg-type]
        )

    return run_parts(program, held, wire).get(0)


Launch = Callable[[Path, int, Sequence[Callback], Checkpoint | None, InterruptGuard | None], NeuralModel]
"""Runs a job with the given number of parts and returns the fitted model."""


def in_turns(
    folder: Path,
    parts: int,
    callbacks: Sequence[Callback],
    checkpoint: Checkpoint | None,
    interrupt: InterruptGuard | None,
) -> NeuralModel:
    """All parts in this process, one at a time."""
    model = work(folder, range(parts), None, callbacks=callbacks, checkpoint=checkpoint, interrupt=interrupt)
    assert model is not None
    return model


_LAUNCH: ContextVar[Launch] = ContextVar("launch", default=in_turns)


@contextlib.contextmanager
def launched_by(launch: Launch) -> Iterator[None]:
    """Inside the block, partitioned fits are run by ``launch``."""
    token = _LAUNCH.set(launch)
    try:
        yield
    finally:
        _LAUNCH.reset(token)


def fit_in_parts(
    model: M,
    graph: Graph,
    *,
    callbacks: Sequence[Callback] = (),
    checkpoint: Checkpoint | None = None,
    interrupt: InterruptGuard | None = None,
) -> M:
    """Fit ``model`` on the parts of ``graph``; the settings say how many."""
    model.resolve(graph)
    parts = min(getattr(model.settings, "parts", None) or _parts(model, graph), graph.num_nodes)
    with _job_folder(checkpoint) as folder:
        prepare(model, graph, folder, parts)
        fitted = _LAUNCH.get()(folder, parts, callbacks, checkpoint, interrupt)
    keep = ("encoder", "module", "class_names", "calibrator", "history", "best_epoch", "settings", "standings")
    for name in (*keep, "_target_scale", "_temperature", "_momentum", "_candidate", "_posterior"):
        if hasattr(fitted, name):
            setattr(model, name, getattr(fitted, name))
    return model


def _parts(model: NeuralModel, graph: Graph) -> int:
    """How many, if not set."""
    from graphsde.models.lgnsde import LGNSDE
    from graphsde.models.ways import parts_for

    limit = memory_limit()
    return FEW_PARTS if limit is None or not isinstance(model, LGNSDE) else parts_for(model, graph, limit)


@contextlib.contextmanager
def _job_folder(checkpoint: Checkpoint | None) -> Iterator[Path]:
    """Next to the checkpoint, where other processes find it too; else a temporary one. Removed when the fit ends."""
    if checkpoint is None:
        with tempfile.TemporaryDirectory(prefix="graphsde-parts-") as temporary:
            yield Path(temporary)
        return
    folder = checkpoint.path.parent / "parts"
    shutil.rmtree(folder, ignore_errors=True)  # left by an interrupted fit: rebuilt, always the same
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
