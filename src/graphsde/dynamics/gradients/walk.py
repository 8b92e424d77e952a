"""All steps of a solve, one after the other."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from graphsde.dynamics.plan import Plan
from graphsde.dynamics.solvers.base import Carry


def walk(
    plan: Plan, initial: Tensor, before_step: Callable[[int, Carry], None] | None = None
) -> tuple[list[Tensor], Tensor | None, Carry]:
    """From 0 to the horizon: the states wanted after one step or more, the path KL, the last carry."""
    wanted = set(plan.saved)
    states: list[Tensor] = []
    kl: Tensor | None = None
    carry = plan.solver.start(plan.system, 0.0, initial)
    for step in range(plan.steps):
        if before_step is not None:
            before_step(step, carry)
        carry, part = plan.advance(step, carry)
        if part is not None:
            kl = part if kl is None else kl + part
        if step + 1 in wanted:
            states.append(carry[0])
    plan.require_finite_kl(kl)
    return states, kl, carry
