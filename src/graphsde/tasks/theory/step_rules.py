r"""What one step of each solver can do to the difference of two solutions.

For f with Lipschitz constant L and x = L·Δt, two solutions with the same noise, D apart, are at most R(x) D apart after
one step. For a Runge–Kutta method R is its stability polynomial, because every stage adds up with positive
weights. Where two *independent* noises of size u = q·Δt drive them, these also reach the stages of the drift and
shift the step by at most c x √u in root mean square.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from graphsde.errors import BadUsage


@dataclass(frozen=True)
class StepRule:
    """Args:
    coefficients: of R, from the constant on.
    stage_noise: c.
    exponent: R(x) is at most e to the power of this times x.
    """

    coefficients: tuple[float, ...]
    stage_noise: float = 0.0
    exponent: float = 1.0

    def growth(self, x: float) -> float:
        """R(x) for x ≥ 0: bound of the step's stretch."""
        return _value(self.coefficients, x)

    def push(self, x: float) -> float:
        """(R(x) − 1)/x: how much of Δt times a constant shift of the drift reaches the state in one step."""
        return _value(self.coefficients[1:], x)

    @property
    def linear(self) -> bool:
        """On a linear drift f(H) = (Z/Δt) H the step is the matrix R(Z)."""
        return True


class ReversibleHeunRule(StepRule):
    """It carries a companion ẑ; the norm of (z, ẑ − z) together grows by at most 1 + x √(1 + (1 + x)²) a step."""

    def growth(self, x: float) -> float:
        return 1.0 + x * math.hypot(1.0, 1.0 + x)

    def push(self, x: float) -> float:
        return math.hypot(1.0, 1.0 + x) / math.sqrt(2)

    @property
    def linear(self) -> bool:
        return False


def _value(coefficients: tuple[float, ...], x: float) -> float:
    value = 0.0
    for coefficient in reversed(coefficients):
        value = value * x + coefficient
    return value


_RALSTON = (1.0, 1.0, 1 / 2)
STEP_RULES: dict[str, StepRule] = {
    "euler": StepRule((1.0, 1.0)),
    "milstein": StepRule((1.0, 1.0)),
    "heun": StepRule(_RALSTON, 1 / 2),
    "sra1": StepRule(_RALSTON, 1 / math.sqrt(3)),
    "srk": StepRule((*_RALSTON, 1 / 6), 1 / math.sqrt(3)),
    "rk4": StepRule((*_RALSTON, 1 / 6, 1 / 24)),
    "reversible-heun": ReversibleHeunRule((1.0,), 1 / math.sqrt(2), exponent=2.0),
}


def step_rule(solver: str, *, state_dependent: bool) -> StepRule:
    """The rule of a solver, or a refusal where none is derived."""
    if solver not in STEP_RULES or (state_dependent and solver != "euler"):
        kind = "noise that depends on the state" if state_dependent else "this equation"
        raise BadUsage(
            f"no bound is derived for the solver '{solver}' with {kind}",
            code="E-SOLVER",
            found=solver,
            expected="euler" if state_dependent else ", ".join(STEP_RULES),
            fix="fit with --set solver.name=euler",
        )
    return STEP_RULES[solver]
