"""A question asked again and again while one thing of the model is changed."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Literal

from pydantic import Field

from graphsde.data.graph import Graph
from graphsde.tasks.misclassification import Misclassification
from graphsde.tasks.ood import OutOfDistribution
from graphsde.tasks.task import Measurement, ModelMaker, Task, TaskOptions

KEPT = (
    *("accuracy", "micro_auroc", "aurc", "nll", "ece", "val_nll", "val_accuracy", "fit_cpu_seconds"),
    *("ood_auroc", "ood_auroc_propagated", "ood_fpr95", "ood_aurc", "ood_threshold_accuracy"),
    *("ood_auroc_all", "ood_aurc_all"),
)


class SweepOptions(TaskOptions):
    """Options of every sweep.

    Args:
        question: what is measured at each value: ``misclassification``, or ``ood`` with the last class left out.
        compat: of that question, where it is ``ood``.
        base: the split that ``ood`` starts from.
    """

    question: Literal["misclassification", "ood"] = "misclassification"
    compat: bool = False
    base: str | None = None


class Sweep(Task):
    """One model trained anew for every value; figures are called ``accuracy@value``."""

    Options = SweepOptions
    options: SweepOptions

    @abstractmethod
    def points(self, make: ModelMaker) -> list[tuple[str, dict[str, Any], int]]:
        """For every value its name, the settings it means, and the samples to predict with."""

    def require_model(self, make: ModelMaker) -> None:
        self.points(make)

    def split(self, graph: Graph) -> tuple[str, dict[str, Any]]:
        return self._question(self.options.samples).split(graph)

    def measure(self, make: ModelMaker, graph: Graph, seed: int) -> Measurement:
        metrics: dict[str, float] = {}
        curves: dict[str, list[float]] = {}
        for name, settings, samples in self.points(make):

            def changed(settings: dict[str, Any] = settings, **more: Any) -> Any:
                return make(**{**settings, **more})

            found = self._question(samples).measure(changed, graph, seed).metrics
            for key in KEPT:
                if key in found:
                    metrics[f"{key}@{name}"] = found[key]
                    curves.setdefault(key, []).append(found[key])
        return Measurement(metrics, curves)

    def _question(self, samples: int) -> Task:
        o = self.options
        if o.question == "misclassification":
            return Misclassification(split=o.split, split_options=o.split_options, samples=samples)
        return OutOfDistribution(
            leave="last", scores=(), compat=o.compat, base=o.base, split_options=o.split_options, samples=samples
        )


Samples = Field(64, ge=1, le=100_000)
