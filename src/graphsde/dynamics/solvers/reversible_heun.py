"""The reversible Heun method."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from graphsde.dynamics.brownian import Increment
from graphsde.dynamics.field import Noise
from graphsde.dynamics.solvers.base import Carry, ReversibleSolver, System, register_solver
from graphsde.dynamics.solvers.path_kl import kl_rate, weighted


@register_solver
class ReversibleHeun(ReversibleSolver):
    r"""Reversible Heun: one evaluation per step, and every step can be undone exactly.

    Beside the state z it carries a companion :math:`\hat z` and the drift there:

    .. math::
        \hat z^+ &= 2 z - \hat z + f(t, \hat z) \Delta t + g(t, \hat z) \Delta W, \\
        z^+ &= z + \tfrac12 \bigl( f(t, \hat z) + f(t^+, \hat z^+) \bigr) \Delta t
               + \tfrac12 \bigl( g(t, \hat z) + g(t^+, \hat z^+) \bigr) \Delta W

    With noise that depends on the state it converges to the **Stratonovich** solution. Its region of stability is a
    segment of the imaginary axis: contracting drifts need small steps. The path KL is the trapezoid of the rates at
    the companions.

    Paper: Kidger, Foster, Li and Lyons, "Efficient and accurate gradients for neural SDEs", NeurIPS 2021.
    """

    name = "reversible-heun"
    summary = "one evaluation; undoes its steps, so gradients need no stored states; Stratonovich as Heun"
    paper = "Kidger, Foster, Li and Lyons, Efficient and accurate gradients for neural SDEs"
    year = 2021
    strong_order: ClassVar[Mapping[Noise, float]] = {"none": 2.0, "additive": 1.0, "diagonal": 0.5}
    evaluations = 1
    start_evaluations = 1
    stratonovich = True

    def start(self, system: System, t: float, state: Tensor) -> Carry:
        return _carry(system, t, state, state)

    def step(
        self, system: System, t: float, dt: float, carry: Carry, noise: Increment | None
    ) -> tuple[Carry, Tensor | None]:
        z, companion, f = carry[:3]
        moved = torch.mul(z, 2.0).sub_(companion).add_(f, alpha=dt)
        after = torch.add(z, f, alpha=0.5 * dt)
        if noise is not None and system.diffusion is not None:
            start_noise = system.diffusion.apply(t, companion, noise.dw)
            moved = moved.add_(start_noise)
            after = after.add_(start_noise, alpha=0.5)
        _, _, moved_f, *moved_rate = _carry(system, t + dt, after, moved)
        after = after.add(moved_f, alpha=0.5 * dt)
        if noise is not None and system.diffusion is not None:
            after = after.add_(system.diffusion.apply(t + dt, moved, noise.dw), alpha=0.5)
        kl = weighted(dt, (0.5, carry[3]), (0.5, moved_rate[0])) if moved_rate else None
        return (after, moved, moved_f, *moved_rate), kl

    def undo(self, system: System, t: float, dt: float, carry: Carry, noise: Increment | None) -> Carry:
        z, companion, f = carry[:3]
        moved = torch.mul(z, 2.0).sub_(companion).sub_(f, alpha=dt)
        before = torch.sub(z, f, alpha=0.5 * dt)
        if noise is not None and system.diffusion is not None:
            end_noise = system.diffusion.apply(t + dt, companion, noise.dw)
            moved = moved.sub_(end_noise)
            before = before.sub_(end_noise, alpha=0.5)
        _, _, moved_f, *moved_rate = _carry(system, t, before, moved)
        before = before.sub(moved_f, alpha=0.5 * dt)
        if noise is not None and system.diffusion is not None:
            before = before.sub_(system.diffusion.apply(t, moved, noise.dw), alpha=0.5)
        return (before, moved, moved_f, *moved_rate)


def _carry(system: System, t: float, z: Tensor, companion: Tensor) -> Carry:
    """State, companion, the drift at the companion and, where there is a prior, the KL rate there."""
    f = system.drift(t, companion)
    rate = kl_rate(system, t, companion, f)
    return (z, companion, f) if rate is None else (z, companion, f, rate)
