"""Solvers against closed forms, oracles, and each other."""

from __future__ import annotations

import math

import pytest
import torch
from dynamics_cases import DOUBLE, GCNField, WavyNoise, motion
from dynamics_checks import (
    MANY,
    assert_mean,
    check_drift_sees_the_right_times,
    check_ou_moments,
    check_ralston,
    check_strong_order,
    measured_order,
    ou_moments,
    ou_run,
)

from graphsde.base.errors import BadUsage, UnknownName
from graphsde.sde.integrate import integrate
from graphsde.sde.solvers import SOLVERS, Dopri5, make_solver
from graphsde.testing.solvers import ConstantNoise, Field, GrowingNoise, ProportionalNoise


@pytest.mark.parametrize("solver", ["euler", "sra1", "srk", "heun"])
def test_ornstein_uhlenbeck_moments(solver: str) -> None:
    check_ou_moments(solver)


def test_ornstein_uhlenbeck_moments_of_reversible_heun() -> None:
    final = ou_run("reversible-heun", 20)
    mean, variance = ou_moments(1.0)
    assert_mean(final, mean, bias=0.01 * mean)
    assert_mean((final - final.mean()).square(), variance, bias=0.02 * variance)


@pytest.mark.parametrize("solver", ["euler", "milstein", "srk", "heun", "reversible-heun"])
def test_geometric_brownian_motion_moments(solver: str) -> None:
    a, b, steps = 0.3, 0.4, 25
    dt = 1.0 / steps
    final = integrate(
        Field(lambda t, h: a * h), torch.ones(MANY, dtype=DOUBLE), horizon=1.0, steps=steps, solver=solver,
        diffusion=ProportionalNoise(b), noise_kind="diagonal", brownian=motion(MANY, steps),
    ).final  # fmt: skip
    if solver in ("euler", "milstein"):
        correction = b**4 * dt**2 / 2 if solver == "milstein" else 0.0
        mean, second, bias = (1 + a * dt) ** steps, ((1 + a * dt) ** 2 + b**2 * dt + correction) ** steps, 0.0
    else:
        # Heun's methods solve the Stratonovich equation, in which the noise adds to the growth
        growth = a + (b**2 / 2 if make_solver(solver).stratonovich else 0.0)
        mean, second, bias = math.exp(growth), math.exp(2 * growth + b**2), 1e-3
    assert_mean(final, mean, bias=bias)
    assert_mean(final.square(), second, bias=bias)


@pytest.mark.parametrize(
    ("solver", "expected", "within"),
    [("euler", 1.0, 0.1), ("heun", 1.0, 0.15), ("sra1", 1.5, 0.15), ("srk", 1.5, 0.15), ("reversible-heun", 1.0, 0.15)],
)
def test_strong_order_with_additive_noise(solver: str, expected: float, within: float) -> None:
    check_strong_order(solver, expected, within)


@pytest.mark.parametrize(("solver", "expected"), [("euler", 0.5), ("milstein", 1.0), ("srk", 1.5)])
def test_strong_order_with_diagonal_noise(solver: str, expected: float) -> None:
    order = measured_order(solver, GCNField(), WavyNoise(0.8, 0.9), "diagonal", paths=40)
    assert abs(order - expected) <= 0.2, f"order {order:.3f}"


@pytest.mark.parametrize("solver", ["sra1", "srk"])
def test_strong_order_with_noise_that_grows_in_time(solver: str) -> None:
    order = measured_order(solver, GCNField(), GrowingNoise(2.0), "additive")
    assert abs(order - 1.5) <= 0.2, f"order {order:.3f}"


def test_heun_is_stratonovich() -> None:
    draws, shape = motion((40, 50, 1), 256), (40, 50, 1)
    w = draws.increment(0, 256).dw
    final = integrate(
        Field(lambda t, h: torch.zeros_like(h)), torch.ones(shape, dtype=DOUBLE), horizon=1.0, steps=256, solver="heun",
        diffusion=ProportionalNoise(0.5), noise_kind="diagonal", brownian=draws,
    ).final  # fmt: skip
    assert (final - torch.exp(0.5 * w)).abs().max() < 0.02
    assert (final - torch.exp(0.5 * w - 0.125)).abs().max() > 0.1


def test_sra1_without_noise_is_ralstons_method() -> None:
    check_ralston()


def test_every_method_sees_the_right_times() -> None:
    check_drift_sees_the_right_times()


def test_autonomous_shortcut_of_sra1_changes_nothing() -> None:
    class Cautious(ConstantNoise):
        autonomous = False

    shape = (12, 3, 4)
    finals = [
        integrate(
            GCNField(), torch.zeros(shape, dtype=DOUBLE), horizon=1.0, steps=6, solver="sra1", diffusion=noise,
            noise_kind="additive", brownian=motion(shape, 6),
        ).final
        for noise in (ConstantNoise(0.7), Cautious(0.7))
    ]  # fmt: skip
    assert torch.allclose(finals[0], finals[1], rtol=1e-13, atol=1e-14)


