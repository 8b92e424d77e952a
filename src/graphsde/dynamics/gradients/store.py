"""Plain autograd: every step's graph is kept until the way back."""

from __future__ import annotations

from torch import Tensor

from graphsde.dynamics.gradients.pullback import needs_gradient
from graphsde.dynamics.gradients.walk import walk
from graphsde.dynamics.gradients.written import is_written, run_written
from graphsde.dynamics.plan import Plan


def run_stored(plan: Plan, initial: Tensor) -> tuple[list[Tensor], Tensor | None]:
    """States after ``plan.saved`` steps, and the path KL; without gradients nothing is kept.  # [N, S, d] each, [S]"""
    if is_written(plan) and needs_gradient(plan, initial):
        return run_written(plan, initial)
    states, kl, _ = walk(plan, initial)
    return ([initial, *states] if plan.saved[0] == 0 else states), kl
