"""How gradients go through a solve: ``store`` (time), ``checkpoint`` (memory √L), ``reversible`` (memory 1).

All three are exact derivatives of the same discrete computation; they differ only in memory and time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from graphsde.base.errors import BadUsage
from graphsde.base.scratch import to_file
from graphsde.base.world import world
from graphsde.graph.sparse import LARGE_BYTES
from graphsde.sde.brownian import Increment, spent
from graphsde.sde.plan import Plan
from graphsde.sde.solvers.adjoint import WayBack, is_written, run_written
from graphsde.sde.solvers.base import Carry, ReversibleSolver, System

Grads = list[Tensor | None]


class Pullback:
    """Walks a solve backwards, holding the gradient with respect to the carry and to the system's tensors.

    Args:
        ctx: of the solve: its plan, and the tensors, from :func:`gathering_tensors`.
        grads: of the states after one step or more and, if there is a prior, of the KL.
    """

    def __init__(self, ctx: Any, grads: Sequence[Tensor | None]) -> None:
        self.plan: Plan = ctx.plan
        self.state_grads, self.kl_grad = self.plan.of_outputs(grads)
        self.tensors: tuple[Tensor, ...] = ctx.tensors
        self.tensor_grads: Grads = [None] * len(self.tensors)
        self.carry_grads: Grads = []

    def step(self, step: int, carry: Carry, noise: Increment | None) -> None:
        """Through step ``step``, which started with ``carry`` and is recomputed under autograd."""
        plan = self.plan

        def redo(inputs: Carry) -> list[Tensor | None]:
            after, kl = plan.step(step, inputs, noise)
            return [*after, kl]

        if step + 1 == plan.steps:
            self.carry_grads = [None] * len(carry)
        if step + 1 in self.state_grads:
            self.carry_grads[0] = _plus(self.carry_grads[0], self.state_grads[step + 1])
        self.carry_grads = self._through(redo, carry, [*self.carry_grads, self.kl_grad])

    def found(self, initial: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients of the initial state, through the making of the first carry, and of the tensors."""
        plan = self.plan

        def redo(inputs: Carry) -> Carry:
            return plan.solver.start(plan.system, 0.0, inputs[0])

        return *self._through(redo, (initial,), self.carry_grads), *self.tensor_grads

    def _through(self, redo: Callable[[Carry], Sequence[Tensor | None]], inputs: Carry, out_grads: Grads) -> Grads:
        with torch.enable_grad():
            leaves = tuple(x.detach().requires_grad_() for x in inputs)
            outputs = redo(leaves)
        wanted = [
            (out, grad)
            for out, grad in zip(outputs, out_grads, strict=True)
            if out is not None and grad is not None and out.requires_grad
        ]
        if not wanted:
            return [None] * len(leaves)
        # tensors computed from parameters before the solve (a normalised weight, say) belong to every step's graph
        grads = torch.autograd.grad(
            [out for out, _ in wanted],
            [*leaves, *self.tensors],
            [grad for _, grad in wanted],
            allow_unused=True,
            retain_graph=True,
        )
        self.tensor_grads = [
            _plus(total, grad) for total, grad in zip(self.tensor_grads, grads[len(leaves) :], strict=True)
        ]
        return list(grads[: len(leaves)])


def needs_gradient(plan: Plan, initial: Tensor) -> bool:
    return torch.is_grad_enabled() and (initial.requires_grad or bool(plan.system.tensors()))


def gathering_tensors(system: System) -> tuple[Tensor, ...]:
    """The tensors of ``system`` at which step-wise gradients are gathered, such that none is counted twice.

    A tensor that was computed from others on the list (such as an inverse) is left out, since its gradient
    reaches them through every step's graph. If it was also computed from something that is not on the list, there is
    no such choice, and it is refused.
    """
    tensors = system.tensors()
    places = {_place(x) for x in tensors}
    return tuple(x for x in tensors if not _made_of_others(x, places))


