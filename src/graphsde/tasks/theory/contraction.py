r"""Where the drift pulls together: graph diffusion, for which bounds need not grow.

With :math:`f(H) = \alpha((1 - a) A - I) H + \dots` and ν ≥ ‖A‖ two solutions approach each other at the rate
μ = α((1 − a)ν − 1), which is −αa where ν = 1: the one-sided Lipschitz constant of f.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from numpy.polynomial import Polynomial

from graphsde.data.sparse import SparseMatrix
from graphsde.dynamics.drift import DiffusionDrift
from graphsde.dynamics.field import Drift
from graphsde.tasks.theory.step_rules import StepRule


@dataclass(frozen=True)
class Contraction:
    """Args:
    one_sided: μ.
    stretch: r ≥ ‖R(Z)‖, the matrix of one step.
    push: ≥ ‖(R(Z) − I) Z⁻¹‖: how much of Δt times a constant shift reaches the state in one step.
    """

    one_sided: float
    stretch: float
    push: float


def contraction_of(drift: Drift, adjacency: SparseMatrix, rule: StepRule, dt: float) -> Contraction | None:
    """For graph diffusion without attention; ``None`` for other drifts."""
    if not (isinstance(drift, DiffusionDrift) and drift.linear and rule.linear):
        return None
    matrix, rate = drift.flow.matrix(adjacency), drift.rate.number()
    reach = (1.0 - drift.teleport) * drift.flow.norm_bound(adjacency)
    # Z = −Δt α I + Δt α (1 − a) A: a disc around the first, an interval where A is symmetric
    centre, radius = -dt * rate, dt * rate * reach

    def size(coefficients: tuple[float, ...]) -> float:
        polynomial = Polynomial(coefficients)
        if matrix.symmetric:
            # R and (R − 1)/z are, for these methods, monotone or convex and positive: largest at an end
            return max(abs(float(polynomial(centre - radius))), abs(float(polynomial(centre + radius))))
        around = [
            polynomial.deriv(k)(centre) / math.factorial(k) if k else polynomial(centre)
            for k in range(len(coefficients))
        ]
        return float(sum(abs(value) * radius**k for k, value in enumerate(around)))

    return Contraction(rate * (reach - 1.0), size(rule.coefficients), size(rule.coefficients[1:]))
