"""The stochastic Heun method."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from graphsde.dynamics.brownian import Increment
from graphsde.dynamics.field import Noise
from graphsde.dynamics.solvers.base import Carry, StepSolver, System, register_solver
from graphsde.dynamics.solvers.path_kl import kl_rate, weighted


@register_solver
class Heun(StepSolver):
    r"""Stochastic Heun; without noise, the explicit trapezoidal rule.

    .. math::
        \tilde H &= H + f \Delta t + g \Delta W, \\
        H^+ &= H + \tfrac12 (f + \tilde f) \Delta t + \tfrac12 (g + \tilde g) \Delta W

    With noise that depends on the state it converges to the **Stratonovich** solution, which differs from Itô's by the
    drift :math:`\tfrac12 g g'`; with additive noise the two are one. The path KL is the trapezoid of the rates at H and
    at the predicted state.

    Paper: Rümelin, "Numerical treatment of stochastic differential equations", SIAM J. Numer. Anal. 1982.
    """

    name = "heun"
    summary = "two evaluations; strong order 1; Stratonovich where noise depends on the state"
    paper = "Rümelin, Numerical treatment of stochastic differential equations"
    year = 1982
    strong_order: ClassVar[Mapping[Noise, float]] = {"none": 2.0, "additive": 1.0, "diagonal": 1.0}
    evaluations = 2
    stratonovich = True

    def step(
        self, system: System, t: float, dt: float, carry: Carry, noise: Increment | None
    ) -> tuple[Carry, Tensor | None]:
        (h,) = carry
        first = system.drift(t, h)
        predicted = torch.add(h, first, alpha=dt)
        start_noise: Tensor | None = None
        if noise is not None and system.diffusion is not None:
            start_noise = system.diffusion.apply(t, h, noise.dw)
            predicted = predicted.add_(start_noise)
        second = system.drift(t + dt, predicted)
        after = torch.add(h, first, alpha=0.5 * dt).add_(second, alpha=0.5 * dt)
        if start_noise is not None and noise is not None and system.diffusion is not None:
            end_noise = system.diffusion.apply(t + dt, predicted, noise.dw)
            after = after.add_(start_noise, alpha=0.5).add_(end_noise, alpha=0.5)
        if system.prior is None:
            return (after,), None
        rates = kl_rate(system, t, h, first), kl_rate(system, t + dt, predicted, second)
        return (after,), weighted(dt, (0.5, rates[0]), (0.5, rates[1]))
