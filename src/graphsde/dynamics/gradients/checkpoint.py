r"""Gradients from :math:`\lceil\sqrt L\rceil` kept states instead of L graphs.

Forward: nothing but the carry at the start of each of √L segments is kept. Backward: a segment's carries are computed
again without a graph, then its steps are redone one at a time with one. The noise is drawn again, not kept.
Peak memory: about 2√L states and the graph of one step; time: about 1.7 times that of storing.

Paper: Griewank and Walther, "Algorithm 799: revolve", ACM TOMS 2000 (the one-level variant).
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from graphsde.dynamics.gradients.pullback import Pullback, gathering_tensors, needs_gradient
from graphsde.dynamics.gradients.store import run_stored, walk
from graphsde.dynamics.plan import Plan
from graphsde.dynamics.solvers.base import Carry


def run_checkpointed(plan: Plan, initial: Tensor) -> tuple[list[Tensor], Tensor | None]:
    """As :func:`~graphsde.dynamics.gradients.store.run_stored`, in less memory."""
    if not needs_gradient(plan, initial):
        return run_stored(plan, initial)
    outputs = list(_Checkpointed.apply(plan, initial, *gathering_tensors(plan.system)))
    kl = outputs.pop() if plan.system.prior is not None else None
    return ([initial, *outputs] if plan.saved[0] == 0 else outputs), kl


def segment_length(steps: int) -> int:
    return math.isqrt(steps - 1) + 1  # ⌈√L⌉


class _Checkpointed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, plan: Plan, initial: Tensor, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.set_materialize_grads(False)
        length = segment_length(plan.steps)
        kept: list[Tensor] = []

        def keep(step: int, carry: Carry) -> None:
            if step % length == 0:
                kept.extend(carry)

        states, kl, last = walk(plan, initial, keep)
        ctx.plan, ctx.parts, ctx.tensors = plan, len(last), tensors
        ctx.save_for_backward(initial, *kept, *tensors)
        return tuple(states) if kl is None else (*states, kl)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        plan: Plan = ctx.plan
        length = segment_length(plan.steps)
        initial, *kept = ctx.saved_tensors  # asking also checks that nothing was changed in place since
        pullback = Pullback.of_outputs(plan, ctx.tensors, grads)
        retraced = plan.without_kl() if ctx.parts == 1 else plan  # a carry of several parts may hold KL rates
        for segment in reversed(range(0, plan.steps, length)):
            first = segment // length * ctx.parts
            carries: list[Carry] = [tuple(kept[first : first + ctx.parts])]
            last = min(segment + length, plan.steps)
            with torch.no_grad():
                for step in range(segment, last - 1):
                    carries.append(retraced.advance(step, carries[-1], check=False)[0])
            for step in reversed(range(segment, last)):
                pullback.step(step, carries.pop(), plan.noise(step))
        return (None, pullback.start(initial), *pullback.tensor_grads)
