"""Every figure of a run as files: those of the page, and some that would make a page heavy."""

from __future__ import annotations

import contextlib
from pathlib import Path

import numpy as np

from graphsde.data.shifts import gaussian_noise
from graphsde.errors import BadUsage
from graphsde.models import LGNSDE, Model
from graphsde.prediction import Prediction
from graphsde.tasks.evaluation import evaluate
from graphsde.tasks.theory import TheoryOptions, measure_theory
from graphsde.tasks.theory.feature_noise import noise_distances
from graphsde.view.figures.curves import Curve
from graphsde.view.figures.noise_robustness import NoiseRobustness
from graphsde.view.figures.picture import Picture, save_both
from graphsde.view.figures.theory_panel import TheoryPanel
from graphsde.view.figures.uncertainty_graph import UncertaintyGraph
from graphsde.view.report.content import ReportContent
from graphsde.view.report.figure_blocks import figure_blocks
from graphsde.view.report.judged_nodes import judge

SEVERITIES = (0.1, 0.25, 0.5, 1.0, 2.0)
SHORT_THEORY = TheoryOptions(samples=16, paths=2, directions=1, power_steps=3)


def save_run_figures(content: ReportContent, model: Model, folder: Path) -> list[str]:
    """All of them as PNG and CSV; their names."""
    pictures = run_pictures(content, model)
    for name, picture in pictures.items():
        save_both(picture, folder, name)
    return list(pictures)


def run_pictures(content: ReportContent, model: Model) -> dict[str, Picture]:
    """What a run can show, by name; a numeric target has the figures of its page elsewhere."""
    prediction, graph = content.prediction, content.graph
    if not isinstance(prediction, Prediction):
        from graphsde.view.report.numbers import numeric_parts

        blocks = numeric_parts(content)["figures"]
        return {one.key: one.picture for one in blocks if one.picture is not None}
    blocks = figure_blocks(content, judge(graph, prediction))
    found = {one.key: one.picture for one in blocks if one.picture is not None}
    found["graph"] = UncertaintyGraph.of(graph, prediction)
    judged = "accuracy" in content.metrics
    if judged:
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
