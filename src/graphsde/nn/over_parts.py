"""Sums and means over all nodes of a partitioned graph; with a single part, plain torch."""

from __future__ import annotations

from typing import Any, TypeVar, overload

import torch
from torch import Tensor

from graphsde.base.world import world

N = TypeVar("N", int, float)


class _Total(torch.autograd.Function):
    """Every part's loss depends on the sum, so that its gradient is the sum of all theirs."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return world().sum(x)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        return world().sum(grads[0])


@overload
def total(x: Tensor) -> Tensor: ...
@overload
def total(x: int) -> int: ...
def total(x: Tensor | int) -> Tensor | int:
    """Sum over the parts; differentiable, for losses of which every part has its share."""
    if world().alone:
        return x
    if isinstance(x, int):
        return int(world().sum(torch.tensor(x)))
    return _Total.apply(x)


def node_mean(x: Tensor) -> Tensor:
    """Mean over the rows of all parts, in full at every part.  # [n, ...] -> [...]"""
    return x.mean(0) if world().alone else total(x.sum(0)) / max(total(len(x)), 1)


def mean_square(x: Tensor) -> Tensor:
    """Mean of the squares of all entries of all parts.  # []"""
    squares = x.square()
    return squares.mean() if world().alone else total(squares.sum()) / max(total(squares.numel()), 1)


def share_of_mean(x: Tensor, count: int | None = None) -> Tensor:
    """This part's share of the mean of all parts' entries: the shares sum up to it.

    ``count`` is the number of entries of all parts, if the caller knows it.
    """
    if world().alone:
        return x.mean()
    return x.sum() / max(total(x.numel()) if count is None else count, 1)


def everybody(x: Tensor) -> Tensor:
    """The rows of all parts, in their order; no gradient."""
    return x if world().alone else torch.cat(world().gather(x))


def add_gradients(parameters: list[Tensor]) -> None:
    """Give every part the sum of all parts' gradients."""
    if world().alone:
        return
    present = [p for p in parameters if p.requires_grad]
    flat = [(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in present]
    for dtype in dict.fromkeys(one.dtype for one in flat):
        chosen = [(p, one) for p, one in zip(present, flat, strict=True) if one.dtype == dtype]
        summed = world().sum(torch.cat([one for _, one in chosen])).split([one.numel() for _, one in chosen])
        for (p, _), grad in zip(chosen, summed, strict=True):
            p.grad = grad.view(p.shape).clone()
