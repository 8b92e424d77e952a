r"""Explicit Runge–Kutta steps with additive noise, their gradient written out.

A step makes stages :math:`X_i = H + \Delta t \sum_{j<i} a_{ij} K_j + n_i` and slopes
:math:`K_i = f(t + c_i \Delta t, X_i)`, then

.. math:: H^+ = H + \Delta t \sum_i b_i K_i + n, \quad
          \mathrm{KL} = \Delta t \sum_i b_i \frac{\lVert u_i \rVert^2}{2 \sigma^2}, \quad u_i = K_i - p(X_i).

With G the gradient of :math:`H^+`, k that of the KL, :math:`\kappa_i = k \Delta t b_i / \sigma^2` and a prior whose
derivative is the number -θ, the way back is, from the last stage to the first,

.. math:: \bar K_i = \Delta t b_i G + \Delta t \sum_{j>i} a_{ji} \bar X_j + \kappa_i u_i, \quad
          \bar X_i = (\partial f / \partial X)^\top \bar K_i + \theta \kappa_i u_i, \quad
          \bar H = G + \sum_i \bar X_i.

That is one node of the autograd graph per step, and fewer passes over the state than autograd takes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from graphsde.dynamics.solvers.base import System
from graphsde.dynamics.solvers.path_kl import half_square_sum, weighted

Kept = tuple[Tensor, ...]


class WrittenDrift(Protocol):
    """A bound drift that knows its own gradient."""

    tensors: tuple[Tensor, ...]

    def evaluate(self, t: float, h: Tensor) -> tuple[Tensor, Kept]:
        """The value, without a graph, and what :meth:`pull` will need besides ``h``."""

    def pull(self, t: float, h: Tensor, kept: Kept, grad: Tensor, wanted: list[bool]) -> list[Tensor | None]:
        """Gradients of ``h`` and of ``tensors``, of those that are wanted; the first may be changed in place."""

    def __call__(self, t: float, h: Tensor) -> Tensor: ...


@dataclass(frozen=True)
class Tableau:
    """The coefficients of a method: c, the rows of a below the diagonal, b."""

    times: tuple[float, ...]
    rows: tuple[tuple[float, ...], ...]
    weights: tuple[float, ...]


@dataclass(frozen=True)
class ExplicitStep:
    """One step of one method from t to t + dt.

    Args:
        tableau, system, t, dt: which.
        stage_noise: n_i; ``None`` where there is none.  # [N, S, d] each
        jump: n.  # [N, S, d]
    """

    tableau: Tableau
    system: System
    t: float
    dt: float
    stage_noise: tuple[Tensor | None, ...]
    jump: Tensor | None

    def take(self, h: Tensor) -> tuple[Tensor, Tensor | None]:
        """The new state and the KL of the step.  # [N, S, d], [S]"""
        return _Step.apply(self, h, *self.system.drift.tensors)

    def run(
        self, h: Tensor, field: Callable[[float, Tensor], Tensor], gaps: list[Tensor]
    ) -> tuple[Tensor, Tensor | None]:
        """The step itself, differentiable where ``field`` is; leaves the u_i in ``gaps``."""
        slopes: list[Tensor] = []
        for time, row, noise in zip(self.tableau.times, self.tableau.rows, self.stage_noise, strict=True):
            x, t = self._moved(h, row, slopes, noise), self.t + time * self.dt
            slopes.append(field(t, x))
            if self.system.prior is not None:
                gaps.append(self.system.prior.gap(t, x, slopes[-1]))  # type: ignore[attr-defined]
        after = self._moved(h, self.tableau.weights, slopes, self.jump)
        rates = [half_square_sum(u) * self.precision for u in gaps]
        return after, weighted(self.dt, *zip(self.tableau.weights, rates, strict=False))

    def _moved(self, h: Tensor, row: tuple[float, ...], slopes: list[Tensor], noise: Tensor | None) -> Tensor:
        x = h
        for a, slope in zip(row, slopes, strict=False):
            x = torch.add(x, slope, alpha=a * self.dt) if x is h else x.add_(slope, alpha=a * self.dt)
        if noise is None:
            return x
        return x + noise if x is h else x.add_(noise)

    @property
    def precision(self) -> float:
        """1/σ²"""
        return self.system.diffusion.uniform**-2  # type: ignore[union-attr]


