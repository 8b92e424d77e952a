"""The classical Runge–Kutta method for ordinary differential equations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from graphsde.dynamics.brownian import Increment
from graphsde.dynamics.field import Noise
from graphsde.dynamics.solvers.base import Carry, StepSolver, System, register_solver


@register_solver
class RK4(StepSolver):
    r"""The classical fourth-order method; equations without noise only.

    .. math:: H^+ = H + \tfrac{\Delta t}{6} (K_1 + 2 K_2 + 2 K_3 + K_4)

    Paper: Kutta, "Beitrag zur näherungsweisen Integration totaler Differentialgleichungen", Z. Math. Phys. 1901.
    """

    name = "rk4"
    summary = "four evaluations; order 4; without noise only"
    paper = "Kutta, Beitrag zur näherungsweisen Integration totaler Differentialgleichungen"
    year = 1901
    strong_order: ClassVar[Mapping[Noise, float]] = {"none": 4.0}
    evaluations = 4

    def step(
        self, system: System, t: float, dt: float, carry: Carry, noise: Increment | None
    ) -> tuple[Carry, Tensor | None]:
        (h,) = carry
        middle, end = t + 0.5 * dt, t + dt
        k1 = system.drift(t, h)
        k2 = system.drift(middle, torch.add(h, k1, alpha=0.5 * dt))
        k3 = system.drift(middle, torch.add(h, k2, alpha=0.5 * dt))
        k4 = system.drift(end, torch.add(h, k3, alpha=dt))
        after = torch.add(h, k1, alpha=dt / 6)
        return (after.add_(k2, alpha=dt / 3).add_(k3, alpha=dt / 3).add_(k4, alpha=dt / 6),), None
