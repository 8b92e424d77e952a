r"""Explicit Runge–Kutta steps with additive noise and whole solves of them, with explicit gradients.

A step makes stages :math:`X_i = H + \Delta t \sum_{j<i} a_{ij} K_j + n_i` and slopes
:math:`K_i = f(t + c_i \Delta t, X_i)`, then

.. math:: H^+ = H + \Delta t \sum_i b_i K_i + n, \quad
          \mathrm{KL} = \Delta t \sum_i b_i \frac{\lVert u_i \rVert^2}{2 \sigma^2}, \quad u_i = K_i - p(X_i).

With G the gradient of :math:`H^+`, k that of the KL, :math:`\kappa_i = k \Delta t b_i / \sigma^2` and a prior whose
derivative is the number -θ, the backward pass is, from the last stage to the first,

.. math:: \bar K_i = \Delta t b_i G + \Delta t \sum_{j>i} a_{ji} \bar X_j + \kappa_i u_i, \quad
          \bar X_i = (\partial f / \partial X)^\top \bar K_i + \theta \kappa_i u_i, \quad
          \bar H = G + \sum_i \bar X_i.

Fewer passes over the state than autograd needs, and nothing recorded: see docs/performance.md for the effect. A
drift supports it with the two methods of :class:`WrittenDrift`; ``gcn`` has them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor

from graphsde.base.scratch import to_file
from graphsde.base.world import world
from graphsde.sde.brownian import Increment, spent
from graphsde.sde.solvers.base import Carry, Stepped, StepSolver, System, half_square_sum, weighted

if TYPE_CHECKING:
    from graphsde.sde.plan import Plan


Kept = tuple[Tensor, ...]


@dataclass
class Gathering:
    """Where the gradients of one evaluation go.

    Args:
        tensors: a sum for each tensor of the drift whose gradient is wanted.
        share: factor on what is added to them.
        state: the sum for the state, if wanted.  # [N, S, d]
        factor: on what is added to it.
        fresh: there is nothing in ``state`` yet, not even zeros.
    """

    tensors: list[Tensor | None]
    share: float
    state: Tensor | None = None
    factor: float = 1.0
    fresh: bool = False


class WrittenDrift(Protocol):
    """A bound drift that knows its own gradient."""

    tensors: tuple[Tensor, ...]

    def evaluate(self, t: float, h: Tensor) -> tuple[Tensor, Kept]:
        """The value, without a graph, which may be changed in place, and what :meth:`pull` needs besides ``h``."""

    def pull(self, t: float, h: Tensor, kept: Kept, grad: Tensor, into: Gathering) -> None:
        """Add the gradients of ``h`` and of ``tensors`` to what ``into`` holds; that of ``h`` last, as it may be
        ``grad`` itself, which is not changed otherwise."""

    def __call__(self, t: float, h: Tensor) -> Tensor: ...


@dataclass(frozen=True)
class Tableau:
    """The coefficients of a method: c, the rows of a below the diagonal, b, and the weights of the noise in n_i.

    Args:
        times, rows, weights: c, a, b.
        noise: for each stage, how much of the increment and of the space-time area it sees; the step itself sees the
            increment, once.
    """

    times: tuple[float, ...]
    rows: tuple[tuple[float, ...], ...]
    weights: tuple[float, ...]
    noise: tuple[tuple[float, float], ...]


@dataclass
class Trace:
    """What the backward pass of one step needs: the X_i, the u_i if there is a prior, what the drift kept."""

    stages: list[Tensor] = field(default_factory=list)
    gaps: list[Tensor] = field(default_factory=list)
    kept: list[Tensor] = field(default_factory=list)


Field = Callable[[float, Tensor], Tensor]


def _put_aside(x: Tensor) -> Tensor:
    """Itself; in a file if memory is limited and it is large."""
    return x if torch.is_grad_enabled() else to_file(x, parts=world().parts)


@dataclass(frozen=True)
class ExplicitStep:
    """One step of one method from t to t + dt."""

    tableau: Tableau
    system: System
    t: float
    dt: float

    def take(self, h: Tensor, noise: Increment | None) -> Stepped:
        """Like :meth:`StepSolver.step`, differentiable."""
        after, kl = self.run(h, noise, self.system.drift, Trace())
        return (after,), kl

    def traced(self, h: Tensor, noise: Increment | None) -> tuple[Tensor, Tensor | None, Trace]:
        """Without a graph, with its trace; the noise is not kept, since no gradient needs it."""
        trace = Trace()
        return *self.run(h, noise, self._keeping(trace), trace), trace

    def traced_again(self, h: Tensor, noise: Increment | None) -> Trace:
        """The trace of an earlier step."""
        trace = Trace()
        self._leave_gaps(self._slopes(h, noise, self._keeping(trace), trace), trace)
        return trace

    def run(self, h: Tensor, noise: Increment | None, field: Field, trace: Trace) -> tuple[Tensor, Tensor | None]:
        """The new state and the KL, differentiable if ``field`` is; leaves stages and gaps in ``trace``."""
        slopes = self._slopes(h, noise, field, trace)
        after = self._moved(h, noise, len(slopes), self.tableau.weights, slopes)
        self._leave_gaps(slopes, trace)
        if not trace.gaps:
            return after, None
        sums = [half_square_sum(u) for u in trace.gaps]
        return after, weighted(self.dt * self.precision, *zip(self.tableau.weights, sums, strict=True))

    def _slopes(self, h: Tensor, noise: Increment | None, field: Field, trace: Trace) -> list[Tensor]:
        slopes: list[Tensor] = []
        for i, row in enumerate(self.tableau.rows):
            trace.stages.append(_put_aside(self._moved(h, noise, i, row, slopes)))
            slopes.append(_put_aside(field(self.t + self.tableau.times[i] * self.dt, trace.stages[i])))
        return slopes

    def _keeping(self, trace: Trace) -> Field:
        def field(t: float, x: Tensor) -> Tensor:
            slope, needed = self.system.drift.evaluate(t, x)  # type: ignore[attr-defined]
            trace.kept.extend(map(_put_aside, needed))
            return slope

        return field

    def _leave_gaps(self, slopes: list[Tensor], trace: Trace) -> None:
        if self.system.prior is None:
            return
        for time, x, slope in zip(self.tableau.times, trace.stages, slopes, strict=True):
            # the slope is no longer needed: without a graph its memory is reused for the gap
            room = None if torch.is_grad_enabled() else slope
            trace.gaps.append(self.system.prior.gap(self.t + time * self.dt, x, slope, room))  # type: ignore[attr-defined]

    def _moved(
        self, h: Tensor, noise: Increment | None, stage: int, row: tuple[float, ...], slopes: list[Tensor]
    ) -> Tensor:
        """h + dt Σ row · slopes + the noise of the stage; h itself if that adds nothing.  # [N, S, d]"""
        terms: list[tuple[Tensor, float]] = []
        room: Tensor | None = None
        if noise is not None and self.system.diffusion is not None:
            sigma: float = self.system.diffusion.uniform  # type: ignore[attr-defined]
            of_increment, of_area = (*self.tableau.noise, (1.0, 0.0))[stage]
            if of_area:
                terms.append((noise.levy(), of_area * sigma))
            if of_increment:
                terms.append((noise.dw, of_increment * sigma))
            if noise.spent and not torch.is_grad_enabled():
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
        last = self.tableau.noise[stage][1] and not any(a for _, a in self.tableau.noise[stage + 1 :])
        return noise.area if last else None

    @property
    def precision(self) -> float:
        """1/σ²"""
        return self.system.diffusion.uniform**-2  # type: ignore[union-attr]


