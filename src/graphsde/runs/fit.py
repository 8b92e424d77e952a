"""One fit, from a request to a finished folder: resumes an interrupted one, refuses one that does not match."""

from __future__ import annotations

import itertools
import os
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import scipy.sparse as sp

from graphsde.base import storage
from graphsde.base.errors import BadInput, BadUsage, shorten
from graphsde.base.interrupt import Interrupted, InterruptGuard
from graphsde.base.lock import refuse_if_held
from graphsde.base.memory import (
    anonymous_bytes,
    available_bytes,
    give_back_free_memory,
    human_bytes,
    memory_limit,
    peak_bytes,
    resident_bytes,
)
from graphsde.datasets.source import GraphSource
from graphsde.datasets.splits.split import FILES_SPLIT
from graphsde.graph.graph import Graph
from graphsde.graph.masks import require_trainable
from graphsde.io.table_export import write_table
from graphsde.metrics.evaluation import evaluate, judged_nodes
from graphsde.metrics.leaderboard import Leaderboard
from graphsde.models import MODELS, Model
from graphsde.models.base import Estimate
from graphsde.models.controls import LEAST_SECONDS, controls
from graphsde.models.lgnsde import LGNSDE
from graphsde.models.neural import NeuralModel
from graphsde.nn.callbacks import Callback
from graphsde.prediction import Prediction, keeps_samples, require_room_for_samples, require_room_for_sums
from graphsde.runs.folder import SAMPLES, RunContent, RunFolder, parse_config, read_facts
from graphsde.runs.kept_evidence import MOST_NODES
from graphsde.runs.kept_graph import source_files
from graphsde.runs.label_book import LabelBook
from graphsde.runs.state import HISTORY, NewState
from graphsde.runs.work import FITTING, LEARNING, plain


@dataclass(frozen=True)
class FitRequest:
    """What to fit: a model by name with settings that differ from its defaults, a graph with its split, a seed."""

    source: GraphSource
    model: str
    settings: dict[str, Any] = field(default_factory=dict)
    seed: int = 0
    samples: int = SAMPLES


@dataclass(frozen=True)
class FitOutcome:
    folder: RunFolder
    graph: Graph
    model: Model
    prediction: Prediction
    metrics: dict[str, Any]
    resumed: bool
    already_done: bool
    controls: Leaderboard | None = None


WAY_SETTINGS = ("way", "parts", "gradients")
"""Settings that a way may bring along."""
LATE_LIBRARIES = 80_000_000
"""Bytes of libraries that are loaded for writing."""
REPLACED_LABELS = "replaced-labels.csv"
FORMER_CHECKPOINT = "checkpoint.safetensors"
"""Where earlier versions kept it."""


