"""One trial of a search: a training that is given up when it falls behind what others had reached by then."""

from __future__ import annotations

from graphsde.data.graph import Graph
from graphsde.tasks.fitting import fit_timed, validation_figures
from graphsde.tasks.task import Measurement, ModelMaker, Task, TaskOptions, register_task
from graphsde.training.callbacks import Callback, EpochRecord

RUNGS = (25, 50, 100, 150)


class TuningOptions(TaskOptions):
    """Options of :class:`Tuning`.

    Args:
        thresholds: validation NLL that a training must have reached after 25, 50, 100 and 150 epochs, lest it is
            given up; none where nothing is known yet.
    """

    thresholds: tuple[float | None, ...] = ()


class _Behind(Exception):
    """Raised inside a training that is given up."""


class _Pruner(Callback):
    def __init__(self, thresholds: tuple[float | None, ...]) -> None:
        self.thresholds = dict(zip(RUNGS, thresholds, strict=False))
        self.best = float("inf")
        self.reached: list[float] = []

    def on_epoch(self, record: EpochRecord) -> None:
        if record.val_nll is not None:
            self.best = min(self.best, record.val_nll)
        if record.epoch in RUNGS:
            self.reached.append(self.best)
            limit = self.thresholds.get(record.epoch)
            if limit is not None and self.best > limit:
                raise _Behind


@register_task
class Tuning(Task):
    """Validation NLL and accuracy of some settings; test nodes are not looked at."""

    name = "tuning"
    summary = "one trial of a search: validation figures of some settings, given up early where they fall behind"
    Options = TuningOptions
    options: TuningOptions
    headline = ("val_nll", "val_accuracy", "pruned")

    def measure(self, make: ModelMaker, graph: Graph, seed: int) -> Measurement:
        pruner = _Pruner(self.options.thresholds)

        def watched(**settings: object) -> _Watched:
            return _Watched(make(**settings), pruner)

        try:
            model, cost = fit_timed(watched, graph)  # type: ignore[arg-type]
        except _Behind:
            return Measurement({"val_nll": pruner.best, "pruned": 1.0}, {"reached": pruner.reached})
        prediction = model.predict(graph, samples=self.options.samples)
        return Measurement(validation_figures(prediction, graph) | {"pruned": 0.0} | cost, {"reached": pruner.reached})


class _Watched:
    """A model whose fit has one more watcher."""

    def __init__(self, model: object, pruner: Callback) -> None:
        self.model, self.pruner = model, pruner

    def fit(self, graph: Graph) -> object:
        return self.model.fit(graph, callbacks=[self.pruner])  # type: ignore[attr-defined]