def written_tableau(solver: StepSolver, system: System) -> Tableau | None:
    """The tableau for explicit gradients of whole solves of ``system``, if there is one.

    A subclass of a solver may step differently, so it has to set ``tableau`` itself.
    """
    tableau: Tableau | None = vars(type(solver)).get("tableau")
    return tableau if is_written_out(system) else None


def is_written_out(system: System) -> bool:
    """Whether every part of the equation fits :class:`ExplicitStep`."""
    return (
        hasattr(system.drift, "pull")
        and (system.diffusion is None or getattr(system.diffusion, "uniform", None) is not None)
        and (system.prior is None or hasattr(system.prior, "gap"))
    )


def pull_step(
    step: ExplicitStep, trace: Trace, grad: Tensor, kl_grad: Tensor | None, totals: list[Tensor | None], *, first: bool
) -> None:
    """Turn ``grad``, the gradient of the new state, into that of the old one, in place.

    Args:
        step: the step.
        trace: its own.
        grad: unchanged if ``first``, since no earlier step needs it.  # [N, S, d]
        kl_grad: of the step's KL.  # [S]
        totals: sums for the drift's tensors, ``None`` for those whose gradient is not wanted.
        first: the gradient of the old state is not wanted.
    """
    drift, prior, dt, tableau = step.system.drift, step.system.prior, step.dt, step.tableau
    count = len(tableau.weights)
    each = len(trace.kept) // count
    # stages' gradients are divided by Δt b_i throughout, which saves a pass over the state for each
    stage_grads: list[Tensor | None] = [None] * count
    rate = _factor(kl_grad, step.precision) if trace.gaps else None
    back = None if rate is None else rate * prior.gap_slope  # type: ignore[union-attr]
    for i in reversed(range(count)):
        slope_grad = grad
        for j in range(i + 1, count):
            ratio = dt * tableau.rows[j][i] * tableau.weights[j] / tableau.weights[i]
            slope_grad = _plus(slope_grad, stage_grads[j], ratio, fresh=slope_grad is not grad)
        if rate is not None:
            slope_grad = _plus(slope_grad, trace.gaps[i], rate, fresh=slope_grad is not grad)
        share = dt * tableau.weights[i]
        into = Gathering(totals, share)
        if i > 0:
            into.fresh = back is None
            into.state = torch.empty_like(grad) if back is None else trace.gaps[i] * back
            stage_grads[i] = into.state
        elif not first:
            into.state, into.factor = grad, share
        at = step.t + tableau.times[i] * dt
        drift.pull(at, trace.stages[i], tuple(trace.kept[i * each : (i + 1) * each]), slope_grad, into)  # type: ignore[attr-defined]
    if first:
        return
    if back is not None:
        _plus(grad, trace.gaps[0], dt * tableau.weights[0] * back, fresh=True)
    for stage_grad, weight in zip(stage_grads[1:], tableau.weights[1:], strict=True):
        _plus(grad, stage_grad, dt * weight, fresh=True)


