r"""The path KL between the posterior (drift f) and the prior (drift p) under one diffusion,

.. math:: \mathrm{KL} = \tfrac12 \int_0^T \lVert g^{-1} (f - p) \rVert^2 dt.

Each method integrates it with a quadrature of its own, from drifts that it has evaluated anyway. Without a prior there
is no KL and nothing is evaluated for it.

Paper: Li, Wong, Chen and Duvenaud, "Scalable gradients for stochastic differential equations", AISTATS 2020.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from graphsde.dynamics.solvers.base import System

_NODES_AT_ONCE = 4096


def kl_rate(system: System, t: float, h: Tensor, f: Tensor) -> Tensor | None:
    """½ ‖g⁻¹(f − p)‖² at (t, h), over nodes and dimensions, where ``f`` is the drift there.  # [S]"""
    if system.prior is None or system.diffusion is None:
        return None
    # two shortcuts save most passes over the state: a prior that subtracts itself, a diffusion that is one number
    gap = getattr(system.prior, "gap", None)
    difference = f - system.prior(t, h) if gap is None else gap(t, h, f)
    uniform: float | None = getattr(system.diffusion, "uniform", None)
    if uniform is None:
        return half_square_sum(system.diffusion.whiten(t, h, difference))
    return half_square_sum(difference) * uniform**-2


def half_square_sum(u: Tensor) -> Tensor:
    """½ Σ u² over nodes and dimensions, with the same bits for any number of threads.  # [N, S, d] -> [S]"""
    return _HalfSquareSum.apply(u) if u.requires_grad else _half_square_sum(u)


def weighted(dt: float, *parts: tuple[float, Tensor | None]) -> Tensor | None:
    """``dt · Σ weight · rate``, or ``None`` where there are no rates.  # [S]"""
    total: Tensor | None = None
    for weight, rate in parts:
        if rate is None:
            return None
        total = rate * (weight * dt) if total is None else total.add(rate, alpha=weight * dt)
    return total


def _half_square_sum(u: Tensor) -> Tensor:
    squares = torch.mul(u, u).flatten(1)  # [N, S·d]
    # torch splits a reduction to a single number among its threads; blocks keep every reduction inside one
    while squares.shape[1] == 1 and squares.shape[0] > _NODES_AT_ONCE:
        missing = -squares.shape[0] % _NODES_AT_ONCE
        padded = torch.nn.functional.pad(squares, (0, 0, 0, missing))
        squares = padded.view(-1, _NODES_AT_ONCE, 1).sum(1)
    return squares.sum(0).view(u.shape[1:]).sum(1).mul_(0.5)


class _HalfSquareSum(torch.autograd.Function):
    """By hand, as its derivative is u itself: a third of the work of differentiating u · u."""

    @staticmethod
    def forward(ctx: Any, u: Tensor) -> Tensor:
        ctx.save_for_backward(u)
        return _half_square_sum(u)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        (u,) = ctx.saved_tensors
        return u * grads[0].view(1, -1, 1)
