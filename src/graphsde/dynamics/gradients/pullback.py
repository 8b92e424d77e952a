"""Gradients of one step at a time: what checkpointed and reversible solves share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from graphsde.dynamics.plan import Plan
from graphsde.dynamics.solvers.base import Carry, System
from graphsde.errors import BadUsage

Grads = list[Tensor | None]


class Pullback:
    """Walks a solve backwards, holding the gradient with respect to the carry and to the system's tensors.

    Args:
        plan: the solve.
        tensors: from :func:`gathering_tensors`.
        state_grads: gradient of each handed-out state, by step count.
        kl_grad: gradient of the path KL.  # [S]
    """

    def __init__(
        self, plan: Plan, tensors: tuple[Tensor, ...], state_grads: dict[int, Tensor], kl_grad: Tensor | None
    ) -> None:
        self.plan, self.state_grads, self.kl_grad = plan, state_grads, kl_grad
        self.tensors = tensors
        self.tensor_grads: Grads = [None] * len(self.tensors)
        self.carry_grads: Grads = []

    @classmethod
    def of_outputs(cls, plan: Plan, tensors: tuple[Tensor, ...], grads: tuple[Tensor | None, ...]) -> Pullback:
        """From the gradients of the states after one step or more and, where there is a prior, of the KL."""
        kl_grad = grads[-1] if plan.system.prior is not None else None
        saved = [step for step in plan.saved if step > 0]
        state_grads = {step: grad for step, grad in zip(saved, grads, strict=False) if grad is not None}
        return cls(plan, tensors, state_grads, kl_grad)

    def step(self, step: int, carry: Carry, noise: Any) -> None:
        """Through step ``step``, which began with ``carry``."""
        plan = self.plan

        def redo(inputs: Carry) -> list[Tensor | None]:
            after, kl = plan.step(step, inputs, noise)
            return [*after, kl]

        if step + 1 == plan.steps:
            self.carry_grads = [None] * len(carry)
        if step + 1 in self.state_grads:
            self.carry_grads[0] = _plus(self.carry_grads[0], self.state_grads[step + 1])
        self.carry_grads = self._through(redo, carry, [*self.carry_grads, self.kl_grad])

    def start(self, initial: Tensor) -> Tensor | None:
        """Through the making of the first carry: the gradient of the initial state."""
        plan = self.plan

        def redo(inputs: Carry) -> list[Tensor | None]:
            return list(plan.solver.start(plan.system, 0.0, inputs[0]))

        return self._through(redo, (initial,), self.carry_grads)[0]

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
        # what the parameters were made into before the solve (a normalised weight, say) belongs to every step's graph
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

    A tensor that was computed from others on the list (an inverse beside the thing itself) is left out, as its gradient
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
            fix="list in 'tensors' all that it was computed from and not itself, or use gradients='store'",
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
