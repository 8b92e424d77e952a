"""The case a contract is run on, and the words in which a broken promise is told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from graphsde.dynamics.brownian import BrownianMotion, node_keys
from graphsde.dynamics.contract.equations import ConstantNoise, ProportionalNoise
from graphsde.dynamics.field import BoundDiffusion, BoundDrift, Noise
from graphsde.dynamics.integrate import integrate
from graphsde.dynamics.path import Path
from graphsde.dynamics.solvers import Solver, StepSolver

SolverCheck = Callable[["SolverCase"], None]
SOLVER_CHECKS: list[SolverCheck] = []
NODES, PATHS, WIDTH = 6, 50, 3


class Broken(AssertionError):
    """A promise that a solver does not keep."""


def contract(check: SolverCheck) -> SolverCheck:
    SOLVER_CHECKS.append(check)
    return check


def promise(kept: object, words: str) -> None:
    if not kept:
        raise Broken(words)


class SolverCase:
    """A way to make the solver, and small equations to try it on.

    Args:
        make: makes the solver, such as its class.
        horizon: T of the equations.
    """

    def __init__(self, make: Callable[[], Solver], *, horizon: float = 1.0) -> None:
        self.make, self.horizon = make, horizon
        self.keys = node_keys(np.arange(NODES))

    @property
    def solver(self) -> Solver:
        return self.make()

    @property
    def steps(self) -> bool:
        """It walks on a grid."""
        return isinstance(self.solver, StepSolver)

    def kinds(self) -> list[Noise]:
        return [kind for kind in self.solver.noise if kind != "none"]

    def motion(self, cells: int, seed: int = 0, paths: Sequence[int] = range(PATHS)) -> BrownianMotion:
        return BrownianMotion(seed, self.keys, paths, WIDTH, self.horizon, cells, torch.float64)

    def initial(self, value: float = 1.0, paths: int = PATHS) -> Tensor:
        return torch.full((NODES, paths, WIDTH), value, dtype=torch.float64)

    def diffusion(self, kind: Noise, size: float | Tensor = 0.5) -> BoundDiffusion:
        return ProportionalNoise(size) if kind == "diagonal" else ConstantNoise(size)

    def solve(
        self,
        drift: BoundDrift,
        steps: int,
        kind: Noise = "none",
        motion: BrownianMotion | None = None,
        initial: Tensor | None = None,
        **options: Any,
    ) -> Path:
        """The case's equation with its usual diffusion of ``kind``, unless ``options`` name another."""
        if kind != "none":
            options = {"diffusion": self.diffusion(kind), **options}
        return integrate(
            drift,
            self.initial() if initial is None else initial,
            horizon=self.horizon,
            steps=steps,
            solver=self.solver,
            noise_kind=kind,
            brownian=motion if motion is not None or kind == "none" else self.motion(steps),
            **options,
        )


def slope(steps: Sequence[int], errors: Sequence[float]) -> float:
    """The order of convergence: minus the slope of log error over log steps."""
    return float(-np.polyfit(np.log(np.asarray(steps, dtype=float)), np.log(np.asarray(errors)), 1)[0])


def root_mean_square(difference: Tensor) -> float:
    return float(difference.square().mean().sqrt())
