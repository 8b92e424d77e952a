"""One solve on a grid, laid out before the first step: which equation, which method, which noise."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from torch import Tensor

from graphsde.base.errors import BadUsage
from graphsde.sde.brownian import BrownianMotion, Increment
from graphsde.sde.solvers.base import Carry, StepSolver, System, require_finite, require_finite_kl


def steps_for(horizon: float, dt: float) -> int:
    """How many steps of at most ``dt`` lead to ``horizon``: ⌈T/dt − 10⁻⁹⌉, a whole number.

    Example:
        >>> steps_for(1.0, 0.01), steps_for(1.0, 0.3)
        (100, 4)
    """
    if not (math.isfinite(horizon) and horizon > 0):
        raise BadUsage(f"the horizon is {horizon}", code="E-STEP", found=horizon, expected="a finite number above 0")
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
        saved: step counts after which the state is handed out, increasing; the last is L.
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
        """What the Brownian motion does during step ``step``; drawn anew at every call."""
        if self.brownian is None:
            return None
        cells = self.brownian.cells // self.steps
        return self.brownian.increment(step * cells, (step + 1) * cells, self.solver.needs_area)

    def step(self, step: int, carry: Carry, noise: Increment | None) -> tuple[Carry, Tensor | None]:
        """Step ``step`` (from 0) under ``noise``: new carry and KL of the step.  # [S]"""
        return self.solver.step(self.system, self.time(step), self.dt, carry, noise)

    def advance(self, step: int, carry: Carry) -> tuple[Carry, Tensor | None]:
        """As :meth:`step` under the noise that belongs to it; a state that is not finite is refused."""
        noise = self.noise(step)
        carry, kl = self.step(step, carry, None if noise is None else replace(noise, spent=True))
        self.require_finite(carry[0], step + 1)
        return carry, kl

    def without_kl(self) -> Plan:
        return replace(self, system=replace(self.system, prior=None))

    def require_finite(self, state: Tensor, step: int) -> None:
        require_finite(state, method=self.solver.name, step=step, time=self.time(step), dt=self.dt)

    def require_finite_kl(self, kl: Tensor | None) -> None:
        require_finite_kl(kl, method=self.solver.name, step=self.steps, time=self.horizon, dt=self.dt)

    @property
    def evaluations(self) -> int:
        return self.solver.start_evaluations + self.solver.evaluations * self.steps
