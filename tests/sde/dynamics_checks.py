"""Checks of the dynamics that ordinary tests run, and that planted bugs must fail."""

from __future__ import annotations

import itertools
import math

import numpy as np
import torch
from dynamics_cases import DOUBLE, GCNField, motion
from torch import Tensor

from graphsde.sde import plan as plan_module
from graphsde.sde.brownian import Increment
from graphsde.sde.integrate import integrate
from graphsde.sde.solvers import StepSolver, System, make_solver
from graphsde.testing.solvers import ConstantNoise, Field, ornstein_uhlenbeck, root_mean_square, slope

LARGEST_Z = 4.0
MANY = (20_000, 1, 5)  # a hundred thousand independent scalar paths
RATE, LEVEL, SIZE, START = 1.3, 0.4, 0.7, 1.5


def assert_mean(values: Tensor, truth: float, *, bias: float = 0.0) -> None:
    """The mean of independent ``values`` is ``truth`` within four standard errors and a known bias."""
    values = values.reshape(-1)
    error = float(values.std() / math.sqrt(values.numel()))
    gap = abs(float(values.mean()) - truth)
    assert gap <= LARGEST_Z * error + bias + 1e-10, f"{float(values.mean()):.6g} instead of {truth:.6g} (±{error:.2g})"


def assert_uncorrelated(one: Tensor, two: Tensor) -> None:
    products = (one * two).reshape(-1)
    z = float(products.sum() / products.square().sum().sqrt())
    assert abs(z) <= LARGEST_Z, f"correlated: z = {z:.1f}"


def ou_run(solver: str, steps: int, shape: tuple[int, int, int] = MANY, **options: object) -> Tensor:
    initial = torch.full(shape, START, dtype=DOUBLE)
    return integrate(
        ornstein_uhlenbeck(RATE, LEVEL), initial, horizon=1.0, steps=steps, solver=solver,
        diffusion=ConstantNoise(SIZE), noise_kind="additive", brownian=motion(shape, steps), **options,
    ).final  # fmt: skip


def ou_one_step(solver: StepSolver, dt: float) -> tuple[float, float, float, float]:
    """On a linear equation a step is linear: factor of the state, constant, factors of increment and area."""

    def after(h: float, dw: float, area: float) -> float:
        tensors = [torch.full((1, 1, 1), x, dtype=DOUBLE) for x in (h, dw, area)]
        system = System(ornstein_uhlenbeck(RATE, LEVEL), ConstantNoise(SIZE), None, "additive")
        return float(solver.step(system, 0.0, dt, (tensors[0],), Increment(dt, *tensors[1:]))[0][0])

    constant = after(0, 0, 0)
    return after(1, 0, 0) - constant, constant, after(0, 1, 0) - constant, after(0, 0, 1) - constant


def ou_discrete_moments(solver: StepSolver, steps: int) -> list[tuple[float, float]]:
    """Mean and variance after each step, from 0 on, exactly as the method has them."""
    dt = 1.0 / steps
    factor, constant, by_increment, by_area = ou_one_step(solver, dt)
    moments = [(START, 0.0)]
    for _ in range(steps):
        mean, variance = moments[-1]
        variance = factor**2 * variance + by_increment**2 * dt + by_area**2 * dt / 12
        moments.append((factor * mean + constant, variance))
    return moments


def ou_moments(t: float) -> tuple[float, float]:
    decay = math.exp(-RATE * t)
    return LEVEL + (START - LEVEL) * decay, SIZE**2 / (2 * RATE) * (1 - decay**2)


def check_ou_moments(solver: str, steps: int = 20) -> None:
    """Terminal mean and variance: of the simulation against the method's own, and of those against the closed form."""
    final = ou_run(solver, steps)
    method = make_solver(solver)
    assert isinstance(method, StepSolver)
    mean, variance = ou_discrete_moments(method, steps)[-1]
    assert_mean(final, mean)
    assert_mean((final - mean).square(), variance)
    true_mean, true_variance = ou_moments(1.0)
    within = 0.02 if solver in ("sra1", "srk") else 0.05
    assert abs(variance / true_variance - 1) <= within
    assert abs(mean - true_mean) <= within * true_mean


