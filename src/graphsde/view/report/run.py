"""The report of a run folder: reads the run, predicts, gathers, writes."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from graphsde import storage
from graphsde.data.checks import check
from graphsde.data.graph import Graph
from graphsde.models import LGNSDE, Model
from graphsde.prediction import Prediction, Trajectories
from graphsde.runs.folder import RunFolder
from graphsde.tasks.evaluation import evaluate
from graphsde.view.report.build import write_report
from graphsde.view.report.content import ReportContent
from graphsde.view.report.run_figures import save_run_figures


def report_on_run(
    folder: RunFolder, path: Path | None = None, *, samples: int = 64, figures: Path | None = None
) -> Path:
    """Write the report of a finished run to ``path`` (default: ``report.html`` in its folder).

    Args:
        folder: of the run.
        path: where to.
        samples: per node.
        figures: a folder for every figure as PNG and CSV; ``None`` writes none.
    """
    model, graph = folder.load_model(), folder.load_graph()
    content = content_of_run(folder, model, graph, samples)
    if figures is not None:
        save_run_figures(content, model, figures)
    return write_report(content, path or folder.report)


def content_of_run(folder: RunFolder, model: Model, graph: Graph, samples: int) -> ReportContent:
    """What the report of a run shows."""
    lines = folder.read_metrics()
    prediction = model.predict(graph, samples=samples)
    metrics = evaluate(prediction, graph) if "n_test" in lines[-1] else {}
    where = json.loads(storage.read_text(folder.environment))
    facts = {
        "command": " ".join(where["command"]),
        "fitted in": f"{lines[-1]['fit_seconds']:.1f} s",
        "best epoch": lines[-1]["best_epoch"] or "—",
        "started": where["started"],
        "versions": f"graphsde {where['graphsde']}, torch {where['packages'].get('torch')}, Python {where['python']}",
    }
    history = [{**line, "train_loss": line["loss"]} for line in lines if line["kind"] == "epoch"]
    return ReportContent(
        title=f"{model.name} on {graph.name}",
        graph=graph,
        prediction=prediction,
        metrics=metrics,
        findings=check(graph).findings,
        history=history,
        model_name=model.name,
        model_settings=model.settings.model_dump(mode="json"),
        split=graph.split or "as given",
        seed=model.settings.seed,
        facts=facts,
        trajectories=_most_uncertain_paths(model, graph, prediction),
    )


def _most_uncertain_paths(model: Model, graph: Graph, prediction: Prediction) -> Trajectories | None:
    """Paths of the node that the report's table begins with; ``None`` for a model that has no paths."""
    if not isinstance(model, LGNSDE) or graph.target == "numeric" or prediction.kind != "samples":
        return None
    candidates = np.arange(graph.num_nodes) if graph.test_mask is None else np.flatnonzero(graph.test_mask)
    most = candidates[np.argmax(prediction.total[candidates])]
    return model.trajectories(graph, [int(most)], samples=min(prediction.num_samples, 64))
