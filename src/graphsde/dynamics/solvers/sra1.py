"""Rößler's SRA1 for additive noise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from graphsde.dynamics.brownian import Increment
from graphsde.dynamics.field import BoundDiffusion, Noise
from graphsde.dynamics.solvers.adjoint import ExplicitStep, Tableau, is_written_out
from graphsde.dynamics.solvers.base import Carry, StepSolver, System, register_solver
from graphsde.dynamics.solvers.path_kl import kl_rate, weighted

WEIGHTS = (1 / 3, 2 / 3)
STAGE_TIME = 3 / 4
STAGE_NOISE = 3 / 2
TABLEAU = Tableau(
    times=(0.0, STAGE_TIME),
    rows=((), (STAGE_TIME,)),
    weights=WEIGHTS,
    noise=((0.0, 0.0), (STAGE_NOISE / 2, STAGE_NOISE)),
)


@register_solver
class SRA1(StepSolver):
    r"""SRA1: strong order 1.5 for additive noise with two evaluations; without noise, Ralston's method.

    With the space-time integral :math:`I = \int_t^{t+\Delta t} W_{t,r} dr = \Delta t (\tfrac12 \Delta W + \mathcal H)`:

    .. math::
        K_1 &= f(t, H), \\
        K_2 &= f(t + \tfrac34 \Delta t, \; H + \tfrac34 \Delta t K_1 + \tfrac32 g(t + \Delta t) I / \Delta t), \\
        H^+ &= H + \Delta t (\tfrac13 K_1 + \tfrac23 K_2)
               + g(t + \Delta t) (\Delta W - I / \Delta t) + g(t) I / \Delta t.

    A diffusion that carries ``autonomous = True`` (g does not depend on time) is applied twice instead of three times.
    The path KL takes its rates at the two stages with the same weights ⅓ and ⅔.

    Paper: Rößler, "Runge–Kutta methods for the strong approximation of solutions of stochastic differential
    equations", SIAM J. Numer. Anal. 2010.
    """

    name = "sra1"
    summary = "two evaluations; strong order 1.5 with additive noise; Ralston's method without noise"
    paper = "Rößler, Runge–Kutta methods for the strong approximation of solutions of SDEs"
    year = 2010
    strong_order: ClassVar[Mapping[Noise, float]] = {"none": 2.0, "additive": 1.5}
    tableau = TABLEAU
    evaluations = 2
    needs_area = True

    def step(
        self, system: System, t: float, dt: float, carry: Carry, noise: Increment | None
    ) -> tuple[Carry, Tensor | None]:
        (h,) = carry
        if is_written_out(system):
            after, kl = ExplicitStep(TABLEAU, system, t, dt).take(h, noise)
            return (after,), kl
        at_stage: Tensor | None = None
        jump: Tensor | None = None
        if noise is not None and system.diffusion is not None:
            at_stage, jump = noise_terms(system.diffusion, t, dt, h, noise)
        first = system.drift(t, h)
        stage = torch.add(h, first, alpha=STAGE_TIME * dt)
        if at_stage is not None:
            stage = stage.add_(at_stage)
        later = t + STAGE_TIME * dt
        second = system.drift(later, stage)
        after = torch.add(h, first, alpha=WEIGHTS[0] * dt).add_(second, alpha=WEIGHTS[1] * dt)
        if jump is not None:
            after = after.add_(jump)
        if system.prior is None:
            return (after,), None
        rates = kl_rate(system, t, h, first), kl_rate(system, later, stage, second)
        return (after,), weighted(dt, (WEIGHTS[0], rates[0]), (WEIGHTS[1], rates[1]))


def mean_height(noise: Increment) -> Tensor:
    """I/Δt: the mean of W over the step, relative to its start.  # [K, S, d]"""
    return torch.add(noise.levy(), noise.dw, alpha=0.5)


def noise_terms(diffusion: BoundDiffusion, t: float, dt: float, h: Tensor, noise: Increment) -> tuple[Tensor, Tensor]:
    """What the noise adds to the second stage and to the step.  # [N, S, d], [N, S, d]"""
    mean = mean_height(noise)
    if getattr(diffusion, "autonomous", False):
        return diffusion.apply(t, h, mean.mul_(STAGE_NOISE)), diffusion.apply(t, h, noise.dw)
    early = diffusion.apply(t, h, mean)
    late = diffusion.apply(t + dt, h, mean)
    return late * STAGE_NOISE, diffusion.apply(t + dt, h, noise.dw) + (early - late)
