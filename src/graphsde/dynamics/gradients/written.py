"""Solves whose steps have their gradient written out: one node of the autograd graph for all of them.

Nothing is recorded step by step, sums of gradients are made in place, and the state's gradient stays in one memory all
the way back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from graphsde.dynamics.brownian import Increment
from graphsde.dynamics.gradients.walk import walk
from graphsde.dynamics.plan import Plan
from graphsde.dynamics.solvers.adjoint import ExplicitStep, Trace, pull_step, written_tableau


def is_written(plan: Plan) -> bool:
    return written_tableau(plan.solver, plan.system) is not None


def explicit_step(plan: Plan, step: int) -> ExplicitStep:
    tableau = written_tableau(plan.solver, plan.system)
    assert tableau is not None
    return ExplicitStep(tableau, plan.system, plan.time(step), plan.dt)


class WayBack:
    """Walks a solve backwards, holding the gradients of the state and of the drift's tensors.

    Args:
        plan: the solve.
        wanted: whether the gradient of each of the drift's tensors is.
        state_wanted: whether that of the initial state is.
        grads: of the states after one step or more and, where there is a prior, of the KL.
    """

    def __init__(self, plan: Plan, wanted: Sequence[bool], state_wanted: bool, grads: Sequence[Tensor | None]) -> None:
        self.plan, self.state_wanted = plan, state_wanted
        self.kl_grad = grads[-1] if plan.system.prior is not None else None
        self.state_grads = dict(zip([step for step in plan.saved if step > 0], grads, strict=False))
        self.totals = [
            torch.zeros_like(x) if want else None for x, want in zip(plan.system.drift.tensors, wanted, strict=True)
        ]
        self.grad: Tensor | None = None

    def step(self, step: ExplicitStep, number: int, trace: Trace) -> None:
        """Through step ``number`` (from 0)."""
        given = self.state_grads.pop(number + 1, None)
        if self.grad is None:
            # a copy, as sums are made in place and the given one is somebody else's
            self.grad = torch.zeros_like(trace.stages[0]) if given is None else given.contiguous().clone()
        elif given is not None:
            self.grad += given
        pull_step(step, trace, self.grad, self.kl_grad, self.totals, first=number == 0 and not self.state_wanted)

    def found(self) -> tuple[Tensor | None, ...]:
        """Gradients of the initial state and of the drift's tensors."""
        return (self.grad if self.state_wanted else None), *self.totals


def run_written(plan: Plan, initial: Tensor) -> tuple[list[Tensor], Tensor | None]:
    """As :func:`~graphsde.dynamics.gradients.store.run_stored`, for a plan that :func:`is_written`."""
    outputs = list(_Written.apply(plan, initial, *plan.system.drift.tensors))
    kl = outputs.pop() if plan.system.prior is not None else None
    return ([initial, *outputs] if plan.saved[0] == 0 else outputs), kl


class _Written(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, plan: Plan, initial: Tensor, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.set_materialize_grads(False)
        wanted, states, kl = set(plan.saved), list[Tensor](), None
        traces: list[Trace] = []
        h = initial
        for step in range(plan.steps):
            h, part, trace = Trace.of(explicit_step(plan, step), h, spent(plan.noise(step)))
            plan.require_finite(h, step + 1)
            traces.append(trace)
            if part is not None:
                kl = part if kl is None else kl.add_(part)
            if step + 1 in wanted:
                states.append(h)
        plan.require_finite_kl(kl)
        ctx.plan, ctx.count = plan, len(tensors)
        parts = [x for trace in traces for x in (*trace.stages, *trace.gaps, *trace.kept)]
        ctx.sizes = (len(traces[0].stages), len(traces[0].gaps), len(traces[0].kept))
        ctx.save_for_backward(initial, *tensors, *parts)
        return tuple(states) if kl is None else (*states, kl)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        plan: Plan = ctx.plan
        wanted = ctx.needs_input_grad[1:]
        saved = ctx.saved_tensors
        inputs, parts = saved[: 1 + ctx.count], saved[1 + ctx.count :]
        if torch.is_grad_enabled():
            return None, *_by_autograd(plan, inputs, wanted, grads)
        back = WayBack(plan, wanted[1:], wanted[0], grads)
        stages, gaps, kept = ctx.sizes
        each = stages + gaps + kept
        for step in reversed(range(plan.steps)):
            own = list(parts[step * each : (step + 1) * each])
            trace = Trace(own[:stages], own[stages : stages + gaps], own[stages + gaps :])
            back.step(explicit_step(plan, step), step, trace)
        return None, *back.found()


def spent(noise: Increment | None) -> Increment | None:
    return None if noise is None else replace(noise, spent=True)


def _by_autograd(
    plan: Plan, inputs: Sequence[Tensor], wanted: Sequence[bool], grads: Sequence[Tensor | None]
) -> list[Tensor | None]:
    """Where a derivative of the derivative is asked for: the solve again, recorded, under the same noise."""
    states, kl, _ = walk(plan, inputs[0])
    outputs = states if kl is None else [*states, kl]
    given = [(out, grad) for out, grad in zip(outputs, grads, strict=True) if grad is not None]
    asked = [x for x, want in zip(inputs, wanted, strict=True) if want]
    found = iter(
        torch.autograd.grad(
            [out for out, _ in given], asked, [grad for _, grad in given], create_graph=True, allow_unused=True
        )
    )
    return [next(found) if want else None for want in wanted]
