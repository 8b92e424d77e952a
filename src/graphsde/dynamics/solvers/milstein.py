"""Milstein's method for diagonal noise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from graphsde.dynamics.brownian import Increment
from graphsde.dynamics.field import Noise
from graphsde.dynamics.solvers.base import Carry, StepSolver, System, elementwise, register_solver
from graphsde.dynamics.solvers.path_kl import kl_rate, weighted


@register_solver
class Milstein(StepSolver):
    r"""Milstein's method for diffusions that act entry by entry (Itô).

    .. math:: H^+ = H + f \, \Delta t + g \, \Delta W + \tfrac12 g g' (\Delta W^2 - \Delta t)

    The path KL is the left-point sum.

    Paper: Milstein, "Approximate integration of stochastic differential equations", Theory Probab. Appl. 1974.
    """

    name = "milstein"
    summary = "one evaluation; strong order 1 with diagonal noise"
    paper = "Milstein, Approximate integration of stochastic differential equations"
    year = 1974
    strong_order: ClassVar[Mapping[Noise, float]] = {"none": 1.0, "diagonal": 1.0}
    evaluations = 1

    def require(self, system: System) -> None:
        super().require(system)
        if system.noise == "diagonal":
            elementwise(system, self)

    def step(
        self, system: System, t: float, dt: float, carry: Carry, noise: Increment | None
    ) -> tuple[Carry, Tensor | None]:
        (h,) = carry
        f = system.drift(t, h)
        after = torch.add(h, f, alpha=dt)
        if noise is not None and system.diffusion is not None:
            diffusion = elementwise(system, self)
            g = diffusion.scale(t, h)
            correction = (noise.dw.square() - dt) * diffusion.scale_slope(t, h)
            after = after + g * torch.add(noise.dw, correction, alpha=0.5)
        return (after,), weighted(dt, (1.0, kl_rate(system, t, h, f)))
