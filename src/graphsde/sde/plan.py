"""The plan of one solve on a grid: which equation, which method, which noise."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from torch import Tensor

from graphsde.base.errors import BadUsage
from graphsde.sde.brownian import BrownianMotion, Increment, spent
from graphsde.sde.solvers.base import Carry, StepSolver, System, require_finite, require_finite_kl


def require_horizon(horizon: float) -> None:
    if not (math.isfinite(horizon) and horizon > 0):
        raise BadUsage(f"the horizon is {horizon}", code="E-STEP", found=horizon, expected="a finite number above 0")


def steps_for(horizon: float, dt: float) -> int:
    """How many steps of at most ``dt`` reach ``horizon``: ⌈T/dt − 10⁻⁹⌉, an integer.

    Example:
        >>> steps_for(1.0, 0.01), steps_for(1.0, 0.3)
        (100, 4)
    """
    require_horizon(horizon)
    if not (math.isfinite(dt) and 0 < dt <= horizon * (1 + 1e-9)):
        raise BadUsage(
            f"a step of {dt} does not fit into a horizon of {horizon}",
            code="E-STEP",
            found=dt,
            expected=f"a number above 0 and at most {horizon}",
            fix="choose a step between the two",
        )
    return max(1, math.ceil(horizon / dt - 1e-9))


@dataclass(frozen=True)
class Plan:
    """Everything that decides a solve on a grid except the initial state.

    Args:
        system: the equation.
        solver: the method.
        horizon: T.
        steps: L; step k goes from kT/L to (k + 1)T/L.
        brownian: the noise; ``None`` for an equation without.
        saved: step counts after which the state is returned, increasing; the last is L.
    """

    system: System
    solver: StepSolver
    horizon: float
    steps: int
    brownian: BrownianMotion | None
    saved: tuple[int, ...]

    @property
    def dt(self) -> float:
        return self.horizon / self.steps

    def time(self, step: int) -> float:
        return self.horizon * step / self.steps  # not a running sum, which would drift away from the grid

    def noise(self, step: int) -> Increment | None:
        """The Brownian increment of step ``step``; redrawn at every call."""
        if self.brownian is None:
            return None
        cells = self.brownian.cells // self.steps
        return self.brownian.increment(step * cells, (step + 1) * cells, self.solver.needs_area)

    def step(self, step: int, carry: Carry, noise: Increment | None) -> tuple[Carry, Tensor | None]:
        """Step ``step`` (from 0) under ``noise``: new carry and KL of the step.  # [S]"""
        return self.solver.step(self.system, self.time(step), self.dt, carry, noise)

    def advance(self, step: int, carry: Carry) -> tuple[Carry, Tensor | None]:
        """Like :meth:`step` with its own noise; a nonfinite state is refused."""
        carry, kl = self.step(step, carry, spent(self.noise(step)))
        self.require_finite(carry[0], step + 1)
        return carry, kl

    def walk(
        self, initial: Tensor, before_step: Callable[[int, Carry], None] | None = None
    ) -> tuple[list[Tensor], Tensor | None, Carry]:
        """From 0 to the horizon: the requested states after one step or more, the path KL, the last carry."""
        wanted = set(self.saved)
        states: list[Tensor] = []
        kl: Tensor | None = None
        carry = self.solver.start(self.system, 0.0, initial)
        for step in range(self.steps):
            if before_step is not None:
                before_step(step, carry)
            carry, part = self.advance(step, carry)
            if part is not None:
                kl = part if kl is None else kl + part
            if step + 1 in wanted:
                states.append(carry[0])
        self.require_finite_kl(kl)
        return states, kl, carry

    def handed_out(self, initial: Tensor, outputs: Sequence[Tensor]) -> tuple[list[Tensor], Tensor | None]:
        """The states after ``saved`` steps and the path KL, from those after one step or more and the KL behind them
        if there is a prior."""
        states = list(outputs)
        kl = states.pop() if self.system.prior is not None else None
        return ([initial, *states] if self.saved[0] == 0 else states), kl

    def of_outputs(self, grads: Sequence[Tensor | None]) -> tuple[dict[int, Tensor], Tensor | None]:
        """Gradients of such outputs, sorted: of states by step count, of the KL."""
        after = [step for step in self.saved if step > 0]
        states = {step: grad for step, grad in zip(after, grads, strict=False) if grad is not None}
        return states, grads[-1] if self.system.prior is not None else None

    def without_kl(self) -> Plan:
        return replace(self, system=replace(self.system, prior=None))

    def require_finite(self, state: Tensor, step: int) -> None:
        require_finite(state, method=self.solver.name, step=step, time=self.time(step), dt=self.dt)

    def require_finite_kl(self, kl: Tensor | None) -> None:
        require_finite_kl(kl, method=self.solver.name, step=self.steps, time=self.horizon, dt=self.dt)

    @property
    def evaluations(self) -> int:
        return self.solver.start_evaluations + self.solver.evaluations * self.steps
