"""One-step methods: Euler–Maruyama, Heun, Milstein, Runge–Kutta, Dormand–Prince, reversible Heun."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import ClassVar

import torch
from torch import Tensor

from graphsde.base.device import widest_type
from graphsde.base.errors import BadUsage
from graphsde.sde.brownian import Increment
from graphsde.sde.field import Noise
from graphsde.sde.solvers.adjoint import ExplicitStep, Tableau, is_written_out
from graphsde.sde.solvers.base import (
    Carry,
    EvaluationsExhausted,
    ReversibleSolver,
    Solver,
    SolverDiverged,
    Stepped,
    StepSolver,
    System,
    elementwise,
    kl_rate,
    register_solver,
    require_finite,
    weighted,
)


@register_solver
class Dopri5(Solver):
    """Adaptive Runge–Kutta 5(4) for equations without noise; gradients by plain backpropagation.

    Args:
        rtol, atol: tolerances per step, relative and absolute.
        max_evaluations: more drift evaluations than this raise
            :class:`~graphsde.sde.solvers.base.EvaluationsExhausted` instead of running for hours.

    Paper: Dormand and Prince, "A family of embedded Runge–Kutta formulae", J. Comput. Appl. Math. 1980.

    Example:
        >>> from graphsde.sde.integrate import integrate
        >>> class Decay:
        ...     tensors = ()
        ...     def __call__(self, t, h):
        ...         return -h
        >>> path = integrate(Decay(), torch.ones(1, 1, 1), horizon=1.0, steps=1, solver=Dopri5())
        >>> round(path.final.item(), 3)
        0.368
    """

    name = "dopri5"
    summary = "adaptive; order 5; without noise only"
    paper, year = "Dormand and Prince, A family of embedded Runge–Kutta formulae", 1980
    strong_order: ClassVar[Mapping[Noise, float]] = {"none": 5.0}
    evaluations = 0

    def __init__(self, rtol: float = 1e-4, atol: float = 1e-5, max_evaluations: int = 10_000) -> None:
        if not (rtol >= 0 and atol >= 0 and rtol + atol > 0 and max_evaluations > 0):
            raise BadUsage(f"rtol {rtol}, atol {atol}, max_evaluations {max_evaluations}", expected="numbers above 0")
        self.rtol, self.atol, self.max_evaluations = rtol, atol, max_evaluations

    def solve(self, system: System, initial: Tensor, times: Sequence[float]) -> tuple[list[Tensor], int]:
        """States at ``times`` (increasing, from 0) and the number of drift evaluations."""
        torchdiffeq = importlib.import_module("torchdiffeq")
        count = 0

        def field(t: Tensor, h: Tensor) -> Tensor:
            nonlocal count
            count += 1
            now = float(t.detach())
            if count > self.max_evaluations:
                raise EvaluationsExhausted(
                    f"dopri5 has not reached t = {times[-1]:.6g} after {self.max_evaluations} evaluations",
                    found=f"t = {now:.6g}",
                    fix="loosen rtol and atol, raise max_evaluations, or use solver 'rk4' with fixed steps",
                )
            slope = system.drift(now, h)
            require_finite(slope, method=self.name, step=None, time=now, dt=None)
            return slope

        # times in float64, if available: torchdiffeq computes the step sizes in their type
        widest = widest_type(initial.device)
        grid = torch.tensor(times, dtype=widest).to(initial.device)
        try:
            states = torchdiffeq.odeint(
                field, initial, grid, rtol=self.rtol, atol=self.atol, method="dopri5", options={"dtype": widest}
            )
        except AssertionError as error:  # raised if the step size shrank to zero
            raise SolverDiverged(
                "the step size shrank to nothing and the state", method=self.name, step=None, time=times[-1], dt=None
            ) from error
        return list(states.unbind(0)), count


TABLEAU = Tableau(times=(0.0,), rows=((),), weights=(1.0,), noise=((0.0, 0.0),))


@register_solver
class Euler(StepSolver):
    r"""Euler–Maruyama; without noise, Euler's method.

    .. math:: H^+ = H + f \, \Delta t + g \, \Delta W

    The path KL is the left-point sum, which is the exact KL between the two discrete chains.

    Paper: Maruyama, "Continuous Markov processes and stochastic equations", Rend. Circ. Mat. Palermo 1955.
    """

    name = "euler"
    summary = "one evaluation; strong order 1 with additive noise, ½ with diagonal noise"
    paper, year = "Maruyama, Continuous Markov processes and stochastic equations", 1955
    strong_order: ClassVar[Mapping[Noise, float]] = {"none": 1.0, "additive": 1.0, "diagonal": 0.5}
    tableau = TABLEAU
    evaluations = 1

    def step(self, system: System, t: float, dt: float, carry: Carry, noise: Increment | None) -> Stepped:
        (h,) = carry
        if is_written_out(system):
            return ExplicitStep(TABLEAU, system, t, dt).take(h, noise)
        f = system.drift(t, h)
        after = torch.add(h, f, alpha=dt)
        if noise is not None and system.diffusion is not None:
            after = after.add_(system.diffusion.apply(t, h, noise.dw))
        return (after,), weighted(dt, (1.0, kl_rate(system, t, h, f)))


@register_solver
class Heun(StepSolver):
    r"""Stochastic Heun; without noise, the explicit trapezoidal rule.

    .. math::
        \tilde H &= H + f \Delta t + g \Delta W, \\
        H^+ &= H + \tfrac12 (f + \tilde f) \Delta t + \tfrac12 (g + \tilde g) \Delta W

    With noise that depends on the state it converges to the **Stratonovich** solution, which differs from Itô's by the
    drift :math:`\tfrac12 g g'`; with additive noise the two agree. The path KL is the trapezoid of the rates at H and
    at the predicted state.

    Paper: Rümelin, "Numerical treatment of stochastic differential equations", SIAM J. Numer. Anal. 1982.
    """

    name = "heun"
    summary = "two evaluations; strong order 1; Stratonovich if noise depends on the state"
    paper, year = "Rümelin, Numerical treatment of stochastic differential equations", 1982
    strong_order: ClassVar[Mapping[Noise, float]] = {"none": 2.0, "additive": 1.0, "diagonal": 1.0}
    evaluations = 2
    stratonovich = True

    def step(self, system: System, t: float, dt: float, carry: Carry, noise: Increment | None) -> Stepped:
        (h,) = carry
        first = system.drift(t, h)
        predicted = torch.add(h, first, alpha=dt)
        start_noise: Tensor | None = None
        if noise is not None and system.diffusion is not None:
            start_noise = system.diffusion.apply(t, h, noise.dw)
            predicted = predicted.add_(start_noise)
        second = system.drift(t + dt, predicted)
        after = torch.add(h, first, alpha=0.5 * dt).add_(second, alpha=0.5 * dt)
        if start_noise is not None and noise is not None and system.diffusion is not None:
            end_noise = system.diffusion.apply(t + dt, predicted, noise.dw)
            after = after.add_(start_noise, alpha=0.5).add_(end_noise, alpha=0.5)
        rates = kl_rate(system, t, h, first), kl_rate(system, t + dt, predicted, second)
        return (after,), weighted(dt, (0.5, rates[0]), (0.5, rates[1]))


@register_solver
class Milstein(StepSolver):
    r"""Milstein's method for diffusions that act entry by entry (Itô).

    .. math:: H^+ = H + f \, \Delta t + g \, \Delta W + \tfrac12 g g' (\Delta W^2 - \Delta t)

    The path KL is the left-point sum.

    Paper: Milstein, "Approximate integration of stochastic differential equations", Theory Probab. Appl. 1974.
    """

    name = "milstein"
    summary = "one evaluation; strong order 1 with diagonal noise"
    paper, year = "Milstein, Approximate integration of stochastic differential equations", 1974
    strong_order: ClassVar[Mapping[Noise, float]] = {"none": 1.0, "diagonal": 1.0}
    evaluations = 1
    entrywise = True

    def step(self, system: System, t: float, dt: float, carry: Carry, noise: Increment | None) -> Stepped:
        (h,) = carry
        f = system.drift(t, h)
        after = torch.add(h, f, alpha=dt)
        if noise is not None and system.diffusion is not None:
            diffusion = elementwise(system, self)
            g = diffusion.scale(t, h)
            correction = (noise.dw.square() - dt) * diffusion.scale_slope(t, h)
            after = after + g * torch.add(noise.dw, correction, alpha=0.5)
        return (after,), weighted(dt, (1.0, kl_rate(system, t, h, f)))


@register_solver
class ReversibleHeun(ReversibleSolver):
    r"""Reversible Heun: one evaluation per step, and every step can be undone exactly.

    Besides the state z it carries a companion :math:`\hat z` and the drift there:

    .. math::
        \hat z^+ &= 2 z - \hat z + f(t, \hat z) \Delta t + g(t, \hat z) \Delta W, \\
        z^+ &= z + \tfrac12 \bigl( f(t, \hat z) + f(t^+, \hat z^+) \bigr) \Delta t
               + \tfrac12 \bigl( g(t, \hat z) + g(t^+, \hat z^+) \bigr) \Delta W

    With noise that depends on the state it converges to the **Stratonovich** solution. Its region of stability is a
    segment of the imaginary axis: contracting drifts need small steps. The path KL is the trapezoid of the rates at
    the companions.

    Paper: Kidger, Foster, Li and Lyons, "Efficient and accurate gradients for neural SDEs", NeurIPS 2021.
    """

    name = "reversible-heun"
    summary = "one evaluation; reversible steps, so gradients need no stored states; Stratonovich like Heun"
    paper, year = "Kidger, Foster, Li and Lyons, Efficient and accurate gradients for neural SDEs", 2021
    strong_order: ClassVar[Mapping[Noise, float]] = {"none": 2.0, "additive": 1.0, "diagonal": 0.5}
    evaluations = 1
    start_evaluations = 1
    stratonovich = True

    def start(self, system: System, t: float, state: Tensor) -> Carry:
        return _carry(system, t, state, state)

    def step(self, system: System, t: float, dt: float, carry: Carry, noise: Increment | None) -> Stepped:
        z, companion, f = carry[:3]
        moved = torch.mul(z, 2.0).sub_(companion).add_(f, alpha=dt)
        after = torch.add(z, f, alpha=0.5 * dt)
        if noise is not None and system.diffusion is not None:
            start_noise = system.diffusion.apply(t, companion, noise.dw)
            moved = moved.add_(start_noise)
            after = after.add_(start_noise, alpha=0.5)
        _, _, moved_f, *moved_rate = _carry(system, t + dt, after, moved)
        after = after.add(moved_f, alpha=0.5 * dt)
        if noise is not None and system.diffusion is not None:
            after = after.add_(system.diffusion.apply(t + dt, moved, noise.dw), alpha=0.5)
        kl = weighted(dt, (0.5, carry[3]), (0.5, moved_rate[0])) if moved_rate else None
        return (after, moved, moved_f, *moved_rate), kl

    def undo(self, system: System, t: float, dt: float, carry: Carry, noise: Increment | None) -> Carry:
        z, companion, f = carry[:3]
        moved = torch.mul(z, 2.0).sub_(companion).sub_(f, alpha=dt)
        before = torch.sub(z, f, alpha=0.5 * dt)
        if noise is not None and system.diffusion is not None:
            end_noise = system.diffusion.apply(t + dt, companion, noise.dw)
            moved = moved.sub_(end_noise)
            before = before.sub_(end_noise, alpha=0.5)
        _, _, moved_f, *moved_rate = _carry(system, t, before, moved)
        before = before.sub(moved_f, alpha=0.5 * dt)
        if noise is not None and system.diffusion is not None:
            before = before.sub_(system.diffusion.apply(t, moved, noise.dw), alpha=0.5)
        return (before, moved, moved_f, *moved_rate)


def _carry(system: System, t: float, z: Tensor, companion: Tensor) -> Carry:
    """State, companion, the drift at the companion and, if there is a prior, the KL rate there."""
    f = system.drift(t, companion)
    rate = kl_rate(system, t, companion, f)
    return (z, companion, f) if rate is None else (z, companion, f, rate)


@register_solver
class RK4(StepSolver):
    r"""The classical fourth-order method; equations without noise only.

    .. math:: H^+ = H + \tfrac{\Delta t}{6} (K_1 + 2 K_2 + 2 K_3 + K_4)

    Paper: Kutta, "Beitrag zur näherungsweisen Integration totaler Differentialgleichungen", Z. Math. Phys. 1901.
    """

    name = "rk4"
    summary = "four evaluations; order 4; without noise only"
    paper, year = "Kutta, Beitrag zur näherungsweisen Integration totaler Differentialgleichungen", 1901
    strong_order: ClassVar[Mapping[Noise, float]] = {"none": 4.0}
    evaluations = 4

    def step(self, system: System, t: float, dt: float, carry: Carry, noise: Increment | None) -> Stepped:
        (h,) = carry
        middle, end = t + 0.5 * dt, t + dt
        k1 = system.drift(t, h)
        k2 = system.drift(middle, torch.add(h, k1, alpha=0.5 * dt))
        k3 = system.drift(middle, torch.add(h, k2, alpha=0.5 * dt))
        k4 = system.drift(end, torch.add(h, k3, alpha=dt))
        after = torch.add(h, k1, alpha=dt / 6)
        return (after.add_(k2, alpha=dt / 3).add_(k3, alpha=dt / 3).add_(k4, alpha=dt / 6),), None