def check_kl_of_a_constant_difference(solver: str) -> None:
    """½ T |c|² / σ², exactly, whatever the noise does."""
    shape, c, size = (3, 2, 4), 0.6, 0.8
    kl = integrate(
        Field(lambda t, h: c - h), torch.zeros(shape, dtype=DOUBLE), horizon=2.0, steps=6, solver=solver,
        diffusion=ConstantNoise(size), noise_kind="additive", brownian=motion(shape, 6, horizon=2.0),
        prior=ornstein_uhlenbeck(1.0, 0.0),
    ).kl  # fmt: skip
    assert kl is not None
    truth = 0.5 * 2.0 * (c / size) ** 2 * 3 * 4
    assert torch.allclose(kl, torch.full_like(kl, truth), rtol=1e-12), f"{kl.tolist()} instead of {truth}"


def check_euler_kl_is_the_chains_own(
    parameters: tuple[float, float, float] = (0.5, -0.3, SIZE), steps: int = 10
) -> None:
    """Left-point sum over the discrete chain, whose moments obey an exact recursion."""
    prior_rate, prior_level, _ = parameters
    shape = (1, 100_000, 1)
    kl = integrate(
        ornstein_uhlenbeck(RATE, LEVEL), torch.full(shape, START, dtype=DOUBLE), horizon=1.0, steps=steps,
        solver="euler", diffusion=ConstantNoise(SIZE), noise_kind="additive", brownian=motion(shape, steps),
        prior=ornstein_uhlenbeck(prior_rate, prior_level),
    ).kl  # fmt: skip
    assert kl is not None
    euler = make_solver("euler")
    assert isinstance(euler, StepSolver)
    moments = ou_discrete_moments(euler, steps)[:-1]
    assert_mean(kl, sum(kl_rate_on_average(*m, prior_rate, prior_level) for m in moments) / steps)


def kl_rate_on_average(mean: float, variance: float, prior_rate: float, prior_level: float) -> float:
    """E ½ ((a + b h)/σ)² for the difference a + b h of two Ornstein–Uhlenbeck drifts."""
    a, b = RATE * LEVEL - prior_rate * prior_level, prior_rate - RATE
    return 0.5 * ((a + b * mean) ** 2 + b**2 * variance) / SIZE**2


def ou_path_kl(prior_rate: float, prior_level: float) -> float:
    """The closed form of the continuous path KL on [0, 1], by a fine Simpson rule over exact moments."""
    times = np.linspace(0.0, 1.0, 2001)
    rates = np.array([kl_rate_on_average(*ou_moments(t), prior_rate, prior_level) for t in times])
    return float((rates[0] + rates[-1] + 4 * rates[1::2].sum() + 2 * rates[2:-1:2].sum()) / 6000)


def check_noise_is_independent() -> None:
    """Over steps, paths, nodes and dimensions, and between increment and area."""
    draws = motion((200, 40, 4), 6)
    steps = [draws.increment(k, k + 1, area=True) for k in range(6)]
    for one, two in itertools.pairwise(steps):
        assert_uncorrelated(one.dw, two.dw)
        assert_uncorrelated(one.levy(), two.levy())
    for x in (steps[0].dw, steps[3].levy()):
        assert_uncorrelated(x[1:], x[:-1])
        assert_uncorrelated(x[:, 1:], x[:, :-1])
        assert_uncorrelated(x[..., 1:], x[..., :-1])
    assert_uncorrelated(steps[0].dw, steps[0].levy())


def check_increment_variances() -> None:
    """Var W = h and Var H = h/12, for single cells and for steps of several."""
    draws = motion((5000, 1, 8), 12, horizon=3.0)
    for first, last in ((0, 1), (1, 4), (4, 12)):
        step = draws.increment(first, last, area=True)
        assert math.isclose(step.dt, (last - first) * 0.25)
        assert_mean(step.dw.square(), step.dt)
        assert_mean(step.levy().square(), step.dt / 12)
        assert_uncorrelated(step.dw, step.levy())


