"""One trial of a search: a training that is given up when it falls behind what others had reached by then."""

from __future__ import annotations

from typing import Literal

from graphsde.bench.tasks.task import Measurement, ModelMaker, Task, TaskOptions, validation_figures
from graphsde.graph.graph import Graph
from graphsde.nn.callbacks import Callback, EpochRecord

RUNGS = (25, 50, 100, 150)


class TuningOptions(TaskOptions):
    """Options of :class:`Tuning`.

    Args:
        select: the validation figure that counts.
        thresholds: what that figure must have reached after 25, 50, 100 and 150 epochs, lest the training is given up;
            an accuracy is counted negative, so that less is better. None where nothing is known yet.
    """

    select: Literal["nll", "accuracy"] = "nll"
    thresholds: tuple[float | None, ...] = ()


class _Behind(Exception):
    """Raised inside a training that is given up."""


class _Pruner(Callback):
    """Watches the first training: of an ensemble, one member stands for all, and the others are not held up."""

    def __init__(self, options: TuningOptions) -> None:
        self.select = options.select
        self.thresholds = dict(zip(RUNGS, options.thresholds, strict=False))
        self.best = float("inf")
        self.reached: list[float] = []
        self.trainings = 0

    def on_start(self, epochs: int, first: int) -> None:
        self.trainings += 1

    def on_epoch(self, record: EpochRecord) -> None:
        if self.trainings > 1:
            return
        if self.select == "nll" and record.val_nll is not None:
            self.best = min(self.best, record.val_nll)
        elif self.select == "accuracy" and record.val_accuracy is not None:
            self.best = min(self.best, -record.val_accuracy)
        if record.epoch in RUNGS:
            self.reached.append(self.best)
            limit = self.thresholds.get(record.epoch)
            if limit is not None and self.best > limit:
                raise _Behind


class Tuning(Task):
    """Validation NLL and accuracy of some settings; test nodes are not looked at."""

    name = "tuning"
    summary = "one trial of a search: validation figures of some settings, given up early where they fall behind"
    Options = TuningOptions
    options: TuningOptions
    headline = ("val_nll", "val_accuracy", "pruned")

    def measure(self, make: ModelMaker, graph: Graph, seed: int) -> Measurement:
        pruner = _Pruner(self.options)
        try:
            model, cost = self.fit_timed(make, graph, callbacks=[pruner])
        except _Behind:
            best = pruner.best if self.options.select == "nll" else -pruner.best
            return Measurement({f"val_{self.options.select}": best, "pruned": 1.0}, {"reached": pruner.reached})
        figures = validation_figures(self.predict(model, graph), graph)
        return Measurement(figures | {"pruned": 0.0} | cost, {"reached": pruner.reached})