def fit_run(
    request: FitRequest,
    folder: RunFolder,
    *,
    overwrite: bool = False,
    callbacks: Sequence[Callback] = (),
    say: Callable[[str], None] = lambda text: None,
    with_controls: bool = False,
) -> FitOutcome:
    """Fit, predict, evaluate and write everything into ``folder``.

    A finished folder with the same configuration and data is read, not fitted again; an interrupted one is resumed; any
    other is refused with the difference, unless ``overwrite``: then it stays until the new run is whole.
    ``with_controls`` also fits the controls, none of which may take longer than the fit, or 20 s.
    """
    refuse_if_held(folder.path)  # before the slow work below
    refuse_other_files(folder)
    # whatever is refused is refused before the folder is created
    files = source_files(request.source.graph)
    graph, facts = _opened(request.source, None if overwrite else folder)
    if memory_limit() is not None:
        from graphsde.graph.settled import settled_within_limit

        graph = settled_within_limit(graph)
    give_back_free_memory()  # of the reading
    model = _by_its_way(
        MODELS.get(request.model)(**{**request.settings, "seed": request.seed}),
        graph,
        request,
        None if overwrite else folder,
        say,
    )
    model.resolve(graph)
    if isinstance(model, NeuralModel):
        require_trainable(graph, early_stop=model.settings.early_stop)
    with folder.locked():
        config = {
            "graph": asdict(request.source),
            "model": {"name": model.name, "settings": model.settings.model_dump(mode="json")},
            "samples": request.samples,
        }
        if not overwrite:
            _refuse_another(folder, config, facts)
            if folder.finished:
                say(f"{folder.path} already holds this run: nothing to do")
                return _finished(folder, request)
        former = folder.path / FORMER_CHECKPOINT
        adopted = former if former.is_file() and not overwrite else None
        resumed = _begin(folder, model, graph, {"config": config, "facts": facts}, adopted, say)
        begin = time.perf_counter()
        with InterruptGuard() as guard:
            try:
                model.fit(graph, callbacks=callbacks, checkpoint=folder.work.checkpoint, interrupt=guard)
            except Interrupted as stop:
                raise Interrupted(stop.number, fix=f"run the same command again to resume ({folder.path})") from None
        seconds = time.perf_counter() - begin
        give_back_free_memory()  # of the training, before the prediction takes its own
        prediction = model.predict(graph, samples=request.samples)
        metrics: dict[str, Any] = {"fit_seconds": round(seconds, 3), "best_epoch": model.best_epoch}
        if judged_nodes(prediction, graph).any():
            metrics = evaluate(prediction, graph) | metrics
        board = None
        if with_controls:
            say("fitting baselines to compare with (--no-controls skips them)")
            board = controls(graph, prediction, name=model.name, seconds=max(seconds, LEAST_SECONDS))
        with NewState(folder.path, fresh=True) as state:
            content = RunContent(config, facts, model, prediction, graph, metrics, board, (graph, files), say)
            content.write(state.folder)
            _save_labels(folder, say)
            state.commit(removed=(FITTING, LEARNING, HISTORY, FORMER_CHECKPOINT))
    return FitOutcome(folder, graph, model, prediction, metrics, resumed, already_done=False, controls=board)


def _opened(source: GraphSource, folder: RunFolder | None) -> tuple[Graph, dict[str, Any]]:
    """The graph with its split and facts; ``folder`` may hold the same run, made by an earlier version."""
    try:
        return source.open()
    except BadInput as error:
        if error.code != "E-SPLIT-EMPTY" or folder is None or not folder.started:
            raise
        then = _asked_before(folder)
        asked = (then.get("config") or {}).get("graph")
        # files with roles but without training nodes used to get a new split
        if asked != plain(asdict(source)) or then.get("facts", {}).get("split") != FILES_SPLIT:
            raise
    return replace(source, split=FILES_SPLIT).open()


def refuse_other_files(folder: RunFolder) -> None:
    """Refuse a folder that holds something else than a run: its files would be mixed with the user's."""
    if folder.finished or folder.work.request() is not None:
        return
    try:
        names = sorted(name for name in os.listdir(folder.path) if not name.startswith("."))
    except FileNotFoundError:
        return
    except OSError as error:
        raise storage.io_error("write", folder.path, error) from error
    tables = [name for name in names if Path(name).stem in ("nodes", "edges")]
    if tables or (names and not folder.config.is_file()):
        raise BadUsage(
            f"{folder.path} holds {'a graph' if tables else 'other files'}, not a run",
            code="E-NOT-A-RUN",
            place=str(folder.path),
            found=", ".join(shorten(name, 60) for name in [*tables, *(n for n in names if n not in tables)][:5]),
            expected="a new or empty folder, or one that holds a run",
            fix=f"choose another folder, such as runs/{folder.path.resolve().name}",
        )


