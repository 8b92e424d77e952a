"""How much the answer depends on the numbers that somebody has to choose."""

from __future__ import annotations

from typing import Any, Literal

from graphsde.base.errors import BadUsage
from graphsde.bench.tasks.sweep import Sweep, SweepOptions
from graphsde.bench.tasks.task import ModelMaker, register_task
from graphsde.models.lgnsde.settings import LGNSDESettings

Axis = Literal["diffusion", "prior-drift", "horizon", "steps", "samples", "kl"]
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
        values: to what; those of the paper, or a grid of our own, if none are given.
    """

    axis: Axis = "diffusion"
    values: tuple[float, ...] | None = None


@register_task
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
        step = settings.horizon / settings.steps
        return [
            (
                f"{value:g}",
                self._settings(value, step),
                int(value) if self.options.axis == "samples" else self.options.samples,
            )
            for value in self.options.values or VALUES[self.options.axis]
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
