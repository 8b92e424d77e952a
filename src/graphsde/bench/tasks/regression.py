"""Numbers in place of classes: how far off, and does the model know how far?"""

from __future__ import annotations

from graphsde.bench.tasks.task import Measurement, ModelMaker, Task, fit_timed, register_task
from graphsde.graph.graph import Graph
from graphsde.metrics.evaluation import evaluate
from graphsde.metrics.regression import density_nll


@register_task
class Regression(Task):
    """Errors, intervals and calibration on the test nodes of a graph with a numeric target."""

    name = "regression"
    summary = "errors, intervals and calibration on test nodes, for a numeric target"
    headline = ("rmse", "crps", "nll", "calibration_error")
    targets = ("numeric",)

    def measure(self, make: ModelMaker, graph: Graph, seed: int) -> Measurement:
        model, cost = fit_timed(make, graph)
        prediction = model.predict(graph, samples=self.options.samples)
        metrics = evaluate(prediction, graph)
        if graph.val_mask is not None and graph.values is not None and (graph.val_mask & graph.labelled).any():
            known = graph.val_mask & graph.labelled
            metrics["val_nll"] = density_nll(prediction.subset(known), graph.values[known])
        return Measurement(metrics | cost)
