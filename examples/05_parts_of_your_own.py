"""A drift, a prior and a solver of your own: registered, listed, held to the shipped contracts, and used in a model.

Run: python examples/05_parts_of_your_own.py
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

import graphsde as gs
from graphsde.graph.sparse import SparseMatrix
from graphsde.sde.brownian import Increment
from graphsde.sde.drift import register_drift
from graphsde.sde.field import Drift, Prior
from graphsde.sde.prior import register_prior
from graphsde.sde.solvers import StepSolver, System, register_solver
from graphsde.sde.solvers.base import kl_rate, weighted
from graphsde.testing.parts import DRIFT_CHECKS, PRIOR_CHECKS, ComponentCase
from graphsde.testing.solvers import SOLVER_CHECKS, SolverCase


@register_drift
class Pull(Drift):
    """Every node is pulled towards its neighbours with a learned strength per dimension.

    Paper: an example of this package; the flow is that of Chamberlain et al., "GRAND", ICML 2021.
    """

    name, summary = "pull", "learned pull towards the neighbours"
    paper, year = "an example", 2026

    def __init__(self, width: int, *, generator: torch.Generator) -> None:
        super().__init__()
        self.strength = nn.Parameter(torch.rand(width, generator=generator))

    def bind(self, adjacency: SparseMatrix, initial: Tensor, generator: torch.Generator | None = None) -> BoundPull:
        return BoundPull(self.strength, adjacency.to(initial.dtype))


class BoundPull:
    def __init__(self, strength: Tensor, adjacency: SparseMatrix) -> None:
        self.strength, self.adjacency, self.tensors = strength, adjacency, (strength,)

    def __call__(self, t: float, h: Tensor) -> Tensor:
        return ((self.adjacency @ h.reshape(h.shape[0], -1)).view(h.shape) - h) * self.strength


@register_prior
class Shrink(Prior):
    """Everything decays at one rate. Paper: an example of this package."""

    name, summary = "shrink", "everything decays"
    paper, year = "an example", 2026

    def __init__(self, width: int, *, rate: float = 0.5) -> None:
        super().__init__()
        self.rate = rate

    def bind(self, adjacency: SparseMatrix, initial: Tensor) -> BoundShrink:
        return BoundShrink(self.rate)


class BoundShrink:
    tensors: tuple[Tensor, ...] = ()

    def __init__(self, rate: float) -> None:
        self.rate = rate

    def __call__(self, t: float, h: Tensor) -> Tensor:
        return -self.rate * h


@register_solver
class Midpoint(StepSolver):
    """Midpoint rule with additive noise added at the end. Paper: an example of this package."""

    name, summary = "midpoint", "midpoint rule; strong order 1 with additive noise"
    paper, year = "an example", 2026
    strong_order, evaluations = {"none": 2.0, "additive": 1.0}, 2

    def step(
        self, system: System, t: float, dt: float, carry: tuple[Tensor, ...], noise: Increment | None
    ) -> tuple[tuple[Tensor, ...], Tensor | None]:
        (h,) = carry
        first = system.drift(t, h)
        middle = h + 0.5 * dt * first
        second = system.drift(t + 0.5 * dt, middle)
        moved = h + dt * second
        if system.diffusion is not None and noise is not None:
            moved = moved + system.diffusion.apply(t, h, noise.dw)
        return (moved,), weighted(dt, (1.0, kl_rate(system, t, h, first)))


def main() -> None:
    drift = ComponentCase(lambda width, generator: Pull(width, generator=generator))
    prior = ComponentCase(lambda width, generator: Shrink(width))
    for check in DRIFT_CHECKS:
        check(drift)
    for check in PRIOR_CHECKS:
        check(prior)
    for check in SOLVER_CHECKS:
        check(SolverCase(Midpoint))
    print(f"{len(DRIFT_CHECKS)} + {len(PRIOR_CHECKS)} + {len(SOLVER_CHECKS)} promises kept")

    graph = gs.load("digits")
    model = gs.LGNSDE(
        preset="paper", drift="pull", prior="shrink", solver="midpoint", sigma=0.5, kl_weight=1e-3, epochs=60
    )
    metrics = gs.evaluate(model.fit(graph).predict(graph, samples=16), graph)
    print(f"digits: {metrics['accuracy']:.1%} of {metrics['n_test']} test images are right")


if __name__ == "__main__":
    main()
