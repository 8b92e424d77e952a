"""The path KL against closed forms."""

from __future__ import annotations

import math

import pytest
import torch
from dynamics_cases import DOUBLE, GCNField, WavyNoise, motion
from dynamics_checks import (
    LEVEL,
    RATE,
    SIZE,
    START,
    check_euler_kl_is_the_chains_own,
    check_kl_of_a_constant_difference,
    ou_path_kl,
)

from graphsde.base.errors import BadUsage
from graphsde.sde.integrate import integrate
from graphsde.sde.solvers.base import SolverDiverged, half_square_sum
from graphsde.testing.solvers import ConstantNoise, Field, GrowingNoise, ornstein_uhlenbeck

PRIORS = [(0.5, -0.3), (2.0, 0.4), (0.0, 0.0), (1.3, 1.0), (3.0, -1.0), (0.2, 2.0)]
NOISY = ["euler", "sra1", "srk", "heun", "reversible-heun"]


@pytest.mark.parametrize("solver", NOISY)
def test_constant_difference_is_exact(solver: str) -> None:
    check_kl_of_a_constant_difference(solver)


@pytest.mark.parametrize(("rate", "level"), PRIORS)
def test_euler_has_the_exact_kl_of_its_chain(rate: float, level: float) -> None:
    check_euler_kl_is_the_chains_own((rate, level, SIZE))


def ou_kl(solver: str, steps: int, rate: float, level: float) -> torch.Tensor:
    shape = (1, 100_000, 1)
    path = integrate(
        ornstein_uhlenbeck(RATE, LEVEL), torch.full(shape, START, dtype=DOUBLE), horizon=1.0, steps=steps,
        solver=solver, diffusion=ConstantNoise(SIZE), noise_kind="additive", brownian=motion(shape, steps),
        prior=ornstein_uhlenbeck(rate, level),
    )  # fmt: skip
    assert path.kl is not None
    return path.kl


@pytest.mark.parametrize(("rate", "level"), PRIORS)
def test_sra1_is_near_the_continuous_kl(rate: float, level: float) -> None:
    truth = ou_path_kl(rate, level)
    coarse, fine = (abs(float(ou_kl("sra1", steps, rate, level).mean()) / truth - 1) for steps in (10, 20))
    assert coarse <= 0.03
    assert fine <= 0.015


@pytest.mark.parametrize("solver", NOISY)
def test_bias_shrinks_with_the_step(solver: str) -> None:
    truth = ou_path_kl(3.0, -1.0)
    gaps = [abs(float(ou_kl(solver, steps, 3.0, -1.0).mean()) / truth - 1) for steps in (4, 16)]
    assert gaps[1] <= max(0.5 * gaps[0], 0.006)  # Monte Carlo error: about 0.3 %
    assert gaps[1] <= 0.1


@pytest.mark.parametrize("solver", ["sra1", "srk", "heun", "reversible-heun"])
def test_noise_that_grows_in_time(solver: str) -> None:
    """½ c²/σ² ∫ (1 + t)⁻² dt over [0, 1] = ¼ c²/σ²."""
    shape = (2, 3, 2)
    kl = integrate(
        Field(lambda t, h: 0.9 - h), torch.zeros(shape, dtype=DOUBLE), horizon=1.0, steps=200, solver=solver,
        diffusion=GrowingNoise(0.5), noise_kind="additive", brownian=motion(shape, 200),
        prior=ornstein_uhlenbeck(1.0, 0.0),
    ).kl  # fmt: skip
    assert kl is not None
    assert torch.allclose(kl, torch.full_like(kl, 0.25 * (0.9 / 0.5) ** 2 * 4), rtol=1e-4)


@pytest.mark.parametrize("solver", [*NOISY, "milstein"])
def test_equal_drifts_have_no_kl(solver: str) -> None:
    shape, drift = (12, 2, 4), GCNField()
    kl = integrate(
        drift, torch.zeros(shape, dtype=DOUBLE), horizon=1.0, steps=5, solver=solver, prior=drift,
        diffusion=ConstantNoise(1.0) if solver == "sra1" else WavyNoise(), brownian=motion(shape, 5),
        noise_kind="additive" if solver == "sra1" else "diagonal",
    ).kl  # fmt: skip
    assert kl is not None
    assert not kl.any()


def test_without_a_prior_there_is_no_kl() -> None:
    path = integrate(
        GCNField(), torch.zeros(12, 1, 4, dtype=DOUBLE), horizon=1.0, steps=3, diffusion=ConstantNoise(1.0),
        noise_kind="additive", brownian=motion((12, 1, 4), 3),
    )  # fmt: skip
    assert path.kl is None


def test_a_kl_that_is_not_finite_is_told() -> None:
    class Fading(ConstantNoise):
        def whiten(self, t: float, h: torch.Tensor, difference: torch.Tensor) -> torch.Tensor:
            return difference / torch.zeros_like(difference)

    with pytest.raises(SolverDiverged, match="path KL"):
        integrate(
            Field(lambda t, h: -h), torch.ones(2, 1, 1, dtype=DOUBLE), horizon=1.0, steps=2, diffusion=Fading(1.0),
            noise_kind="additive", brownian=motion((2, 1, 1), 2), prior=ornstein_uhlenbeck(0.5, 0.0),
        )  # fmt: skip


def test_a_diffusion_that_refuses_is_heard() -> None:
    class Singular(ConstantNoise):
        def whiten(self, t: float, h: torch.Tensor, difference: torch.Tensor) -> torch.Tensor:
            raise BadUsage("no", code="E-KL")

    with pytest.raises(BadUsage, match="E-KL"):
        integrate(
            Field(lambda t, h: -h), torch.ones(2, 1, 1, dtype=DOUBLE), horizon=1.0, steps=2, diffusion=Singular(1.0),
            noise_kind="additive", brownian=motion((2, 1, 1), 2), prior=ornstein_uhlenbeck(0.5, 0.0),
        )  # fmt: skip


def test_half_square_sum_can_be_differentiated_twice() -> None:
    u = torch.randn(5, 3, 2, dtype=DOUBLE, generator=torch.Generator().manual_seed(0)).requires_grad_()
    assert torch.allclose(half_square_sum(u), 0.5 * u.square().sum((0, 2)), rtol=1e-14)
    assert torch.autograd.gradcheck(half_square_sum, u)
    assert torch.autograd.gradgradcheck(half_square_sum, u)


@pytest.mark.parametrize("nodes", [1, 4096, 4097, 70_000])
def test_sums_over_nodes_have_the_same_bits_on_two_threads(nodes: int) -> None:
    u = torch.randn(nodes, 1, 3, generator=torch.Generator().manual_seed(0))
    one = half_square_sum(u)
    torch.set_num_threads(2)
    assert torch.equal(half_square_sum(u), one)
    assert math.isclose(float(one), 0.5 * float(u.double().square().sum()), rel_tol=1e-5)
