"""Numbers in place of classes: how far off, and does the model know how far?"""

from __future__ import annotations

from graphsde.bench.tasks.task import Measurement, ModelMaker, Task, fit_timed, register_task, validation_figures
from graphsde.graph.graph import Graph
from graphsde.metrics.evaluation import evaluate


@register_task
class Regression(Task):
    """Errors, intervals and calibration on the test nodes of a graph with a number to predict."""

    name = "regression"
    summary = "errors, intervals and calibration on test nodes, for numbers"
    headline = ("rmse", "crps", "nll", "calibration_error")
    targets = ("regression",)

    def measure(self, make: ModelMaker, graph: Graph, seed: int) -> Measurement:
        model, cost = fit_timed(make, graph)
        prediction = model.predict(graph, samples=self.options.samples)
        return Measurement(evaluate(prediction, graph) | validation_figures(prediction, graph) | cost)
