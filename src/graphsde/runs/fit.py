"""One fit, from a request to a finished folder: resumes what was interrupted, refuses what does not match.

A calibrator for its model: fitted, kept with it, and the predictions written anew.
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from graphsde.base import storage
from graphsde.base.errors import BadInput, BadUsage
from graphsde.base.interrupt import Interrupted, InterruptGuard
from graphsde.base.memory import human_bytes
from graphsde.datasets.source import GraphSource
from graphsde.graph.graph import Graph
from graphsde.metrics.evaluation import evaluate, judged_nodes
from graphsde.models import MODELS, Model
from graphsde.nn.callbacks import Callback
from graphsde.nn.checkpoint import Checkpoint
from graphsde.prediction import Prediction
from graphsde.runs.export import prediction_columns, write_table
from graphsde.runs.folder import RunFolder, figures_of
from graphsde.runs.label_book import LabelBook
from graphsde.runs.rounds import KEPT, forget_rounds


@dataclass(frozen=True)
class FitRequest:
    """What to fit: a model by name with settings that differ from its defaults, a graph with its split, a seed."""

    source: GraphSource
    model: str
    settings: dict[str, Any] = field(default_factory=dict)
    seed: int = 0
    samples: int = 64


@dataclass(frozen=True)
class FitOutcome:
    folder: RunFolder
    graph: Graph
    model: Model
    prediction: Prediction
    metrics: dict[str, Any]
    resumed: bool
    already_done: bool


REPLACED_LABELS = "replaced-labels.csv"


def fit_run(
    request: FitRequest,
    folder: RunFolder,
    *,
    overwrite: bool = False,
    callbacks: Sequence[Callback] = (),
    say: Callable[[str], None] = lambda text: None,
) -> FitOutcome:
    """Fit, predict, evaluate and write everything into ``folder``.

    A finished folder with the same configuration and data is read, not fitted again; an interrupted one is resumed; any
    other is refused with the difference, unless ``overwrite``.
    """
    graph, facts = request.source.open()
    model = MODELS.get(request.model)(**{**request.settings, "seed": request.seed})
    model.resolve(graph)
    config = {
        "graph": asdict(request.source),
        "model": {"name": model.name, "settings": model.settings.model_dump(mode="json")},
        "samples": request.samples,
    }
    with folder.locked():
        if overwrite:
            _save_labels(folder, say)
            _clear(folder)
        elif folder.started:
            _refuse_another(folder, config, facts)
        if folder.finished:
            say(f"{folder.path} holds this very run already: nothing to do")
            return _finished(folder, request)
        resumed = folder.checkpoint.exists()
        if resumed:
            say(f"going on with the interrupted run in {folder.path}")
        else:
            estimate = model.estimate(graph)
            say(
                f"{model.name} on {graph.name}: up to {estimate.epochs} epochs, at most about "
                f"{_human_time(estimate.seconds)}, about {human_bytes(estimate.bytes)} of memory"
            )
            folder.write_config(config)
            folder.write_environment()
            storage.write_json(folder.graph, facts)
        begin = time.perf_counter()
        with InterruptGuard() as guard:
            try:
                model.fit(graph, callbacks=callbacks, checkpoint=Checkpoint(folder.checkpoint), interrupt=guard)
            except Interrupted as stop:
                raise Interrupted(stop.number, fix=f"run the same command again to go on ({folder.path})") from None
        seconds = time.perf_counter() - begin
        model.save(folder.path)
        prediction = model.predict(graph, samples=request.samples)
        write_table(prediction_columns(prediction, graph), folder.predictions)
        metrics: dict[str, Any] = {"fit_seconds": round(seconds, 3), "best_epoch": model.best_epoch}
        if judged_nodes(prediction, graph).any():
            metrics = evaluate(prediction, graph) | metrics
        folder.write_metrics(model, metrics)
    return FitOutcome(folder, graph, model, prediction, metrics, resumed, already_done=False)


def _finished(folder: RunFolder, request: FitRequest) -> FitOutcome:
    model, graph = folder.load_model(), folder.load_graph()
    prediction = model.predict(graph, samples=request.samples)
    metrics = {key: value for key, value in folder.read_metrics()[-1].items() if key != "kind"}
    return FitOutcome(folder, graph, model, prediction, metrics, resumed=False, already_done=True)


def _refuse_another(folder: RunFolder, config: dict[str, Any], facts: dict[str, Any]) -> None:
    then = folder.read_config()
    differences = _differences(then, json.loads(json.dumps(config)))
    if not differences and folder.graph.is_file():
        before = json.loads(storage.read_text(folder.graph))
        differences = [
            f"{key}: {before[key][:12]} then, {facts[key][:12]} now"
            for key in ("fingerprint", "split_hash")
            if before[key] != facts[key]
        ]
    if differences:
        raise BadUsage(
            f"{folder.path} holds another run ({'; '.join(differences[:5])})",
            code="E-RUN-EXISTS",
            fix="choose another --out, or give --overwrite to replace it",
        )


def _differences(then: Any, now: Any, name: str = "") -> list[str]:
    if isinstance(then, dict) and isinstance(now, dict):
        keys = sorted(set(then) | set(now))
        return [d for key in keys for d in _differences(then.get(key), now.get(key), f"{name}.{key}".lstrip("."))]
    return [] if then == now else [f"{name}: {then} then, {now} now"]


def _save_labels(folder: RunFolder, say: Callable[[str], None]) -> None:
    """Labels that people gave to a run are in no other file: they outlive it, as ``learn`` would take them again."""
    try:
        learned = LabelBook.of_run(folder.path).labels
    except BadInput:
        aside = _free(folder.path / "replaced-labels.json")
        (folder.path / "labels.json").rename(aside)
        say(f"the labels that the run had learned can't be read; their file is kept as {aside}")
        return
    if learned:
        path = _free(folder.path / REPLACED_LABELS)
        write_table({"id": [one[0] for one in learned], "label": [one[1] for one in learned]}, path)
        say(f"the run that is replaced had learned {len(learned):,} labels; they are kept in {path}")


def _free(path: Path) -> Path:
    """``path``, or the first of ``name-2``, ``name-3``, … that is not taken."""
    numbers = itertools.count(2)
    while path.exists():
        path = path.with_name(f"{path.stem.rstrip('0123456789').rstrip('-')}-{next(numbers)}{path.suffix}")
    return path


def _clear(folder: RunFolder) -> None:
    """Only files that a run writes; whatever else lies in the folder is the user's."""
    forget_rounds(folder.path)
    for path in [folder.report, folder.checkpoint, *(folder.path / name for name in KEPT)]:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise storage.io_error("delete", path, error) from error


