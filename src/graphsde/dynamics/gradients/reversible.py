"""Gradients in constant memory: a reversible method reconstructs its states on the way back.

Nothing is kept but the last carry. Each step is undone algebraically and redone with a graph, so the gradient is that
of the discrete forward pass, up to the rounding of the reconstruction.

Paper: Kidger, Foster, Li and Lyons, "Efficient and accurate gradients for neural SDEs", NeurIPS 2021.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from graphsde.dynamics.gradients.pullback import Pullback, gathering_tensors, needs_gradient
from graphsde.dynamics.gradients.store import run_stored
from graphsde.dynamics.gradients.walk import walk
from graphsde.dynamics.plan import Plan
from graphsde.dynamics.solvers.base import Carry, ReversibleSolver
from graphsde.errors import BadUsage


def run_reversible(plan: Plan, initial: Tensor) -> tuple[list[Tensor], Tensor | None]:
    """As :func:`~graphsde.dynamics.gradients.store.run_stored`, in memory that does not grow with the steps."""
    if not isinstance(plan.solver, ReversibleSolver):
        raise BadUsage(
            f"solver '{plan.solver.name}' can't undo its steps",
            code="E-SOLVER",
            found=f"gradients='reversible' with solver '{plan.solver.name}'",
            fix="use solver 'reversible-heun', or gradients='checkpoint'",
        )
    if not needs_gradient(plan, initial):
        return run_stored(plan, initial)
    outputs = list(_Reversible.apply(plan, initial, *gathering_tensors(plan.system)))
    kl = outputs.pop() if plan.system.prior is not None else None
    return ([initial, *outputs] if plan.saved[0] == 0 else outputs), kl


class _Reversible(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, plan: Plan, initial: Tensor, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.set_materialize_grads(False)
        states, kl, last = walk(plan, initial)
        ctx.plan, ctx.parts, ctx.tensors = plan, len(last), tensors
        ctx.save_for_backward(initial, *last, *tensors)
        return tuple(states) if kl is None else (*states, kl)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        plan: Plan = ctx.plan
        initial, *rest = ctx.saved_tensors
        carry: Carry = tuple(rest[: ctx.parts])
        pullback = Pullback.of_outputs(plan, ctx.tensors, grads)
        for step in reversed(range(plan.steps)):
            noise = plan.noise(step)
            with torch.no_grad():
                carry = plan.solver.undo(plan.system, plan.time(step), plan.dt, carry, noise)  # type: ignore[attr-defined]
            pullback.step(step, carry, noise)
        return (None, pullback.start(initial), *pullback.tensor_grads)