def _factor(kl_grad: Tensor | None, precision: float) -> float | Tensor | None:
    """k/σ²: a number if there is one path, otherwise one entry per path.  # [1, S, 1]"""
    if kl_grad is None:
        return None
    return float(kl_grad) * precision if kl_grad.numel() == 1 else kl_grad.view(1, -1, 1) * precision


def _plus(total: Tensor, grad: Tensor | None, factor: float | Tensor, *, fresh: bool) -> Tensor:
    """``total + factor · grad``, in the memory of ``total`` if that is ``fresh`` and never in that of ``grad``."""
    if grad is None:
        return total
    if isinstance(factor, Tensor):
        return total.addcmul_(grad, factor) if fresh else torch.addcmul(total, grad, factor)
    return total.add_(grad, alpha=factor) if fresh else torch.add(total, grad, alpha=factor)


def is_written(plan: Plan) -> bool:
    return written_tableau(plan.solver, plan.system) is not None


def explicit_step(plan: Plan, step: int) -> ExplicitStep:
    tableau = written_tableau(plan.solver, plan.system)
    assert tableau is not None
    return ExplicitStep(tableau, plan.system, plan.time(step), plan.dt)


class WayBack:
    """Walks a solve backwards, holding the gradients of the state and of the drift's tensors.

    Args:
        ctx: of the solve: its plan, and which gradients are wanted, of the initial state and of those tensors.
        grads: of the states after one step or more and, if there is a prior, of the KL.
    """

    def __init__(self, ctx: Any, grads: Sequence[Tensor | None]) -> None:
        self.plan: Plan = ctx.plan
        self.state_wanted, *wanted = ctx.needs_input_grad[1:]
        self.state_grads, self.kl_grad = self.plan.of_outputs(grads)
        tensors = self.plan.system.drift.tensors
        self.totals = [torch.zeros_like(x) if want else None for x, want in zip(tensors, wanted, strict=True)]
        self.grad: Tensor | None = None

    def step(self, number: int, carry: Carry, noise: Increment | None) -> None:
        """Through step ``number`` (from 0), which is recomputed without a graph."""
        self.pull(number, explicit_step(self.plan, number).traced_again(carry[0], noise))

    def pull(self, number: int, trace: Trace) -> None:
        """Through step ``number``, given its trace."""
        given = self.state_grads.pop(number + 1, None)
        if self.grad is None:
            # a copy, since sums are made in place and the caller owns the original
            self.grad = torch.zeros_like(trace.stages[0]) if given is None else given.contiguous().clone()
        elif given is not None:
            self.grad += given
        step, first = explicit_step(self.plan, number), number == 0 and not self.state_wanted
        pull_step(step, trace, self.grad, self.kl_grad, self.totals, first=first)

    def found(self, initial: Tensor) -> tuple[Tensor | None, ...]:
        """Gradients of the initial state and of the drift's tensors."""
        return (self.grad if self.state_wanted else None), *self.totals


