r"""Gradients from about :math:`\sqrt{6L}` kept states instead of L graphs.

Forward: nothing but the carry at the start of each segment is kept. Backward: a segment's carries are computed again
without a graph, then its steps are redone one at a time with one. Noise is not kept but drawn again, and between these
two passes held where there is room. The later a segment, the more starts are kept before it, so segments get shorter
towards the end; a start is given up when its segment is done.
Peak memory: those states and the graph of one step; time: about 1.8 times that of storing.

Paper: Griewank and Walther, "Algorithm 799: revolve", ACM TOMS 2000 (a one-level variant).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from graphsde.dynamics.brownian import Increment
from graphsde.dynamics.gradients.pullback import Pullback, gathering_tensors, needs_gradient
from graphsde.dynamics.gradients.store import run_stored
from graphsde.dynamics.gradients.walk import walk
from graphsde.dynamics.gradients.written import WayBack, explicit_step, is_written, spent
from graphsde.dynamics.plan import Plan
from graphsde.dynamics.solvers.adjoint import Trace
from graphsde.dynamics.solvers.base import Carry

FEWEST = 10  # states: the graph of one step holds more, so that saving below this would not be felt
NOISE = 2  # states: increment and area of one step


def run_checkpointed(plan: Plan, initial: Tensor) -> tuple[list[Tensor], Tensor | None]:
    """As :func:`~graphsde.dynamics.gradients.store.run_stored`, in less memory."""
    if not needs_gradient(plan, initial):
        return run_stored(plan, initial)
    tensors = plan.system.drift.tensors if is_written(plan) else gathering_tensors(plan.system)
    outputs = list(_Checkpointed.apply(plan, initial, *tensors))
    kl = outputs.pop() if plan.system.prior is not None else None
    return ([initial, *outputs] if plan.saved[0] == 0 else outputs), kl


def segment_starts(steps: int) -> list[int]:
    """Where segments begin: as many of them as states may be alive, which is the less, the shorter the segments are.

    Example:
        >>> segment_starts(12)
        [0, 3, 4, 5, 6, 7, 8, 9, 10, 11]
    """
    alive = FEWEST
    while sum(_longest(alive)) < steps:
        alive += 1
    starts, left = [0], min(alive, steps)
    for longest in _longest(alive)[: left - 1]:
        left -= 1
        # every later segment has one step at least
        starts.append(starts[-1] + min(longest, steps - starts[-1] - left))
    return starts


def _longest(alive: int) -> list[int]:
    """How long segments may be, so that their carries and most of their noise fit beside the starts before them."""
    return [(alive + NOISE + 3 - before) // (1 + NOISE) for before in range(alive)]


class _Kept:
    """Carries at the starts of segments; each is handed out once."""

    def __init__(self, plan: Plan) -> None:
        self.starts = set(segment_starts(plan.steps))
        self.carries: dict[int, tuple[Carry, list[int]]] = {}

    def keep(self, step: int, carry: Carry) -> None:
        if step in self.starts:
            # detached, as a state that is handed out would otherwise hold itself alive
            self.carries[step] = tuple(x.detach() for x in carry), [x._version for x in carry]

    def give(self, step: int) -> Carry:
        carry, versions = self.carries.pop(step)
        if [x._version for x in carry] != versions:
            raise RuntimeError("a state needed for the gradient was modified by an inplace operation")
        return carry


class _Checkpointed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, plan: Plan, initial: Tensor, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.set_materialize_grads(False)
        ctx.kept = _Kept(plan)
        states, kl, last = walk(plan, initial, ctx.kept.keep)
        ctx.plan, ctx.parts, ctx.tensors = plan, len(last), tensors
        ctx.save_for_backward(initial, *tensors)
        return tuple(states) if kl is None else (*states, kl)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        plan: Plan = ctx.plan
        initial = ctx.saved_tensors[0]  # asking also checks that nothing was changed in place since
        kept: _Kept = ctx.kept
        if len(kept.carries) < len(kept.starts):  # a second way back through the same graph
            with torch.no_grad():
                walk(plan, initial, kept.keep)
        back = _Written(ctx, grads) if is_written(plan) else _Recorded(ctx, grads)
        retraced = plan.without_kl() if ctx.parts == 1 else plan  # a carry of several parts may hold KL rates
        starts, end = segment_starts(plan.steps), plan.steps
        for before, start in reversed(list(enumerate(starts))):
            room = max(FEWEST, len(starts)) + 1 - before - (end - start)
            held = _retrace(retraced, kept.give(start), start, end, room // NOISE)
            for step in reversed(range(start, end)):
                carry, noise = held.pop()
                back.step(step, carry, spent(plan.noise(step) if noise is None else noise))
            end = start
        return (None, *back.found(initial))


class _Recorded:
    """Every step is redone under autograd."""

    def __init__(self, ctx: Any, grads: tuple[Tensor | None, ...]) -> None:
        self.pullback = Pullback.of_outputs(ctx.plan, ctx.tensors, grads)

    def step(self, step: int, carry: Carry, noise: Increment | None) -> None:
        self.pullback.step(step, carry, noise)

    def found(self, initial: Tensor) -> tuple[Tensor | None, ...]:
        return self.pullback.start(initial), *self.pullback.tensor_grads


class _Written:
    """Every step is redone without a graph and its gradient worked out by hand."""

    def __init__(self, ctx: Any, grads: tuple[Tensor | None, ...]) -> None:
        self.plan: Plan = ctx.plan
        wanted = ctx.needs_input_grad[1:]
        self.back = WayBack(self.plan, wanted[1:], wanted[0], grads)

    def step(self, step: int, carry: Carry, noise: Increment | None) -> None:
        rule = explicit_step(self.plan, step)
        self.back.step(rule, step, Trace.again(rule, carry[0], noise))

    def found(self, initial: Tensor) -> tuple[Tensor | None, ...]:
        return self.back.found()


def _retrace(plan: Plan, carry: Carry, start: int, end: int, noises: int) -> list[tuple[Carry, Increment | None]]:
    """The carry before each step, and the noise of the last ``noises`` of them."""
    held: list[tuple[Carry, Increment | None]] = []
    with torch.no_grad():
        for step in range(start, end):
            noise = plan.noise(step) if step + 1 < end or noises else None
            holds = step >= end - noises
            held.append((carry, noise if holds else None))
            if step + 1 < end:
                carry = plan.step(step, carry, noise if holds or noise is None else replace(noise, spent=True))[0]
    return held
