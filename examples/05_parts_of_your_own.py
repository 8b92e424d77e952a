"""A drift, a prior and a solver of your own: registered, listed, held to the shipped contracts, and used in a model.

Run: python examples/05_parts_of_your_own.py
"""

from __future__ import annotations

import torch

import graphsde as gs


@gs.register
class Pull(gs.Drift):
    """Every node is pulled towards its neighbours with a learned strength per dimension.

    Paper: an example of this package; the flow is that of Chamberlain et al., "GRAND", ICML 2021.
    """

    name, summary = "pull", "learned pull towards the neighbours"
    paper, year = "an example", 2026

    def __init__(self, width: int, *, generator: torch.Generator) -> None:
        super().__init__()
        self.strength = torch.nn.Parameter(torch.rand(width, generator=generator))

    def bind(
        self, adjacency: gs.SparseMatrix, initial: torch.Tensor, generator: torch.Generator | None = None
    ) -> BoundPull:
        return BoundPull(self.strength, adjacency.to(initial.dtype))


class BoundPull:
    def __init__(self, strength: torch.Tensor, adjacency: gs.SparseMatrix) -> None:
        self.strength, self.adjacency, self.tensors = strength, adjacency, (strength,)

    def __call__(self, t: float, h: torch.Tensor) -> torch.Tensor:
        return ((self.adjacency @ h.reshape(h.shape[0], -1)).view(h.shape) - h) * self.strength


@gs.register
class Shrink(gs.Prior):
    """Everything decays at one rate. Paper: an example of this package."""

    name, summary = "shrink", "everything decays"
    paper, year = "an example", 2026

    def __init__(self, width: int, *, rate: float = 0.5) -> None:
        super().__init__()
        self.rate = rate

    def bind(self, adjacency: gs.SparseMatrix, initial: torch.Tensor) -> BoundShrink:
        return BoundShrink(self.rate)


class BoundShrink:
    tensors: tuple[torch.Tensor, ...] = ()

    def __init__(self, rate: float) -> None:
        self.rate = rate

    def __call__(self, t: float, h: torch.Tensor) -> torch.Tensor:
        return -self.rate * h


@gs.register
class Midpoint(gs.StepSolver):
    """Midpoint rule with additive noise added at the end. Paper: an example of this package."""

    name, summary = "midpoint", "midpoint rule; strong order 1 with additive noise"
    paper, year = "an example", 2026
    strong_order, evaluations = {"none": 2.0, "additive": 1.0}, 2

    def step(
        self, system: gs.System, t: float, dt: float, carry: tuple[torch.Tensor, ...], noise: gs.Increment | None
    ) -> tuple[tuple[torch.Tensor, ...], torch.Tensor | None]:
        (h,) = carry
        first = system.drift(t, h)
        moved = h + dt * system.drift(t + 0.5 * dt, h + 0.5 * dt * first)
        if system.diffusion is not None and noise is not None:
            moved = moved + system.diffusion.apply(t, h, noise.dw)
        rate = gs.kl_rate(system, t, h, first)
        return (moved,), None if rate is None else dt * rate


if __name__ == "__main__":
    kept = gs.testing.check_drift(Pull), gs.testing.check_prior(Shrink), gs.testing.check_solver(Midpoint)
    print(" + ".join(map(str, kept)), "guarantees kept")

    graph = gs.load("digits")
    model = gs.LGNSDE(
        preset="paper", drift="pull", prior="shrink", solver="midpoint", sigma=0.5, kl_weight=1e-3, epochs=60
    )
    metrics = gs.evaluate(model.fit(graph).predict(graph, samples=16), graph)
    print(f"digits: {metrics['accuracy']:.1%} of {metrics['n_test']} test images are right")