def run_written(plan: Plan, initial: Tensor) -> tuple[list[Tensor], Tensor | None]:
    """Like :func:`~graphsde.sde.gradients.run_stored`, for a plan that :func:`is_written`."""
    return plan.handed_out(initial, _Written.apply(plan, initial, *plan.system.drift.tensors))


class _Written(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, plan: Plan, initial: Tensor, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.set_materialize_grads(False)
        wanted, states, kl = set(plan.saved), list[Tensor](), None
        traces: list[Trace] = []
        h = initial
        for step in range(plan.steps):
            h, part, trace = explicit_step(plan, step).traced(h, spent(plan.noise(step)))
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
        saved = ctx.saved_tensors
        inputs, parts = saved[: 1 + ctx.count], saved[1 + ctx.count :]
        if torch.is_grad_enabled():
            return None, *_by_autograd(plan, inputs, ctx.needs_input_grad[1:], grads)
        back = WayBack(ctx, grads)
        stages, gaps, kept = ctx.sizes
        each = stages + gaps + kept
        for step in reversed(range(plan.steps)):
            own = list(parts[step * each : (step + 1) * each])
            back.pull(step, Trace(own[:stages], own[stages : stages + gaps], own[stages + gaps :]))
        return None, *back.found(inputs[0])


def _by_autograd(
    plan: Plan, inputs: Sequence[Tensor], wanted: Sequence[bool], grads: Sequence[Tensor | None]
) -> list[Tensor | None]:
    """For second derivatives: the solve again, recorded, under the same noise."""
    states, kl, _ = plan.walk(inputs[0])
    outputs = states if kl is None else [*states, kl]
    given = [(out, grad) for out, grad in zip(outputs, grads, strict=True) if grad is not None]
    asked = [x for x, want in zip(inputs, wanted, strict=True) if want]
    found = iter(
        torch.autograd.grad(
            [out for out, _ in given], asked, [grad for _, grad in given], create_graph=True, allow_unused=True
        )
    )
    return [next(found) if want else None for want in wanted]
