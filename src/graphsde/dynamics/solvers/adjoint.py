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

from graphsde.dynamics.brownian import Increment
from graphsde.dynamics.solvers.base import System
from graphsde.dynamics.solvers.path_kl import half_square_sum, weighted

Kept = tuple[Tensor, ...]


class WrittenDrift(Protocol):
    """A bound drift that knows its own gradient."""

    tensors: tuple[Tensor, ...]

    def evaluate(self, t: float, h: Tensor) -> tuple[Tensor, Kept]:
        """The value, without a graph, which may be changed in place, and what :meth:`pull` needs besides ``h``."""

    def pull(self, t: float, h: Tensor, kept: Kept, grad: Tensor, wanted: list[bool]) -> list[Tensor | None]:
        """Gradients of ``h`` and of ``tensors``, of those that are wanted; they may be changed in place."""

    def __call__(self, t: float, h: Tensor) -> Tensor: ...


@dataclass(frozen=True)
class Tableau:
    """The coefficients of a method: c, the rows of a below the diagonal, b, and what n_i takes of the noise.

    Args:
        times, rows, weights: c, a, b.
        noise: for each stage, how much of the increment and of the space-time area it sees; the step itself sees the
            increment, once.
    """

    times: tuple[float, ...]
    rows: tuple[tuple[float, ...], ...]
    weights: tuple[float, ...]
    noise: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class ExplicitStep:
    """One step of one method from t to t + dt."""

    tableau: Tableau
    system: System
    t: float
    dt: float

    def take(self, h: Tensor, noise: Increment | None) -> tuple[Tensor, Tensor | None]:
        """The new state and the KL of the step.  # [N, S, d], [S]"""
        if self.system.diffusion is None:
            noise = None
        if torch.is_grad_enabled():
            return _Step.apply(self, noise, h, *self.system.drift.tensors)
        return self.run(h, noise, self.system.drift, [], [])

    def run(
        self,
        h: Tensor,
        noise: Increment | None,
        field: Callable[[float, Tensor], Tensor],
        stages: list[Tensor],
        gaps: list[Tensor],
        seen: Kept = (),
    ) -> tuple[Tensor, Tensor | None]:
        """The step itself, differentiable where ``field`` is; leaves the X_i in ``stages`` and the u_i in ``gaps``.

        ``seen`` are the X_i of an earlier run, from which the noise of the stages is taken where it is no longer there.
        """
        tableau, slopes = self.tableau, list[Tensor]()
        for i, row in enumerate(tableau.rows):
            x = self._moved(h, noise, i, row, slopes)
            stages.append(x + (seen[i] - x).detach() if seen else x)
            slopes.append(field(self.t + tableau.times[i] * self.dt, stages[i]))
        after = self._moved(h, noise, len(slopes), tableau.weights, slopes)
        if self.system.prior is None:
            return after, None
        for time, x, slope in zip(tableau.times, stages, slopes, strict=True):
            # the slope has done its work: without a graph its memory will do for the gap
            room = None if torch.is_grad_enabled() else slope
            gaps.append(self.system.prior.gap(self.t + time * self.dt, x, slope, room))  # type: ignore[attr-defined]
        sums = [half_square_sum(u) for u in gaps]
        return after, weighted(self.dt * self.precision, *zip(tableau.weights, sums, strict=True))

    def _moved(
        self, h: Tensor, noise: Increment | None, stage: int, row: tuple[float, ...], slopes: list[Tensor]
    ) -> Tensor:
        """h + dt Σ row · slopes + the noise of the stage; h itself where that adds nothing.  # [N, S, d]"""
        terms: list[tuple[Tensor, float]] = []
        room: Tensor | None = None
        if noise is not None:
            sigma: float = self.system.diffusion.uniform  # type: ignore[union-attr]
            of_increment, of_area = (*self.tableau.noise, (1.0, 0.0))[stage]
            if of_area:
                terms.append((noise.levy(), of_area * sigma))
            if of_increment:
                terms.append((noise.dw, of_increment * sigma))
            if noise.spent:
                room = self._given_up(noise, stage)
        terms += [(slope, a * self.dt) for a, slope in zip(row, slopes, strict=False)]
        x = h
        for term, factor in terms:
            x = torch.add(h, term, alpha=factor, out=room) if x is h else x.add_(term, alpha=factor)
        return x

    def _given_up(self, noise: Increment, stage: int) -> Tensor | None:
        """The part of the noise that is added first in this stage and in none that follows."""
        if stage == len(self.tableau.noise):
            return noise.dw
        return (
            noise.area
            if self.tableau.noise[stage][1] and not any(a for _, a in self.tableau.noise[stage + 1 :])
            else None
        )

    @property
    def precision(self) -> float:
        """1/σ²"""
        return self.system.diffusion.uniform**-2  # type: ignore[union-attr]


def is_written_out(system: System) -> bool:
    """Whether every part of the equation fits :class:`ExplicitStep`."""
    return (
        hasattr(system.drift, "pull")
        and (system.diffusion is None or getattr(system.diffusion, "uniform", None) is not None)
        and (system.prior is None or hasattr(system.prior, "gap"))
    )