def check_ralston() -> None:
    """Without noise SRA1 is Ralston's method, to the bit."""
    drift = GCNField()
    h = start = torch.randn(12, 2, 4, dtype=DOUBLE, generator=torch.Generator().manual_seed(1))
    dt = 0.125
    for k in range(8):
        k1 = drift(k * dt, h)
        k2 = drift(k * dt + 0.75 * dt, torch.add(h, k1, alpha=0.75 * dt))
        h = torch.add(h, k1, alpha=dt / 3).add(k2, alpha=2 * dt / 3)
    assert torch.equal(integrate(drift, start, horizon=1.0, steps=8, solver="sra1").final, h)


GRIDS = (8, 16, 32, 64)


def measured_order(solver: str, drift: object, diffusion: object, kind: str, *, paths: int = 24) -> float:
    """Strong order against the same path on 512 steps of a method of order 1.5."""
    shape = (12, paths, 4)
    draws = motion(shape, 512)
    start = torch.randn(shape, dtype=DOUBLE, generator=torch.Generator().manual_seed(2)) * 0.5

    def final(method: str, steps: int) -> Tensor:
        return integrate(
            drift, start, horizon=1.0, steps=steps, solver=method, diffusion=diffusion, noise_kind=kind, brownian=draws,
        ).final  # fmt: skip

    finest = final({"additive": "sra1", "diagonal": "srk"}[kind], 512)
    return slope(GRIDS, [root_mean_square(final(solver, steps) - finest) for steps in GRIDS])


def check_strong_order(solver: str, expected: float, within: float) -> None:
    """On a nonlinear graph drift with additive noise."""
    order = measured_order(solver, GCNField(), ConstantNoise(3.0), "additive")
    assert abs(order - expected) <= within, f"order {order:.3f}"


def check_steps_for(combinations: int = 200) -> None:
    """The number of steps is whole, enough, and one fewer would not be enough."""
    rng = np.random.default_rng(0)
    for _ in range(combinations):
        steps = int(rng.integers(1, 2000))
        horizon = float(rng.choice([0.01, 0.1, 0.3, 1.0, 2.0, 7.0]))
        kind = rng.choice([np.float64, np.float32])
        exact = float(kind(horizon)) / steps
        assert plan_module.steps_for(float(kind(horizon)), exact) == steps
        if steps > 1:
            assert plan_module.steps_for(horizon, horizon / (steps - 0.5)) == steps
    assert plan_module.steps_for(1.0, 0.01) == 100
    assert plan_module.steps_for(0.3, 0.1) == 3
    assert plan_module.steps_for(0.7, 0.7) == plan_module.steps_for(0.3, 3 * 0.1) == 1  # 3 · 0.1 is above 0.3


def check_drift_sees_the_right_times() -> None:
    """With a drift of time alone, Euler is the left Riemann sum, Heun the trapezoid, RK4 Simpson's rule."""
    times = np.arange(9) / 8
    values = np.exp(times)
    middles = np.exp(times[:-1] + 1 / 16)
    truth = {
        "euler": values[:-1].sum() / 8,
        "heun": (values[:-1] + values[1:]).sum() / 16,
        "sra1": (values[:-1] / 3 + np.exp(times[:-1] + 0.75 / 8) * 2 / 3).sum() / 8,
        "rk4": (values[:-1] + 4 * middles + values[1:]).sum() / 48,
        "reversible-heun": (values[:-1] + values[1:]).sum() / 16,
    }
    clock = Field(lambda t, h: torch.full_like(h, math.exp(t)))
    for solver, sum_ in truth.items():
        final = integrate(clock, torch.zeros(1, 1, 1, dtype=DOUBLE), horizon=1.0, steps=8, solver=solver).final
        assert math.isclose(float(final), sum_, rel_tol=1e-13), f"{solver}: {float(final)} instead of {sum_}"
