"""What a solver promises about its numbers."""

from __future__ import annotations

import math

import torch

from graphsde.dynamics.contract.case import NODES, SolverCase, contract, promise, root_mean_square, slope
from graphsde.dynamics.contract.equations import ConstantNoise, Field, ornstein_uhlenbeck

GRIDS = (8, 16, 32, 64)
FINEST = 512
SLACK = 0.25


@contract
def keeps_its_order_without_noise(case: SolverCase) -> None:
    if not case.steps or "none" not in case.solver.noise:
        return
    # several starts: at a single one the leading error may vanish by accident
    start = case.initial(1.0, 1) * torch.linspace(-2.0, 2.0, NODES, dtype=torch.float64).view(-1, 1, 1)
    drift = Field(lambda t, h: math.cos(2 * t) + torch.sin(3 * h) - h)
    finest = case.solve(drift, 2048, initial=start).final
    errors = [root_mean_square(case.solve(drift, n, initial=start).final - finest) for n in GRIDS]
    _order_at_least(slope(GRIDS, errors), case.solver.strong_order["none"], "none")


@contract
def keeps_its_strong_order_on_ornstein_uhlenbeck(case: SolverCase) -> None:
    if "additive" not in case.solver.noise:
        return
    drift, motion = ornstein_uhlenbeck(1.0, 0.3), case.motion(FINEST)
    finest = case.solve(drift, FINEST, "additive", motion).final
    errors = [root_mean_square(case.solve(drift, n, "additive", motion).final - finest) for n in GRIDS]
    _order_at_least(slope(GRIDS, errors), case.solver.strong_order["additive"], "additive")


@contract
def keeps_its_strong_order_on_geometric_brownian_motion(case: SolverCase) -> None:
    if "diagonal" not in case.solver.noise:
        return
    growth, size, cells = 0.4, 0.5, 256
    motion = case.motion(cells)
    w = motion.increment(0, cells).dw
    correction = 0.0 if case.solver.stratonovich else 0.5 * size**2
    exact = torch.exp((growth - correction) * case.horizon + size * w)
    drift = Field(lambda t, h: growth * h)
    errors = [root_mean_square(case.solve(drift, n, "diagonal", motion).final - exact) for n in GRIDS]
    promise(errors[-1] < errors[0], "the error shrinks with the step")
    _order_at_least(slope(GRIDS, errors), case.solver.strong_order["diagonal"], "diagonal")


@contract
def reproduces_brownian_motion_exactly(case: SolverCase) -> None:
    if "additive" not in case.solver.noise:
        return
    motion = case.motion(24)
    still = Field(lambda t, h: torch.zeros_like(h))
    got = case.solve(still, 8, "additive", motion, case.initial(0.0), diffusion=ConstantNoise(1.0)).final
    gap = float((got - motion.increment(0, 24).dw).abs().max())
    promise(gap <= 1e-13, f"without drift and with g = 1 the state is W; it is {gap:.2g} away")


@contract
def path_kl_of_equal_drifts_is_zero(case: SolverCase) -> None:
    for kind in case.kinds():
        kl = case.solve(ornstein_uhlenbeck(1.0, 0.3), 8, kind, prior=ornstein_uhlenbeck(1.0, 0.3)).kl
        promise(kl is not None and not bool(kl.any()), "the KL of equal drifts is 0")


@contract
def path_kl_of_a_constant_difference_is_exact(case: SolverCase) -> None:
    if "additive" not in case.solver.noise:
        return
    initial = case.initial(0.0)
    prior = ornstein_uhlenbeck(1.0, 0.0)
    drift = Field(lambda t, h: 0.7 - h)
    kl = case.solve(drift, 8, "additive", initial=initial, prior=prior, diffusion=ConstantNoise(0.5)).kl
    truth = 0.5 * case.horizon * (0.7 / 0.5) ** 2 * initial.shape[0] * initial.shape[2]
    promise(kl is not None and torch.allclose(kl, torch.full_like(kl, truth), rtol=1e-12), f"KL is {truth}, not {kl}")


def _order_at_least(measured: float, claimed: float, kind: str) -> None:
    promise(measured >= claimed - SLACK, f"order {measured:.2f} with noise '{kind}', {claimed} is claimed")