def _made_of_others(x: Tensor, places: set[tuple[Any, int]]) -> bool:
    listed = unlisted = False
    seen: set[Any] = set()
    edges = [] if x.grad_fn is None else list(x.grad_fn.next_functions)
    while edges:
        node, output = edges.pop()
        if node is None or (node, output) in seen:
            continue
        seen.add((node, output))
        if (node, output) in places:
            listed = True
        elif node.next_functions:
            edges.extend(node.next_functions)
        else:
            unlisted = True  # a leaf
    if listed and unlisted:
        raise BadUsage(
            "a tensor of the drift, diffusion or prior was computed from another one of them, and from something else",
            code="E-GRADIENTS",
            found=f"a tensor of shape {tuple(x.shape)}",
            fix="list in 'tensors' what it was computed from instead of the tensor itself, or use gradients='store'",
        )
    return listed


def _place(x: Tensor) -> tuple[Any, int]:
    """Where in the graph the gradient of ``x`` is gathered."""
    edge = torch.autograd.graph.get_gradient_edge(x)
    return edge.node, edge.output_nr


def _plus(total: Tensor | None, grad: Tensor | None) -> Tensor | None:
    if total is None or grad is None:
        return grad if total is None else total
    return total + grad


def run_stored(plan: Plan, initial: Tensor) -> tuple[list[Tensor], Tensor | None]:
    """States after ``plan.saved`` steps, and the path KL; without gradients nothing is kept.  # [N, S, d] each, [S]"""
    if is_written(plan) and needs_gradient(plan, initial):
        return run_written(plan, initial)
    states, kl, _ = plan.walk(initial)
    return ([initial, *states] if plan.saved[0] == 0 else states), kl


FEWEST = 10  # states: the graph of one step holds more, so saving fewer makes no difference
FEWEST_OF_LARGE = 3  # for large states, where saving matters, at the cost of recomputing steps
NOISE = 2  # states: increment and area of one step


def run_checkpointed(plan: Plan, initial: Tensor) -> tuple[list[Tensor], Tensor | None]:
    """Like :func:`~graphsde.sde.gradients.run_stored`, in less memory."""
    if not needs_gradient(plan, initial):
        return run_stored(plan, initial)
    tensors = plan.system.drift.tensors if is_written(plan) else gathering_tensors(plan.system)
    return plan.handed_out(initial, _Checkpointed.apply(plan, initial, *tensors))


def fewest_alive(state: Tensor) -> int:
    """How many states may always be alive."""
    return FEWEST if state.numel() * state.element_size() <= LARGE_BYTES else FEWEST_OF_LARGE


def segment_starts(steps: int, fewest: int = FEWEST) -> list[int]:
    """Where segments begin: as many of them as states may be alive, which is the less, the shorter the segments are.

    Example:
        >>> segment_starts(12)
        [0, 3, 4, 5, 6, 7, 8, 9, 10, 11]
    """
    alive = fewest
    while sum(_longest(alive)) < steps:
        alive += 1
    starts, left = [0], min(alive, steps)
    for longest in _longest(alive)[: left - 1]:
        left -= 1
        # every later segment has one step at least
        starts.append(starts[-1] + min(longest, steps - starts[-1] - left))
    return starts