def test_diffusion_with_fewer_motions_than_nodes() -> None:
    class TwoModes(ConstantNoise):
        def keys(self, node_keys: torch.Tensor) -> torch.Tensor:
            return torch.arange(2)

        def apply(self, t: float, h: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
            return torch.cat([noise[:1].expand(6, -1, -1), noise[1:].expand(6, -1, -1)])

    draws = motion((2, 3, 4), 4)
    for solver in ("euler", "sra1", "srk", "heun", "reversible-heun"):
        final = integrate(
            Field(lambda t, h: -h), torch.zeros(12, 3, 4, dtype=DOUBLE), horizon=1.0, steps=4, solver=solver,
            diffusion=TwoModes(1.0), noise_kind="additive", brownian=draws,
        ).final  # fmt: skip
        assert torch.equal(final[0], final[5])
        assert not torch.equal(final[0], final[6])


class Rough(ConstantNoise):
    """Depends on the state, but offers neither entries nor slopes."""


@pytest.mark.parametrize(
    ("solver", "kind", "diffusion"),
    [
        ("sra1", "diagonal", ProportionalNoise(1.0)),
        ("milstein", "diagonal", Rough(1.0)),
        ("srk", "diagonal", Rough(1.0)),
        ("milstein", "additive", ConstantNoise(1.0)),
        ("rk4", "additive", ConstantNoise(1.0)),
        ("rk4", "diagonal", ProportionalNoise(1.0)),
        ("dopri5", "additive", ConstantNoise(1.0)),
    ],
)
def test_illegal_pairs_are_refused_at_the_door(solver: str, kind: str, diffusion: ConstantNoise) -> None:
    shape = (3, 1, 2)
    with pytest.raises(BadUsage, match="E-SOLVER") as caught:
        integrate(
            Field(lambda t, h: -h), torch.zeros(shape, dtype=DOUBLE), horizon=1.0, steps=2, solver=solver,
            diffusion=diffusion, noise_kind=kind, brownian=motion(shape, 2),
        )  # fmt: skip
    assert solver in str(caught.value)
    assert caught.value.fix
    named = type(diffusion).__name__ if isinstance(diffusion, Rough) else kind
    assert named in str(caught.value)


def test_unknown_solver_lists_the_choices() -> None:
    with pytest.raises(UnknownName, match="did you mean 'sra1'"):
        make_solver("sra2")


def test_the_registry_tells_what_each_can_do() -> None:
    facts = {entry["name"]: entry for entry in SOLVERS.describe()}
    assert facts["sra1"]["strong_order"]["additive"] == 1.5
    assert facts["sra1"]["evaluations"] == 2
    assert "diagonal" not in facts["sra1"]["noise"]


def test_one_tolerance_of_dopri5_may_be_zero() -> None:
    """dH = −H from 1: e⁻¹ at T = 1, by the absolute tolerance alone and by the relative one alone."""
    start = torch.ones(1, 1, 1, dtype=DOUBLE)
    for solver in (Dopri5(rtol=0.0, atol=1e-8), Dopri5(rtol=1e-8, atol=0.0)):
        path = integrate(Field(lambda t, h: -h), start, horizon=1.0, steps=1, solver=solver)
        assert float(path.final) == pytest.approx(math.exp(-1), abs=1e-6)
    with pytest.raises(BadUsage, match="rtol"):
        Dopri5(rtol=0.0, atol=0.0)


@pytest.mark.parametrize(
    ("solver", "ends"), [("euler", (1.0, 0.0)), ("heun", (0.5, 0.5)), ("reversible-heun", (0.5, 0.5))]
)
def test_noise_that_grows_in_time_is_taken_at_the_ends_of_a_step(solver: str, ends: tuple[float, float]) -> None:
    """Pure noise of size .5 (1 + t) in two steps of ¼: .5, .625 and .75 at their ends, weighted as the method says."""
    noise = motion((3, 2, 2), 2, horizon=0.5)
    final = integrate(
        Field(lambda t, h: 0.0 * h), torch.zeros(3, 2, 2, dtype=DOUBLE), horizon=0.5, steps=2, solver=solver,
        diffusion=GrowingNoise(0.5), noise_kind="additive", brownian=noise,
    ).final  # fmt: skip
    first, last = ends
    sizes = (first * 0.5 + last * 0.625, first * 0.625 + last * 0.75)
    by_hand = sum(size * noise.cell_increment(cell) for cell, size in enumerate(sizes))
    torch.testing.assert_close(final, by_hand, rtol=1e-12, atol=1e-12)
