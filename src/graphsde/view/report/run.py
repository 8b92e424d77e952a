"""The report of a run folder, and every figure of a run as files."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import numpy as np

from graphsde.acting.decision_words import other_tests
from graphsde.acting.decisions import Decisions
from graphsde.base.errors import BadUsage
from graphsde.bench.theory import TheoryOptions, measure_theory
from graphsde.bench.theory.measure import noise_distances
from graphsde.datasets.shifts import gaussian_noise
from graphsde.graph.checks import check
from graphsde.graph.graph import Graph
from graphsde.metrics.evaluation import evaluate
from graphsde.metrics.intervals import intervals
from graphsde.models import LGNSDE, Model
from graphsde.prediction import Prediction, Trajectories
from graphsde.runs.decided import before_deciding, decide_on_run
from graphsde.runs.folder import RunFolder
from graphsde.runs.opened import OpenedRun
from graphsde.view.figures.bench import Curve
from graphsde.view.figures.nodes import UncertaintyGraph
from graphsde.view.figures.picture import Picture, save_both
from graphsde.view.figures.theory import NoiseRobustness, TheoryPanel
from graphsde.view.report.build import write_report
from graphsde.view.report.content import PICTURES, ReportContent, judge
from graphsde.view.report.decided import decide_for_report
from graphsde.view.report.figure_blocks import figure_blocks

SEVERITIES = (0.1, 0.25, 0.5, 1.0, 2.0)
SHORT_THEORY = TheoryOptions(samples=16, paths=2, directions=1, power_steps=3)


@PICTURES.register("classification")
def _class_pictures(content: ReportContent, model: Model) -> dict[str, Picture]:
    graph = content.graph
    blocks = figure_blocks(content, judge(graph, content.classes))
    found = {one.key: one.picture for one in blocks if one.picture is not None}
    found["graph"] = UncertaintyGraph.of(graph, content.classes)
    if "accuracy" in content.metrics:
        found["noise"] = noise_picture(content, model)
    if isinstance(model, LGNSDE):
        with contextlib.suppress(BadUsage):  # a drift without a certified constant has no bounds to draw
            found["theory"] = TheoryPanel(measure_theory(model, graph, SHORT_THEORY))
    return found


def noise_picture(content: ReportContent, model: Model) -> NoiseRobustness:
    """Accuracy of this model over noisy features, and for a latent SDE how far its states move."""
    graph, samples = content.graph, content.prediction.num_samples
    accuracy = [float(content.metrics["accuracy"] or 0.0)]
    for severity in SEVERITIES:
        noisy = gaussian_noise(graph, severity=severity, seed=0)
        accuracy.append(evaluate(model.predict(noisy, samples=samples), noisy)["accuracy"])
    x = np.array([0.0, *SEVERITIES])
    curve = Curve(f"accuracy of {model.name}", content.model_name, x, np.array(accuracy), None, None, 1)
    none = np.zeros(0)
    if not isinstance(model, LGNSDE):
        return NoiseRobustness((curve,), none, none, none, {})
    found = noise_distances(model, graph, SEVERITIES)
    return NoiseRobustness((curve,), np.array(SEVERITIES), found.start, found.moved, found.bounds)


def report_on_run(
    folder: RunFolder,
    path: Path | None = None,
    *,
    samples: int = 64,
    figures: Path | None = None,
    tolerance: float | None = None,
) -> Path:
    """Write the report of a finished run to ``path`` (default: ``report.html`` in its folder).

    Args:
        folder: of the run.
        path: where to.
        samples: per node.
        figures: a folder for every figure as PNG and CSV; ``None`` writes none.
        tolerance: of numbers: how far off an accepted one may be; without it nothing is decided.
    """
    model, content = folder.consistently(lambda: _content(folder, samples, tolerance))
    if figures is not None:
        for name, picture in PICTURES.of(content.prediction)(content, model).items():
            save_both(picture, figures, name)
    return write_report(content, path or folder.report)


def _content(folder: RunFolder, samples: int, tolerance: float | None) -> tuple[Model, ReportContent]:
    run = folder.opened()
    return run.model, content_of_run(run, samples, tolerance)


def content_of_run(run: OpenedRun, samples: int, tolerance: float | None = None) -> ReportContent:
    """What the report of a run shows."""
    folder, model, graph = run.folder, run.model, run.graph
    lines = folder.read_metrics()
    prediction = run.prediction(samples)
    judged = "n_test" in lines[-1]
    metrics = evaluate(prediction, graph) if judged else {}
    before = before_deciding(folder.path, prediction, graph, samples, say=folder.say, tolerance=tolerance)

    def on_this_run(prediction: Prediction, graph: Graph, *, model: Model | None, **options: Any) -> Decisions:
        return decide_on_run(folder.path, prediction, graph, model, samples, before=before, **options)[0]

    decisions, undecided = decide_for_report(prediction, graph, model, tolerance, judge=on_this_run)
    where = folder.read_environment()
    facts = {
        "command": " ".join(where["command"]),
        "fitted in": f"{lines[-1]['fit_seconds']:.1f} s",
        "best epoch": lines[-1]["best_epoch"] or "—",
        "started": where["started"],
        "versions": f"graphsde {where['graphsde']}, torch {where['packages'].get('torch')}, Python {where['python']}",
    }
    if standings := getattr(model, "standings", []):
        last = [one for one in standings if one.rung == standings[-1].rung]
        runners = len({one.name for one in standings})
        by = f"NLL {last[0].val_nll:.3f}" if last[0].val_accuracy is None else f"accuracy {last[0].val_accuracy:.3f}"
        facts["settings by a race"] = f"{last[0].name} won among {runners} (validation {by})"
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
        intervals=intervals(prediction, graph) if judged else {},
        controls=folder.read_controls(),
        decisions=decisions,
        undecided=undecided,
        other_tests="" if decisions is None else other_tests(decisions.frontier, before.tests),
    )


def _most_uncertain_paths(model: Model, graph: Graph, prediction: Prediction) -> Trajectories | None:
    """Paths of the node that the report's table begins with; ``None`` for a model that has no paths."""
    if not isinstance(model, LGNSDE) or not model.has_trajectories or prediction.kind != "samples":
        return None
    candidates = np.arange(graph.num_nodes) if graph.test_mask is None else np.flatnonzero(graph.test_mask)
    most = candidates[np.argmax(prediction.total[candidates])]
    return model.trajectories(graph, [int(most)], samples=min(prediction.num_samples, 64))