def _by_its_way(
    model: Model, graph: Graph, request: FitRequest, folder: RunFolder | None, say: Callable[[str], None]
) -> Model:
    """``model`` with the settings of the way that fits into memory, if the user has not chosen one.

    ``folder`` may hold an interrupted run, whose way is kept.
    """
    if not isinstance(model, LGNSDE) or model.settings.way is not None:
        return model
    from graphsde.models.ways import choose_way

    if folder is not None and folder.started:
        model.resolve(graph)
        before = (_asked_before(folder).get("config") or {}).get("model", {}).get("settings", {})
        own = {name: before.get(name) for name in WAY_SETTINGS}
        now = {name: getattr(model.settings, name) for name in WAY_SETTINGS}
        return model if own == now or before.get("way") is None else model.with_settings(**own)
    limit = memory_limit()
    room = anonymous_bytes() + available_bytes() if limit is None else limit
    way = choose_way(model, graph, room, samples=request.samples)
    if limit is not None or way.settings:
        say(f"way: {way.name} ({way.why})")
    return model.with_settings(**way.settings) if way.settings else model


def _begin(
    folder: RunFolder,
    model: Model,
    graph: Graph,
    asked: dict[str, Any],
    former: Path | None,
    say: Callable[[str], None],
) -> bool:
    """Whether an interrupted fit is resumed, perhaps one of an earlier version; a new one prints its estimated cost."""
    _require_room(model, graph, asked["config"]["samples"])
    if former is None and folder.work.request() != plain(asked):
        if isinstance(model, LGNSDE) and model.settings.way in ("partitioned", "batched"):
            # a trial epoch would need the memory of the whole graph
            say(f"{model.name} on {graph.name}: up to {model.settings.epochs} epochs; the first ones show how long")
        else:
            estimate = estimate_run(model, graph, asked["config"]["samples"])
            say(
                f"{model.name} on {graph.name}: up to {estimate.epochs} epochs, at most about "
                f"{_human_time(estimate.seconds)}, about {human_bytes(estimate.peak or 0)} of memory"
            )
    folder.work.begin(asked)
    if former is not None:
        folder.work.adopt(former)
    resumed = folder.work.checkpoint.path.exists()
    if resumed:
        say(f"resuming the interrupted run in {folder.path}")
    return resumed


def _require_room(model: Model, graph: Graph, samples: int) -> None:
    """Memory for the samples of the prediction, or for sums over them if they are not kept."""
    size = samples, graph.num_nodes, max(2, graph.num_classes)
    summed = isinstance(model, NeuralModel) and bool(graph.class_names) and not keeps_samples(*size)
    (require_room_for_sums if summed else require_room_for_samples)(*size)


def estimate_run(model: Model, graph: Graph, samples: int = SAMPLES) -> Estimate:
    """The result of :meth:`Model.estimate`, with a ``peak`` that also covers controls and writing."""
    held = resident_bytes()
    found = model.estimate(graph, samples=samples)
    fitting = max(peak_bytes(), held + found.bytes) if found.peak is None else found.peak
    return replace(found, peak=max(fitting, resident_bytes() + _bytes_after_fit(graph)))


def _bytes_after_fit(graph: Graph) -> int:
    """Memory of what follows a prediction, by arithmetic: controls, the evidence that is kept, tables."""
    if sp.issparse(graph.features):
        entries, each = int(graph.features.nnz), 90  # type: ignore[union-attr]
    else:
        entries, each = int(graph.features.size), 16
    if memory_limit() is not None:  # feature matrices are in files, and controls that do not fit are left out
        rows = float((graph.role("train") | graph.role("val")).mean())
        each_node = 200 + 80 * (graph.num_classes + 2)
        return LATE_LIBRARIES + int(8 * rows * entries) + 12 * graph.num_edges + each_node * graph.num_nodes
    controls = 28 * entries + 48 * (graph.num_edges + graph.num_nodes)
    evidence = each * entries + 1_200 * graph.num_nodes if graph.num_nodes <= MOST_NODES else 0
    tables = graph.num_nodes * (16 * (graph.num_classes + 8) + 300)
    return 16 * entries + max(controls, LATE_LIBRARIES + max(evidence, tables))