def _longest(alive: int) -> list[int]:
    """How long segments may be, so that their carries and most of their noise fit along with the starts before them."""
    return [(alive + NOISE + 3 - before) // (1 + NOISE) for before in range(alive)]


class _Kept:
    """Carries at the starts of segments; each is handed out once."""

    def __init__(self, plan: Plan, fewest: int) -> None:
        self.starts = set(segment_starts(plan.steps, fewest))
        self.carries: dict[int, tuple[Carry, list[int]]] = {}

    def keep(self, step: int, carry: Carry) -> None:
        if step in self.starts:
            # detached, since a returned state would otherwise keep itself alive
            kept = tuple(to_file(x.detach(), parts=world().parts) for x in carry)
            self.carries[step] = kept, [x._version for x in kept]

    def give(self, step: int) -> Carry:
        carry, versions = self.carries.pop(step)
        if [x._version for x in carry] != versions:
            raise RuntimeError("a state needed for the gradient was modified by an inplace operation")
        return carry


class _Checkpointed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, plan: Plan, initial: Tensor, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.set_materialize_grads(False)
        ctx.kept = _Kept(plan, fewest_alive(initial))
        states, kl, last = plan.walk(initial, ctx.kept.keep)
        ctx.plan, ctx.parts, ctx.tensors = plan, len(last), tensors
        ctx.save_for_backward(initial, *tensors)
        return tuple(states) if kl is None else (*states, kl)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        plan: Plan = ctx.plan
        initial = ctx.saved_tensors[0]  # access also checks that nothing was changed in place since
        kept: _Kept = ctx.kept
        if len(kept.carries) < len(kept.starts):  # a second backward pass through the same graph
            with torch.no_grad():
                plan.walk(initial, kept.keep)
        back = WayBack(ctx, grads) if is_written(plan) else Pullback(ctx, grads)
        retraced = plan.without_kl() if ctx.parts == 1 else plan  # a carry of several parts may hold KL rates
        fewest = fewest_alive(initial)
        starts, end = segment_starts(plan.steps, fewest), plan.steps
        for before, start in reversed(list(enumerate(starts))):
            room = max(fewest, len(starts)) + 1 - before - (end - start)
            held = _retrace(retraced, kept.give(start), start, end, room // NOISE)
            for step in reversed(range(start, end)):
                carry, noise = held.pop()
                back.step(step, carry, spent(plan.noise(step) if noise is None else noise))
            end = start
        return (None, *back.found(initial))


def _retrace(plan: Plan, carry: Carry, start: int, end: int, noises: int) -> list[tuple[Carry, Increment | None]]:
    """The carry before each step, and the noise of the last ``noises`` of them."""
    held: list[tuple[Carry, Increment | None]] = []
    with torch.no_grad():
        for step in range(start, end):
            noise = plan.noise(step) if step + 1 < end or noises else None
            holds = step >= end - noises
            carry = tuple(to_file(x, parts=world().parts) for x in carry)
            held.append((carry, noise if holds else None))
            if step + 1 < end:
                carry = plan.step(step, carry, noise if holds else spent(noise))[0]
    return held


def run_reversible(plan: Plan, initial: Tensor) -> tuple[list[Tensor], Tensor | None]:
    """Like :func:`~graphsde.sde.gradients.run_stored`, in memory that does not grow with the steps."""
    if not isinstance(plan.solver, ReversibleSolver):
        raise BadUsage(
            f"solver '{plan.solver.name}' can't undo its steps",
            code="E-SOLVER",
            found=f"gradients='reversible' with solver '{plan.solver.name}'",
            fix="use solver 'reversible-heun', or gradients='checkpoint'",
        )
    if not needs_gradient(plan, initial):
        return run_stored(plan, initial)
    return plan.handed_out(initial, _Reversible.apply(plan, initial, *gathering_tensors(plan.system)))


class _Reversible(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, plan: Plan, initial: Tensor, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.set_materialize_grads(False)
        states, kl, last = plan.walk(initial)
        ctx.plan, ctx.parts, ctx.tensors = plan, len(last), tensors
        ctx.save_for_backward(initial, *last, *tensors)
        return tuple(states) if kl is None else (*states, kl)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        plan: Plan = ctx.plan
        initial, *rest = ctx.saved_tensors
        carry: Carry = tuple(rest[: ctx.parts])
        pullback = Pullback(ctx, grads)
        for step in reversed(range(plan.steps)):
            noise = plan.noise(step)
            with torch.no_grad():
                carry = plan.solver.undo(plan.system, plan.time(step), plan.dt, carry, noise)  # type: ignore[attr-defined]
            pullback.step(step, carry, noise)
        return None, *pullback.found(initial)


Runner = Callable[[Plan, Tensor], tuple[list[Tensor], Tensor | None]]

GRADIENTS: dict[str, Runner] = {"store": run_stored, "checkpoint": run_checkpointed, "reversible": run_reversible}
