r"""Euler steps of length one of a linear graph filter, the whole walk as one operation.

:math:`H_{k+1} = \kappa \hat A H_k + B` with B the source needs one sparse product and one pass over the state per step.
Its gradient, :math:`G_k = \kappa \hat A^\top G_{k+1}`, needs no state at all unless κ is learned: the gradient of H(0)
is :math:`G_0`, that of B is :math:`\sum_{k \ge 1} G_k`. So memory does not grow with the number of steps.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from graphsde.base.scratch import scratch_tensor
from graphsde.base.world import world
from graphsde.graph.sparse import LARGE_BYTES, SparseMatrix


def walk_unit_steps(adjacency: SparseMatrix, initial: Tensor, source: Tensor, kappa: Tensor, steps: int) -> Tensor:
    """H after ``steps`` steps; differentiable in H(0), B and κ.

    Args:
        adjacency: Â.
        initial, source: H(0) and B.  # [N, S, d]
        kappa: κ of each channel.  # [d]
        steps: how many.
    """
    return _Walk.apply(adjacency, steps, initial, source, kappa)


def _by_steps(adjacency: SparseMatrix, steps: int, initial: Tensor, source: Tensor, kappa: Tensor) -> Tensor:
    """The same, recorded step by step."""
    h = initial
    for _ in range(steps):
        h = torch.addcmul(source, (adjacency @ h.reshape(h.shape[0], -1)).view(h.shape), kappa)
    return h


class _Rooms:
    """Memory for consecutive steps if a state is large: two alternating buffers."""

    def __init__(self) -> None:
        self.rooms: list[Tensor] = []

    def next(self, state: Tensor) -> Tensor | None:
        parts = world().parts
        if parts * state.numel() * state.element_size() <= LARGE_BYTES or state.device.type != "cpu":
            return None
        if len(self.rooms) < 2:
            self.rooms.append(scratch_tensor(state.shape, state.dtype, parts=parts))
        else:
            self.rooms.reverse()
        return self.rooms[-1]


class _Walk(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, adjacency: SparseMatrix, steps: int, initial: Tensor, source: Tensor, kappa: Tensor
    ) -> Tensor:
        wide = (initial.shape[0], initial.shape[1] * initial.shape[2])
        row, added = kappa.repeat(initial.shape[1]), source.reshape(wide)
        ctx.adjacency, ctx.steps, heard = adjacency, steps, []
        h = initial.reshape(wide)
        rooms = _Rooms()
        for _ in range(steps):
            if ctx.needs_input_grad[4]:
                heard.append(adjacency.times(h))
                h = torch.addcmul(added, heard[-1], row)
            else:
                told = adjacency.times(h, rooms.next(h))
                h = torch.addcmul(added, told, row, out=told)
        ctx.save_for_backward(initial, source, kappa, *heard)
        return h.view(initial.shape)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Any, ...]:
        initial, source, kappa, *heard = ctx.saved_tensors
        wanted = ctx.needs_input_grad[2:]
        if torch.is_grad_enabled():  # a second derivative is requested
            asked = [x for x, want in zip((initial, source, kappa), wanted, strict=True) if want]
            again = _by_steps(ctx.adjacency, ctx.steps, initial, source, kappa)
            found = iter(torch.autograd.grad(again, asked, grads[0], create_graph=True))
            return None, None, *(next(found) if want else None for want in wanted)
        wide = (initial.shape[0], initial.shape[1] * initial.shape[2])
        row, back = kappa.repeat(initial.shape[1]), ctx.adjacency.transposed()
        grad = grads[0].reshape(wide)
        total = grad.clone() if wanted[1] else None
        of_kappa = torch.zeros_like(row) if wanted[2] else None
        rooms = _Rooms()
        for step in reversed(range(ctx.steps)):
            if of_kappa is not None:
                of_kappa += (grad * heard[step]).sum(0)
            if step or wanted[0]:
                grad = back.times(grad, rooms.next(grad)).mul_(row)
            if step and total is not None:
                total += grad
        return (
            None,
            None,
            grad.view(initial.shape) if wanted[0] else None,
            None if total is None else total.view(initial.shape),
            None if of_kappa is None else of_kappa.view(initial.shape[1:]).sum(0),
        )