class _Step(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, step: ExplicitStep, noise: Increment | None, h: Tensor, *tensors: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        ctx.set_materialize_grads(False)
        stages: list[Tensor] = []
        gaps: list[Tensor] = []
        kept: list[Tensor] = []

        def field(t: float, x: Tensor) -> Tensor:
            slope, needed = step.system.drift.evaluate(t, x)  # type: ignore[attr-defined]
            kept.extend(needed)
            return slope

        after, kl = step.run(h, noise, field, stages, gaps)
        ctx.step = step
        # the noise is not kept: no gradient needs it
        ctx.save_for_backward(h, *tensors, *stages, *gaps, *kept)
        return after, kl

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        step, wanted = ctx.step, list(ctx.needs_input_grad[2:])
        saved = ctx.saved_tensors
        inputs, rest = saved[: len(wanted)], saved[len(wanted) :]
        count = len(step.tableau.weights)
        stages, rest = rest[:count], rest[count:]
        if torch.is_grad_enabled():
            return None, None, *_by_autograd(step, inputs, stages, wanted, grads)
        gaps, kept = (rest[:count], rest[count:]) if step.system.prior is not None else ((), rest)
        return None, None, *_by_hand(step, stages, gaps, kept, wanted, *grads)


def _by_hand(
    step: ExplicitStep,
    stages: Kept,
    gaps: Kept,
    kept: Kept,
    wanted: list[bool],
    after_grad: Tensor | None,
    kl_grad: Tensor | None,
) -> list[Tensor | None]:
    drift, prior, dt, tableau = step.system.drift, step.system.prior, step.dt, step.tableau
    count = len(tableau.weights)
    each = len(kept) // count
    totals: list[Tensor | None] = [None] * len(wanted)
    # what is gathered here is divided by Δt b_i throughout: that spares a pass over the state for each stage
    stage_grads: list[Tensor | None] = [None] * count
    rate_grad = _factor(kl_grad, step.precision) if gaps else None
    for i in reversed(range(count)):
        slope_grad = after_grad
        for j in range(i + 1, count):
            ratio = dt * tableau.rows[j][i] * tableau.weights[j] / tableau.weights[i]
            slope_grad = _sum(slope_grad, stage_grads[j], ratio, fresh=slope_grad is not after_grad)
        if rate_grad is not None:
            slope_grad = _sum(slope_grad, gaps[i], rate_grad, fresh=slope_grad is not after_grad)
        if slope_grad is None:
            continue
        found = drift.pull(  # type: ignore[attr-defined]
            step.t + tableau.times[i] * dt,
            stages[i],
            kept[i * each : (i + 1) * each],
            slope_grad,
            [wanted[0] or i > 0, *wanted[1:]],
        )
        if found[0] is not None and rate_grad is not None:
            found[0] = _sum(found[0], gaps[i], rate_grad * prior.gap_slope, fresh=True)  # type: ignore[union-attr]
        stage_grads[i] = found[0]
        share = dt * tableau.weights[i]
        totals[1:] = [_gathered(total, grad, share) for total, grad in zip(totals[1:], found[1:], strict=True)]
    if wanted[0]:
        totals[0] = after_grad
        for grad, weight in zip(stage_grads, tableau.weights, strict=True):
            totals[0] = _sum(totals[0], grad, dt * weight, fresh=totals[0] is not after_grad)
    return totals


def _factor(kl_grad: Tensor | None, precision: float) -> float | Tensor | None:
    """k/σ²: a number where there is one path, otherwise one entry per path.  # [1, S, 1]"""
    if kl_grad is None:
        return None
    return float(kl_grad) * precision if kl_grad.numel() == 1 else kl_grad.view(1, -1, 1) * precision


def _gathered(total: Tensor | None, grad: Tensor | None, factor: float) -> Tensor | None:
    if grad is None:
        return total
    return grad.mul_(factor) if total is None else total.add_(grad, alpha=factor)


def _sum(total: Tensor | None, grad: Tensor | None, factor: float | Tensor, *, fresh: bool) -> Tensor | None:
    """``total + factor · grad``, in the memory of ``total`` where that is ``fresh`` and never in that of ``grad``."""
    if grad is None:
        return total
    if total is None:
        return grad * factor
    if isinstance(factor, Tensor):
        return total.addcmul_(grad, factor) if fresh else torch.addcmul(total, grad, factor)
    return total.add_(grad, alpha=factor) if fresh else torch.add(total, grad, alpha=factor)


def _by_autograd(
    step: ExplicitStep, inputs: Kept, stages: Kept, wanted: list[bool], grads: tuple[Tensor | None, ...]
) -> list[Tensor | None]:
    """Where a derivative of the derivative is asked for."""
    outputs = step.run(inputs[0], None, step.system.drift, [], [], stages)
    given = [(out, grad) for out, grad in zip(outputs, grads, strict=True) if out is not None and grad is not None]
    asked = [x for x, want in zip(inputs, wanted, strict=True) if want]
    found = iter(
        torch.autograd.grad(
            [out for out, _ in given], asked, [grad for _, grad in given], create_graph=True, allow_unused=True
        )
    )
    return [next(found) if want else None for want in wanted]