def _asked_before(folder: RunFolder) -> dict[str, Any]:
    """The configuration and facts of the run that the folder holds or has started."""
    if folder.finished:
        return {"config": folder.read_config(), "facts": folder.read_facts()}
    if (asked := folder.work.request()) is not None:
        return asked
    facts = read_facts(folder.graph) if folder.graph.is_file() else {}
    return {"config": parse_config(folder.config), "facts": facts}


def _finished(folder: RunFolder, request: FitRequest) -> FitOutcome:
    run = folder.opened()
    prediction = run.prediction(request.samples)
    metrics = {key: value for key, value in folder.read_metrics()[-1].items() if key != "kind"}
    board = folder.read_controls()
    return FitOutcome(
        folder, run.graph, run.model, prediction, metrics, resumed=False, already_done=True, controls=board
    )


def _refuse_another(folder: RunFolder, config: dict[str, Any], facts: dict[str, Any]) -> None:
    if not folder.started:
        return
    then = _asked_before(folder)
    before = then.get("config") or {}
    if (path := (before.get("graph") or {}).get("graph")) not in (None, config["graph"]["graph"]):
        # its settings follow from the other graph: comparing them would tell nothing
        raise BadUsage(
            f"{folder.path} holds a run of another graph, {shorten(str(path))}",
            code="E-RUN-EXISTS",
            fix="choose another --out, or use --overwrite to replace it",
        )
    changed = [
        f"{what}: {then['facts'][key][:12]} then, {facts[key][:12]} now"
        for key, what in (("fingerprint", "data"), ("split_hash", "split"))
        if then.get("facts", {}).get(key, facts[key]) != facts[key]
    ]
    if changed and before.get("graph") == plain(config["graph"]):  # its settings may follow from the data
        learn = f"give new labels to the run: graphsde learn {folder.path} LABELS.csv --graph {facts['graph']}; "
        raise BadUsage(
            f"{folder.path} holds a run of this graph as it was before it changed ({'; '.join(changed)})",
            code="E-RUN-EXISTS",
            fix=(learn if folder.finished else "") + "choose another --out, or use --overwrite to replace the run",
        )
    if differences := _differences(before, plain(config)):
        raise BadUsage(
            f"{folder.path} holds another run ({'; '.join(differences[:5])})",
            code="E-RUN-EXISTS",
            fix="choose another --out, or use --overwrite to replace it",
        )


def _differences(then: Any, now: Any, name: str = "") -> list[str]:
    if isinstance(then, dict) and isinstance(now, dict):
        keys = sorted(set(then) | set(now))
        return [d for key in keys for d in _differences(then.get(key), now.get(key), f"{name}.{key}".lstrip("."))]
    return [] if then == now else [f"{name}: {then} then, {now} now"]


def _save_labels(folder: RunFolder, say: Callable[[str], None]) -> None:
    """Labels that people gave to a run exist nowhere else: they are kept, in the format that ``learn`` reads."""
    try:
        learned = LabelBook.of_run(folder.path).labels
    except BadInput:
        aside = _free(folder.path / "replaced-labels.json")
        try:
            shutil.copyfile(folder.path / "labels.json", aside)
        except OSError as error:
            raise storage.io_error("write", aside, error) from error
        say(f"can't read the labels that the run had learned; their file is kept as {aside}")
        return
    if learned:
        path = _free(folder.path / REPLACED_LABELS)
        write_table({"id": [one[0] for one in learned], "label": [one[1] for one in learned]}, path)
        say(f"the replaced run had learned {len(learned):,} labels; they are kept in {path}")


def _free(path: Path) -> Path:
    """``path``, or the first of ``name-2``, ``name-3``, … that is not taken."""
    numbers = itertools.count(2)
    while path.exists():
        path = path.with_name(f"{path.stem.rstrip('0123456789').rstrip('-')}-{next(numbers)}{path.suffix}")
    return path


def _human_time(seconds: float) -> str:
    if seconds < 90:
        return f"{max(seconds, 1):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
