"""A calibrator for a run's model: fitted, saved with it, and the predictions updated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from graphsde.graph.graph import Graph
from graphsde.metrics.intervals import paired_intervals
from graphsde.models import Model
from graphsde.prediction import Prediction, SummarisedPrediction
from graphsde.runs.folder import RunFolder, figures_of, keep_evidence, keep_prediction, write_metrics, write_predictions
from graphsde.runs.kept_evidence import FILE as EVIDENCE
from graphsde.runs.opened import OpenedRun
from graphsde.runs.state import NewState
from graphsde.uncertainty.calibration import fit_calibrator, require_calibrator


@dataclass(frozen=True)
class CalibrationOutcome:
    """How a calibrator changed the metrics on test nodes; empty if none has a label."""

    model: Model
    graph: Graph
    before: dict[str, Any]
    after: dict[str, Any]


def calibrate_run(
    folder: RunFolder,
    by: str | None,
    *,
    samples: int | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> CalibrationOutcome:
    """Fit the calibrator ``by`` on the run's validation nodes, or remove the current one with ``None``.

    Model, predictions and test metrics are replaced together. Kept predictions are not computed again. If test nodes
    speak for the former calibrator, a warning says so and how to go back: choosing by test nodes here would spoil their
    figures.
    """
    folder.state()  # reports problems of the folder before a lock is put into it
    with folder.locked():
        run = folder.opened()
        model, graph, drawn = run.model, run.graph, samples or run.samples
        before = run.prediction(drawn)
        if by is not None:
            require_calibrator(by, model.target_kind)
        former = None if model.calibrator is None else model.calibrator.name
        bare = _uncalibrated(run, before, drawn)
        model.calibrator = None
        if by is not None and isinstance(bare, SummarisedPrediction):  # its samples must be drawn again
            after = model.calibrate(graph, by=by, samples=drawn).predict(graph, samples=drawn)
        else:
            if by is not None:
                model.calibrator = fit_calibrator(bare, graph, by=by, linear_filter=model.linear_filter())
            after = bare if model.calibrator is None else model.calibrator.apply_to(bare, graph)
        figures = figures_of(after, graph)
        if warned := _if_worse(folder, before, after, graph, former):
            say(warned)
        *epochs, last = folder.read_metrics()
        with NewState(folder.path) as state:
            files = RunFolder(state.folder)
            model.save(files.path)
            write_predictions(files, after, graph)
            write_metrics(files, [*epochs, {**last, **figures}])
            outdated = keep_prediction(files.path, after, model, drawn, say)
            if EVIDENCE not in folder.state().files:  # otherwise unchanged, like the graph
                outdated += keep_evidence(files.path, graph, bare, model, say)
            state.commit(outdated=outdated)
        return CalibrationOutcome(model, graph, figures_of(before, graph), figures)


def _if_worse(folder: RunFolder, before: Prediction, after: Prediction, graph: Graph, former: str | None) -> str:
    """A warning if the NLL of test nodes got worse by more than noise, with the way back; otherwise empty."""
    changed = paired_intervals(before, after, graph, ["nll"]).get("nll")
    if changed is None or changed.verdict != "worse":
        return ""
    old, new = figures_of(before, graph)["nll"], figures_of(after, graph)["nll"]
    return (
        f"warning: on the test nodes NLL got worse, from {old:.4g} to {new:.4g} (95 % interval of the difference "
        f"{changed.low:+.2g} to {changed.high:+.2g}). To go back to what the run had: "
        f"graphsde calibrate {folder.path} --by {former or 'none'}"
    )


def _uncalibrated(run: OpenedRun, before: Prediction, samples: int) -> Prediction:
    """What a calibrator is fitted to: part of the prediction for classes, computed again for regression."""
    model = run.model
    if model.calibrator is None:
        return before
    if (known := getattr(before, "uncalibrated", None)) is not None:
        return known
    model.calibrator = None
    return model.predict(run.graph, samples=samples)
