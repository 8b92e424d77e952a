"""A question asked again and again while one thing of the model is changed: another network as drift."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Literal

from pydantic import Field

from graphsde.base.errors import BadUsage
from graphsde.bench.tasks.misclassification import Misclassification
from graphsde.bench.tasks.ood import OutOfDistribution
from graphsde.bench.tasks.task import Measurement, ModelMaker, Task, TaskOptions, register_task
from graphsde.graph.graph import Graph

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


DRIFTS: dict[str, dict[str, Any]] = {
    "gcn": {"drift": {"name": "gcn", "options": {"layers": 2, "dropout": 0.2}}},
    "gat": {"drift": {"name": "gat", "options": {"layers": 2, "heads": 4, "dropout": 0.2}}},
    "graph-heat": {"drift": {"name": "graph-heat", "options": {}}},
    "reaction": {"drift": {"name": "reaction", "options": {}}},
}


class BackboneOptions(SweepOptions):
    """Options of :class:`Backbones`.

    Args:
        drifts: which ones.
    """

    drifts: tuple[str, ...] = tuple(DRIFTS)


@register_task
class Backbones(Sweep):
    """A latent SDE (``lgnsde@paper``) with GCN, GAT, diffusion and reaction–diffusion as drift, all else equal."""

    name = "backbones"
    summary = "a latent SDE with other networks as drift: GCN, GAT, graph diffusion, reaction-diffusion"
    Options = BackboneOptions
    options: BackboneOptions
    headline = tuple(f"accuracy@{name}" for name in DRIFTS)

    def points(self, make: ModelMaker) -> list[tuple[str, dict[str, Any], int]]:
        if not hasattr(make().settings, "drift"):
            raise BadUsage("only latent SDEs have a drift", code="E-SETTING", fix="use lgnsde@paper")
        unknown = [name for name in self.options.drifts if name not in DRIFTS]
        if unknown:
            raise BadUsage("no such backbone", code="E-SETTING", found=unknown, expected=", ".join(DRIFTS))
        return [(name, DRIFTS[name], self.options.samples) for name in self.options.drifts]
