"""A task repeated while one thing of a latent SDE is changed: its drift, or one of its numbers."""

from __future__ import annotations

from abc import abstractmethod
from functools import partial
from typing import Any, Literal

from graphsde.base.errors import BadUsage
from graphsde.bench.tasks.ood import OutOfDistribution
from graphsde.bench.tasks.standard import Misclassification
from graphsde.bench.tasks.task import Measurement, ModelMaker, Task, TaskOptions
from graphsde.graph.graph import Graph
from graphsde.models.lgnsde.settings import LGNSDESettings

KEPT = (
    *("accuracy", "micro_auroc", "aurc", "nll", "ece", "val_nll", "val_accuracy", "fit_cpu_seconds"),
    *("ood_auroc", "ood_auroc_propagated", "ood_fpr95", "ood_aurc", "ood_threshold_accuracy"),
    *("ood_auroc_all", "ood_aurc_all"),
)


class SweepOptions(TaskOptions):
    """Options of every sweep.

    Args:
        question: what is measured at each value: ``misclassification``, or ``ood`` with the last class left out.
        compat: of that question, if it is ``ood``.
        base: the split that ``ood`` starts from.
    """

    question: Literal["misclassification", "ood"] = "misclassification"
    compat: bool = False
    base: str | None = None


class Sweep(Task):
    """A new model trained for every value; metrics are named ``accuracy@value``."""

    Options = SweepOptions
    options: SweepOptions

    @abstractmethod
    def points(self, make: ModelMaker) -> list[tuple[str, dict[str, Any], int]]:
        """For every value its name, the settings it means, and the samples to predict with."""

    def require_model(self, make: ModelMaker) -> None:
        self.points(make)

    def split(self, graph: Graph) -> tuple[str, dict[str, Any]]:
        return self._question(self.options.samples).split(graph)

    def shared_fit(self, graph: Graph) -> list[Any] | None:
        return None  # every point has its own settings

    def measure(self, make: ModelMaker, graph: Graph, seed: int) -> Measurement:
        metrics: dict[str, float] = {}
        curves: dict[str, list[float]] = {}
        for name, settings, samples in self.points(make):
            found = self._question(samples).measure(partial(make, **settings), graph, seed).metrics
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
            raise BadUsage("unknown backbone", code="E-SETTING", found=unknown, expected=", ".join(DRIFTS))
        return [(name, DRIFTS[name], self.options.samples) for name in self.options.drifts]


VALUES: dict[str, tuple[float, ...]] = {
    "diffusion": (0.1, 0.2, 0.5, 0.8, 1.0, 1.5, 2.0, 5.0, 7.0, 10.0),
    "prior-drift": (-100.0, -10.0, -5.0, -1.0, -0.5, 0.0, 0.5, 1.0, 5.0, 10.0, 20.0, 100.0),
    "horizon": (0.01, 0.1, 0.5, 1.0, 2.0),
    "steps": (1, 2, 5, 10, 20, 50),
    "samples": (1, 2, 5, 10, 20, 64, 256),
    "kl": (0.0, 1e-4, 1e-3, 1e-2, 1e-1, 1.0),
}


class SensitivityOptions(SweepOptions):
    """Options of :class:`Sensitivity`.

    Args:
        axis: what is changed.
        values: default: those of the paper, or a grid of our own.
    """

    axis: Literal["diffusion", "prior-drift", "horizon", "steps", "samples", "kl"] = "diffusion"
    values: tuple[float, ...] | None = None


class Sensitivity(Sweep):
    """A latent SDE with other diffusion, prior drift, horizon, steps, samples or KL weight, all else equal.

    The values of ``diffusion`` and ``prior-drift`` are the paper's. ``prior-drift`` replaces the prior by a constant
    drift; ``horizon`` keeps the length of a step.
    """

    name = "sensitivity"
    summary = "one number of a latent SDE changed at a time: diffusion, prior drift, horizon, steps, samples, KL"
    Options = SensitivityOptions
    options: SensitivityOptions
    headline = ("accuracy@0.1", "accuracy@1", "accuracy@10")

    def points(self, make: ModelMaker) -> list[tuple[str, dict[str, Any], int]]:
        settings = make().settings
        if not isinstance(settings, LGNSDESettings):
            raise BadUsage("only latent SDEs have these numbers", code="E-SETTING", fix="use lgnsde or lgnsde@paper")
        o, step = self.options, settings.horizon / settings.steps
        return [
            (f"{value:g}", self._settings(value, step), int(value) if o.axis == "samples" else o.samples)
            for value in o.values or VALUES[o.axis]
        ]

    def _settings(self, value: float, step: float) -> dict[str, Any]:
        axis = self.options.axis
        if axis == "samples":
            return {}
        if axis == "prior-drift":
            return {"prior": {"name": "constant", "options": {"drift": value}}}
        if axis == "horizon":
            return {"horizon": value, "steps": max(1, round(value / step))}
        if axis == "steps":
            return {"steps": int(value)}
        return {"sigma": value} if axis == "diffusion" else {"kl_weight": value}
