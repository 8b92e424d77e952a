"""A calibrator for the model of a run: fitted, kept with it, and the predictions written anew."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from graphsde.base import storage
from graphsde.graph.graph import Graph
from graphsde.metrics.evaluation import evaluate, judged_nodes
from graphsde.models import Model
from graphsde.prediction import Prediction
from graphsde.runs.export import prediction_columns, write_table
from graphsde.runs.folder import RunFolder, without_nan


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
        figures = _figures(after, graph)
        _rewrite_figures(folder, figures)
        return CalibrationOutcome(model, graph, _figures(before, graph), figures)


def _figures(prediction: Prediction, graph: Graph) -> dict[str, Any]:
    return without_nan(evaluate(prediction, graph)) if judged_nodes(prediction, graph).any() else {}


def _rewrite_figures(folder: RunFolder, figures: dict[str, Any]) -> None:
    lines = folder.read_metrics()
    lines[-1] = {**lines[-1], **figures}
    storage.write_text(folder.metrics, "".join(json.dumps(line, allow_nan=False) + "\n" for line in lines))
