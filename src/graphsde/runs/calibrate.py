"""A calibrator for a run's model: fitted, kept with it, and the predictions written anew."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from graphsde.graph.graph import Graph
from graphsde.models import Model
from graphsde.runs.folder import RunFolder, figures_of, write_metrics, write_predictions
from graphsde.runs.state import NewState


@dataclass(frozen=True)
class CalibrationOutcome:
    """What a calibrator did to the figures on test nodes; empty where there are none with a label."""

    model: Model
    graph: Graph
    before: dict[str, Any]
    after: dict[str, Any]


def calibrate_run(folder: RunFolder, by: str | None, *, samples: int | None = None) -> CalibrationOutcome:
    """Fit the calibrator ``by`` on the run's validation nodes, or take the present one away with ``None``.

    Model, predictions and test figures are replaced together.
    """
    folder.state()  # tells what is wrong with the folder before a lock is put into it
    with folder.locked():
        model, graph = folder.open()
        drawn = samples or int(folder.read_config()["samples"])
        before = model.predict(graph, samples=drawn)
        model.calibrate(graph, by=by, samples=drawn)
        after = model.predict(graph, samples=drawn)
        figures = figures_of(after, graph)
        *epochs, last = folder.read_metrics()
        with NewState(folder.path) as state:
            files = RunFolder(state.folder)
            model.save(files.path)
            write_predictions(files, after, graph)
            write_metrics(files, [*epochs, {**last, **figures}])
            state.commit()
        return CalibrationOutcome(model, graph, figures_of(before, graph), figures)
