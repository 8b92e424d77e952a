"""The standard setting: accuracy or error, and is the model's uncertainty right about it?"""

from __future__ import annotations

from graphsde.bench.tasks.task import Measurement, ModelMaker, Task, validation_figures
from graphsde.graph.graph import Graph
from graphsde.metrics.evaluation import evaluate


class Misclassification(Task):
    """Accuracy, ranking and calibration on the test nodes of a split; every metric of :func:`graphsde.evaluate`.

    The split is the public one of the citation graphs and Shchur's random one on the others, unless another is set.
    """

    name = "misclassification"
    summary = "accuracy, ranking of errors and calibration on test nodes (the standard setting)"
    headline = ("accuracy", "micro_auroc", "aurc", "nll", "ece")

    def measure(self, make: ModelMaker, graph: Graph, seed: int) -> Measurement:
        model, cost = self.fit_timed(make, graph)
        prediction = self.predict(model, graph)
        assert graph.train_mask is not None
        size = {"n_train": float(graph.train_mask.sum())}
        return Measurement(evaluate(prediction, graph) | validation_figures(prediction, graph) | size | cost)


class Regression(Task):
    """Errors, intervals and calibration on the test nodes of a regression graph."""

    name = "regression"
    summary = "errors, intervals and calibration on test nodes, for regression"
    headline = ("rmse", "crps", "nll", "calibration_error")
    targets = ("regression",)

    def measure(self, make: ModelMaker, graph: Graph, seed: int) -> Measurement:
        model, cost = self.fit_timed(make, graph)
        prediction = self.predict(model, graph)
        return Measurement(evaluate(prediction, graph) | validation_figures(prediction, graph) | cost)
