"""Dormand and Prince's adaptive method, through torchdiffeq."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import ClassVar

import torch
from torch import Tensor

from graphsde.dynamics.divergence import EvaluationsExhausted, SolverDiverged, require_finite
from graphsde.dynamics.field import Noise
from graphsde.dynamics.solvers.base import Solver, System, register_solver
from graphsde.errors import BadUsage


@register_solver
class Dopri5(Solver):
    """Adaptive Runge–Kutta 5(4) for equations without noise; gradients by plain backpropagation.

    Args:
        rtol, atol: tolerances per step, relative and absolute.
        max_evaluations: more drift evaluations than this raise
            :class:`~graphsde.dynamics.divergence.EvaluationsExhausted` instead of going on for hours.

    Paper: Dormand and Prince, "A family of embedded Runge–Kutta formulae", J. Comput. Appl. Math. 1980.

    Example:
        >>> from graphsde.dynamics.integrate import integrate
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
    paper = "Dormand and Prince, A family of embedded Runge–Kutta formulae"
    year = 1980
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

        # times in float64: torchdiffeq computes the step sizes in their type
        grid = torch.tensor(times, dtype=torch.float64)
        try:
            states = torchdiffeq.odeint(field, initial, grid, rtol=self.rtol, atol=self.atol, method="dopri5")
        except AssertionError as error:  # its way of saying that the step size shrank to nothing
            raise SolverDiverged(
                "the step size shrank to nothing and the state", method=self.name, step=None, time=times[-1], dt=None
            ) from error
        return list(states.unbind(0)), count