def is_written_out(system: System) -> bool:
    """Whether gradients are wanted and every part of the equation fits :class:`ExplicitStep`."""
    return (
        torch.is_grad_enabled()
        and hasattr(system.drift, "pull")
        and (system.diffusion is None or getattr(system.diffusion, "uniform", None) is not None)
        and (system.prior is None or hasattr(system.prior, "gap"))
    )


class _Step(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, step: ExplicitStep, h: Tensor, *tensors: Tensor) -> tuple[Tensor, Tensor | None]:
        ctx.set_materialize_grads(False)
        stages: list[Tensor] = []
        gaps: list[Tensor] = []

        def field(t: float, x: Tensor) -> Tensor:
            slope, kept = step.system.drift.evaluate(t, x)  # type: ignore[attr-defined]
            stages.extend((x, *kept))
            return slope

        after, kl = step.run(h, field, gaps)
        ctx.step, ctx.stages = step, len(stages)
        ctx.save_for_backward(h, *tensors, *stages, *gaps)
        return after, kl

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        step, wanted = ctx.step, list(ctx.needs_input_grad[1:])
        saved = ctx.saved_tensors
        inputs, rest = saved[: len(wanted)], saved[len(wanted) :]
        if torch.is_grad_enabled():
            return None, *_by_autograd(step, inputs, wanted, grads)
        return None, *_by_hand(step, rest[: ctx.stages], rest[ctx.stages :], wanted, *grads)


def _by_hand(
    step: ExplicitStep,
    stages: Kept,
    gaps: Kept,
    wanted: list[bool],
    after_grad: Tensor | None,
    kl_grad: Tensor | None,
) -> list[Tensor | None]:
    drift, prior, dt, tableau = step.system.drift, step.system.prior, step.dt, step.tableau
    count = len(tableau.weights)
    each = len(stages) // count
    totals: list[Tensor | None] = [None] * len(wanted)
    stage_grads: list[Tensor | None] = [None] * count
    for i in reversed(range(count)):
        x, *kept = stages[i * each : (i + 1) * each]
        slope_grad = None if after_grad is None else after_grad * (dt * tableau.weights[i])
        for j in range(i + 1, count):
            slope_grad = _plus(slope_grad, stage_grads[j], dt * tableau.rows[j][i])
        rate_grad = None if kl_grad is None or not gaps else kl_grad * (dt * tableau.weights[i] * step.precision)
        if rate_grad is not None:
            slope_grad = _plus(slope_grad, gaps[i], rate_grad)
        if slope_grad is None:
            continue
        found = drift.pull(  # type: ignore[attr-defined]
            step.t + tableau.times[i] * dt, x, tuple(kept), slope_grad, [wanted[0] or i > 0, *wanted[1:]]
        )
        if found[0] is not None and rate_grad is not None:
            found[0] = _plus(found[0], gaps[i], rate_grad * prior.gap_slope)  # type: ignore[union-attr]
        stage_grads[i] = found[0]
        totals[1:] = [_gathered(total, grad) for total, grad in zip(totals[1:], found[1:], strict=True)]
    if wanted[0]:
        totals[0] = stage_grads[0]
        for grad in (after_grad, *stage_grads[1:]):
            totals[0] = _plus(totals[0], grad, 1.0)
    return totals


def _gathered(total: Tensor | None, grad: Tensor | None) -> Tensor | None:
    return grad if total is None or grad is None else total.add_(grad)


def _plus(total: Tensor | None, grad: Tensor | None, factor: float | Tensor) -> Tensor | None:
    """``total + factor · grad``, changing ``total`` and never ``grad``; a factor may have one entry per path, [S]."""
    if grad is None:
        return total
    if isinstance(factor, Tensor):
        if factor.numel() > 1:
            each = factor.view(1, -1, 1)
            return grad * each if total is None else total.addcmul_(grad, each)
        factor = float(factor)
    return grad * factor if total is None else total.add_(grad, alpha=factor)


def _by_autograd(
    step: ExplicitStep, inputs: Kept, wanted: list[bool], grads: tuple[Tensor | None, ...]
) -> list[Tensor | None]:
    """Where a derivative of the derivative is asked for."""
    outputs = step.run(inputs[0], step.system.drift, [])
    given = [(out, grad) for out, grad in zip(outputs, grads, strict=True) if out is not None and grad is not None]
    asked = [x for x, want in zip(inputs, wanted, strict=True) if want]
    found = iter(
        torch.autograd.grad(
            [out for out, _ in given], asked, [grad for _, grad in given], create_graph=True, allow_unused=True
        )
    )
    return [next(found) if want else None for want in wanted]