def _human_time(seconds: float) -> str:
    if seconds < 90:
        return f"{max(seconds, 1):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


@dataclass(frozen=True)
class CalibrationOutcome:
    """What a calibrator did to the figures on test nodes; empty where there are none with a label."""

    model: Model
    graph: Graph
    before: dict[str, Any]
    after: dict[str, Any]


def calibrate_run(folder: RunFolder, by: str | None, *, samples: int | None = None) -> CalibrationOutcome:
    """Fit the calibrator ``by`` on the run's validation nodes, or take the present one away with ``None``.

    ``model.json``, ``predictions.parquet`` and the test figures in ``metrics.jsonl`` are replaced, in this order; each
    is either old or new, and running again completes what was interrupted.
    """
    with folder.locked():
        model, graph = folder.load_model(), folder.load_graph()
        drawn = samples or int(folder.read_config().get("samples", 64))
        before = model.predict(graph, samples=drawn)
        model.calibrate(graph, by=by, samples=drawn)
        after = model.predict(graph, samples=drawn)
        model.save(folder.path)
        write_table(prediction_columns(after, graph), folder.predictions)
        figures = figures_of(after, graph)
        *epochs, last = folder.read_metrics()
        folder.write_lines([*epochs, {**last, **figures}])
        return CalibrationOutcome(model, graph, figures_of(before, graph), figures)
