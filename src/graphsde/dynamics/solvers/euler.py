"""The Euler–Maruyama method."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from graphsde.dynamics.brownian import Increment
from graphsde.dynamics.field import Noise
from graphsde.dynamics.solvers.adjoint import ExplicitStep, Tableau, is_written_out
from graphsde.dynamics.solvers.base import Carry, StepSolver, System, register_solver
from graphsde.dynamics.solvers.path_kl import kl_rate, weighted

TABLEAU = Tableau(times=(0.0,), rows=((),), weights=(1.0,), noise=((0.0, 0.0),))


@register_solver
class Euler(StepSolver):
    r"""Euler–Maruyama; without noise, Euler's method.

    .. math:: H^+ = H + f \, \Delta t + g \, \Delta W

    The path KL is the left-point sum, which is the exact KL between the two discrete chains.

    Paper: Maruyama, "Continuous Markov processes and stochastic equations", Rend. Circ. Mat. Palermo 1955.
    """

    name = "euler"
    summary = "one evaluation; strong order 1 with additive noise, ½ with diagonal noise"
    paper = "Maruyama, Continuous Markov processes and stochastic equations"
    year = 1955
    strong_order: ClassVar[Mapping[Noise, float]] = {"none": 1.0, "additive": 1.0, "diagonal": 0.5}
    tableau = TABLEAU
    evaluations = 1

    def step(
        self, system: System, t: float, dt: float, carry: Carry, noise: Increment | None
    ) -> tuple[Carry, Tensor | None]:
        (h,) = carry
        if is_written_out(system):
            after, kl = ExplicitStep(TABLEAU, system, t, dt).take(h, noise)
            return (after,), kl
        f = system.drift(t, h)
        after = torch.add(h, f, alpha=dt)
        if noise is not None and system.diffusion is not None:
            after = after.add_(system.diffusion.apply(t, h, noise.dw))
        return (after,), weighted(dt, (1.0, kl_rate(system, t, h, f)))
