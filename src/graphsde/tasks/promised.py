"""What tasks share that check a promise: random splits, and a model that may be calibrated first."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from graphsde.data.graph import Graph
from graphsde.models import Model
from graphsde.prediction import Prediction
from graphsde.tasks.fitting import fit_timed, validation_figures
from graphsde.tasks.task import ModelMaker, Task, TaskOptions


class PromiseOptions(TaskOptions):
    """Options of a task that checks a promise.

    Args:
        calibrator: fitted on validation nodes first; ``None`` for none.
        size: calibration nodes, where the split sets none aside.
    """

    calibrator: str | None = None
    size: int = Field(500, ge=1)


class PromiseTask(Task):
    """Splits are Shchur's random ones on every graph unless another is named, so that seeds differ in their test nodes;
    calibration nodes are drawn from the test nodes and not tested."""

    options: PromiseOptions

    def split(self, graph: Graph) -> tuple[str, dict[str, Any]]:
        return self.options.split or "shchur", dict(self.options.split_options)

    def predicted(self, make: ModelMaker, graph: Graph) -> tuple[Model, Prediction, dict[str, float]]:
        """A fitted model, its prediction, and what the fit took."""
        model, cost = fit_timed(make, graph)
        if self.options.calibrator is not None:
            model.calibrate(graph, by=self.options.calibrator, samples=self.options.samples)
        prediction = model.predict(graph, samples=self.options.samples)
        return model, prediction, validation_figures(prediction, graph) | cost
