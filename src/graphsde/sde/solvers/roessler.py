"""Rößler's strong order 1.5 methods: SRA1 for additive noise, SRK for diagonal noise."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor

from graphsde.sde.brownian import Increment
from graphsde.sde.field import BoundDiffusion, Noise
from graphsde.sde.solvers.adjoint import ExplicitStep, Tableau, is_written_out
from graphsde.sde.solvers.base import (
    Carry,
    Stepped,
    StepSolver,
    System,
    elementwise,
    kl_rate,
    register_solver,
    weighted,
)

SRA1_WEIGHTS = (1 / 3, 2 / 3)
STAGE_TIME = 3 / 4
STAGE_NOISE = 3 / 2
TABLEAU = Tableau(
    times=(0.0, STAGE_TIME),
    rows=((), (STAGE_TIME,)),
    weights=SRA1_WEIGHTS,
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
    paper, year = "Rößler, Runge–Kutta methods for the strong approximation of solutions of SDEs", 2010
    strong_order: ClassVar[Mapping[Noise, float]] = {"none": 2.0, "additive": 1.5}
    tableau = TABLEAU
    evaluations = 2
    needs_area = True

    def step(self, system: System, t: float, dt: float, carry: Carry, noise: Increment | None) -> Stepped:
        (h,) = carry
        if is_written_out(system):
            return ExplicitStep(TABLEAU, system, t, dt).take(h, noise)
        terms: tuple[Tensor, Tensor] | None = None
        if noise is not None and system.diffusion is not None:
            terms = noise_terms(system.diffusion, t, dt, h, noise)
        first = system.drift(t, h)
        stage = torch.add(h, first, alpha=STAGE_TIME * dt)
        if terms is not None:
            stage = stage.add_(terms[0])
        later = t + STAGE_TIME * dt
        second = system.drift(later, stage)
        after = torch.add(h, first, alpha=SRA1_WEIGHTS[0] * dt).add_(second, alpha=SRA1_WEIGHTS[1] * dt)
        if terms is not None:
            after = after.add_(terms[1])
        rates = kl_rate(system, t, h, first), kl_rate(system, later, stage, second)
        return (after,), weighted(dt, (SRA1_WEIGHTS[0], rates[0]), (SRA1_WEIGHTS[1], rates[1]))


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


WEIGHTS = (1 / 6, 1 / 6, 2 / 3)
Gain = Callable[[Tensor], Tensor]
"""``noise -> g · noise`` at one stage."""


@register_solver
class SRK(StepSolver):
    r"""Rößler's four-stage method of strong order 1.5 for diffusions that act entry by entry (Itô).

    Its drift stages are those of the third-order method with nodes 0, 1, ½ and weights ⅙, ⅙, ⅔, which is what it does
    without noise. The noise enters through the iterated integrals :math:`I_1 = \Delta W`,
    :math:`I_{11} = \tfrac12 (I_1^2 - \Delta t)`, :math:`I_{111} = \tfrac16 (I_1^3 - 3 \Delta t I_1)` and
    :math:`I_{10} = \Delta t (\tfrac12 \Delta W + \mathcal H)`. The path KL takes its rates at the drift stages with the
    drift's weights.

    Paper: Rößler, "Runge–Kutta methods for the strong approximation of solutions of stochastic differential
    equations", SIAM J. Numer. Anal. 2010 (the scheme SRI2 for scalar noise, entry by entry).
    """

    name = "srk"
    summary = "three evaluations; strong order 1.5 with diagonal noise"
    paper, year = "Rößler, Runge–Kutta methods for the strong approximation of solutions of SDEs", 2010
    strong_order: ClassVar[Mapping[Noise, float]] = {"none": 3.0, "additive": 1.5, "diagonal": 1.5}
    evaluations = 3
    needs_area = entrywise = True

    def step(self, system: System, t: float, dt: float, carry: Carry, noise: Increment | None) -> Stepped:
        (h,) = carry
        first = system.drift(t, h)
        second_state = torch.add(h, first, alpha=dt)
        second = system.drift(t + dt, second_state)
        third_state = torch.add(h, first, alpha=0.25 * dt).add_(second, alpha=0.25 * dt)
        gains: list[Gain] = []
        if noise is not None:
            mean = mean_height(noise)
            gains, last_state = self._gains(system, t, dt, h, first)
            third_state = third_state + gains[0](mean) + 0.5 * gains[1](mean)
        third = system.drift(t + 0.5 * dt, third_state)
        after = torch.add(h, first, alpha=WEIGHTS[0] * dt)
        after = after.add_(second, alpha=WEIGHTS[1] * dt).add_(third, alpha=WEIGHTS[2] * dt)
        if noise is not None:
            gains.append(self._gain(system, t + 0.25 * dt, h, torch.add(last_state, third, alpha=0.25 * dt)))
            for gain, weight in zip(gains, noise_weights(noise), strict=True):
                after = after + gain(weight)
        stages = ((t, h, first), (t + dt, second_state, second), (t + 0.5 * dt, third_state, third))
        rates = [kl_rate(system, *stage) for stage in stages]
        return (after,), weighted(dt, *zip(WEIGHTS, rates, strict=True))

    def _gains(self, system: System, t: float, dt: float, h: Tensor, f: Tensor) -> tuple[list[Gain], Tensor]:
        """The first three noise stages, and the fourth one's state without its drift."""
        times = (t, t + 0.25 * dt, t + dt)
        if system.noise == "additive":  # the stages' states don't matter
            return [self._gain(system, time, h, h) for time in times], h
        root = math.sqrt(dt)
        entries = elementwise(system, self)
        g1 = entries.scale(times[0], h)
        g2 = entries.scale(times[1], h + (0.25 * dt) * f - (0.5 * root) * g1)
        g3 = entries.scale(times[2], h + dt * f + root * g1)
        return [partial(torch.mul, g) for g in (g1, g2, g3)], h + root * (2.0 * g1 - g2 + 0.5 * g3)

    def _gain(self, system: System, t: float, h: Tensor, state: Tensor) -> Gain:
        if system.noise == "additive" and system.diffusion is not None:
            return partial(system.diffusion.apply, t, h)
        return partial(torch.mul, elementwise(system, self).scale(t, state))


def noise_weights(noise: Increment) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """What the four noise stages are multiplied by.  # [K, S, d] each"""
    dt, dw = noise.dt, noise.dw
    mean = mean_height(noise)  # I10 / Δt
    double = (dw.square() - dt) * (0.5 / math.sqrt(dt))  # I11 / √Δt
    triple = (dw.pow(3) - 3 * dt * dw) * (1 / 6 / dt)  # I111 / Δt
    return (
        2 * mean - dw + double - 2 * triple,
        (dw - double - mean) * (4 / 3) + (5 / 3) * triple,
        (2 * dw + double - 2 * mean - 2 * triple) * (1 / 3),
        triple,
    )
