"""One trial of a search: a fit that is pruned when it falls behind earlier trials."""

from __future__ import annotations

from typing import Any, Literal

from graphsde.bench.tasks.task import Measurement, ModelMaker, Task, TaskOptions, validation_figures
from graphsde.graph.graph import Graph
from graphsde.nn.callbacks import Callback, EpochRecord

RUNGS = (25, 50, 100, 150)


class TuningOptions(TaskOptions):
    """Options of :class:`Tuning`.

    Args:
        select: the validation metric that counts.
        thresholds: what that metric must have reached after 25, 50, 100 and 150 epochs, or the fit is pruned;
            an accuracy counts as negative, so that less is better. None if nothing is known yet.
    """

    select: Literal["nll", "accuracy"] = "nll"
    thresholds: tuple[float | None, ...] = ()


class _Behind(Exception):
    """Raised inside a fit that is pruned."""


class _Pruner(Callback):
    """Watches the first fit: of an ensemble only the first member."""

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
    """Validation NLL and accuracy of some settings; test nodes are not used."""

    name = "tuning"
    summary = "one trial of a search: validation metrics of some settings, pruned early if they fall behind"
    Options = TuningOptions
    options: TuningOptions
    headline = ("val_nll", "val_accuracy", "pruned")

    def shared_fit(self, graph: Graph) -> list[Any] | None:
        return None  # it watches the fit

    def measure(self, make: ModelMaker, graph: Graph, seed: int) -> Measurement:
        pruner = _Pruner(self.options)
        try:
            model, cost = self.fit_anew(make, graph, callbacks=[pruner])
        except _Behind:
            best = pruner.best if self.options.select == "nll" else -pruner.best
            return Measurement({f"val_{self.options.select}": best, "pruned": 1.0}, {"reached": pruner.reached})
        figures = validation_figures(self.predict(model, graph), graph)
        return Measurement(figures | {"pruned": 0.0} | cost, {"reached": pruner.reached})
