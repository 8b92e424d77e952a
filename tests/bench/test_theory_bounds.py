"""The right sides: equal to closed forms where there are any, and ordered as they are proven to be."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from graphsde.base.errors import BadUsage
from graphsde.bench.theory.bounds import (
    SOFTMAX,
    STEP_RULES,
    Constants,
    Grid,
    contraction_of,
    distance_bounds,
    noise_of,
    step_rule,
    variance_bounds,
)
from graphsde.graph.sparse import SparseMatrix
from graphsde.sde.diffusion import DIFFUSIONS, ScaledDiffusion
from graphsde.sde.drift import GATDrift, GCNDrift, GraphHeatDrift, ReactionDrift, SecondOrderDrift
from graphsde.sde.field import Drift
from graphsde.sde.integrate import integrate

from support import block_graph

KNOWN = Constants(l_f=0.7, l_h_logits=2.0, l_h_probabilities=1.0, source=0.3, l_g=0.0, power=5.0)


def operator(dtype: torch.dtype = torch.float64) -> SparseMatrix:
    matrix = block_graph().adjacency.operator
    return SparseMatrix(matrix.crow, matrix.col, matrix.values.to(dtype), matrix.shape, symmetric=matrix.symmetric)


def test_euler_chain_in_closed_form() -> None:
    grid = Grid(0.5, (0, 1, 2, 6))
    k, step = np.array(grid.steps), 1 + 0.7 * 0.5
    variance = variance_bounds(KNOWN, STEP_RULES["euler"], None, grid)
    np.testing.assert_allclose(variance.chain, 5.0 * 0.5 * (step ** (2 * k) - 1) / (step**2 - 1), rtol=1e-12)
    np.testing.assert_allclose(variance.exponential, 5.0 * grid.times * np.exp(1.4 * grid.times), rtol=1e-12)
    distance = distance_bounds(KNOWN, STEP_RULES["euler"], None, grid)
    np.testing.assert_allclose(distance.chain, step**k + 0.3 * (step**k - 1) / 0.7, rtol=1e-12)
    grown = np.exp(0.7 * grid.times)
    np.testing.assert_allclose(distance.exponential, grown + 0.3 * (grown - 1) / 0.7, rtol=1e-12)


def test_graph_diffusion_in_unit_steps_contracts_by_one_minus_teleport() -> None:
    drift = GraphHeatDrift(2, teleport=0.1, generator=torch.Generator().manual_seed(0))
    adjacency = operator()
    grid = Grid(1.0, (0, 1, 2, 3, 4))
    contraction = contraction_of(drift, adjacency, STEP_RULES["euler"], 1.0)
    assert contraction is not None
    assert contraction.one_sided == pytest.approx(-0.1, abs=1e-6) and contraction.stretch == pytest.approx(
        0.9, abs=1e-6
    )
    known = replace(KNOWN, l_f=drift.lipschitz(adjacency), source=drift.source_lipschitz(adjacency))
    variance = variance_bounds(known, STEP_RULES["euler"], contraction, grid).contractive
    np.testing.assert_allclose(variance, [5.0 * sum(0.9 ** (2 * j) for j in range(k)) for k in range(5)], rtol=1e-5)
    # 0.9 of the state is kept and 0.1 of the start comes in: no perturbation grows
    np.testing.assert_allclose(
        distance_bounds(known, STEP_RULES["euler"], contraction, grid).contractive, 1.0, rtol=1e-5
    )


def test_many_small_steps_come_near_the_continuous_bounds() -> None:
    drift = GraphHeatDrift(2, teleport=0.2, generator=torch.Generator().manual_seed(0))
    adjacency, steps = operator(), 20_000
    for name in ("euler", "heun", "sra1", "srk"):
        rule, grid = STEP_RULES[name], Grid(2.0 / steps, (steps,))
        variance = variance_bounds(KNOWN, rule, contraction_of(drift, adjacency, rule, grid.dt), grid)
        assert variance.contractive is not None
        assert variance.contractive[0] == pytest.approx(5.0 * (1 - math.exp(-0.8)) / 0.4, rel=2e-3)
        assert variance.chain[0] == pytest.approx(5.0 * math.expm1(2.8) / 1.4, rel=2e-2)


@pytest.mark.parametrize("name", list(STEP_RULES))
@given(
    l_f=st.floats(0, 30),
    l_g=st.floats(0, 3),
    source=st.floats(0, 3),
    dt=st.floats(1e-4, 2),
    steps=st.integers(1, 60),
)
@settings(max_examples=40, deadline=None)
def test_the_exponential_is_above_the_chain(
    name: str, l_f: float, l_g: float, source: float, dt: float, steps: int
) -> None:
    known = replace(KNOWN, l_f=l_f, l_g=l_g if name == "euler" else 0.0, source=source)
    grid = Grid(dt, tuple(range(steps + 1)))
    for bounds in (
        variance_bounds(known, STEP_RULES[name], None, grid),
        distance_bounds(known, STEP_RULES[name], None, grid),
    ):
        assert not np.isnan(bounds.exponential).any()
        assert (bounds.chain <= bounds.exponential * (1 + 1e-9)).all()


def test_bounds_beyond_the_range_of_numbers_are_infinite_and_silent() -> None:
    grid = Grid(1.0, (0, 1, 1000))
    huge = replace(KNOWN, l_f=1e200, source=0.0)
    for rule in STEP_RULES.values():
        for bounds in (variance_bounds(huge, rule, None, grid), distance_bounds(huge, rule, None, grid)):
            assert bounds.exponential[-1] == bounds.chain[-1] == math.inf
            assert not np.isnan([bounds.exponential, bounds.chain]).any()


@pytest.mark.parametrize("name", list(STEP_RULES))
@pytest.mark.parametrize("dt", [0.05, 0.5, 1.0])
def test_growth_and_push_hold_for_the_solvers_themselves(name: str, dt: float) -> None:
    """One dimension, f = L h + s: the worst case, in which Runge–Kutta methods reach their bound."""

    class Expanding:
        tensors = ()

        def __init__(self, shift: float) -> None:
            self.shift = shift

        def __call__(self, t: float, h: torch.Tensor) -> torch.Tensor:
            return 0.7 * h + self.shift

    zero = torch.zeros(1, 1, 1, dtype=torch.float64)
    rule, steps = STEP_RULES[name], 3
    for start, shift, source in ((1.0, 0.0, 0.0), (1.0, 0.3, 0.3)):
        plain = integrate(Expanding(0.0), zero, horizon=steps * dt, steps=steps, solver=name, save="all")
        moved = integrate(Expanding(shift), zero + start, horizon=steps * dt, steps=steps, solver=name, save="all")
        apart = (moved.states - plain.states).abs().flatten().numpy()
        bound = distance_bounds(replace(KNOWN, source=source), rule, None, Grid(dt, (0, 1, 2, 3))).chain
        assert (apart <= bound * (1 + 1e-12)).all()
        if name != "reversible-heun":
            np.testing.assert_allclose(apart, bound, rtol=1e-12)


@pytest.mark.parametrize(
    ("name", "noise"),
    [
        ("euler", lambda x: 1.0),
        ("heun", lambda x: (1 + x / 2) ** 2),
        ("sra1", lambda x: (1 + x / 2) ** 2 + x**2 / 12),
        ("srk", lambda x: (1 + x / 2) ** 2 + x**2 / 12),
    ],
)
@pytest.mark.parametrize("dt", [0.01, 0.3, 1.5])
def test_the_exact_variance_of_a_linear_equation_is_below_its_bound(
    name: str, noise: Callable[[float], float], dt: float
) -> None:
    """f = L h: a step is R h plus the increment and what of the noise has gone through the stages."""
    x, variance, exact = 0.7 * dt, 0.0, [0.0]
    growth = sum(c * x**k for k, c in enumerate(STEP_RULES[name].coefficients))
    for _ in range(8):
        variance = growth**2 * variance + 5.0 * dt * noise(x)
        exact.append(variance)
    bound = variance_bounds(KNOWN, STEP_RULES[name], None, Grid(dt, tuple(range(9)))).chain
    assert (np.array(exact) <= bound * (1 + 1e-12)).all()
    assert bound[-1] < 3 * exact[-1]


@pytest.mark.parametrize("name", ["euler", "heun", "sra1", "srk", "rk4"])
@pytest.mark.parametrize("kind", ["symmetric", "random-walk"])
@pytest.mark.parametrize("dt", [0.1, 1.0, 1.7])
def test_stretch_and_push_are_norms_of_the_step_matrix(name: str, kind: str, dt: float) -> None:
    adjacency = operator()
    drift = GraphHeatDrift(1, teleport=0.3, rate=0.8, operator=kind, generator=torch.Generator().manual_seed(0))
    contraction = contraction_of(drift, adjacency, STEP_RULES[name], dt)
    assert contraction is not None
    n = adjacency.shape[0]
    a = drift.flow.matrix(adjacency).csr().to_dense().numpy()
    z = dt * 0.8 * (0.7 * a - np.eye(n))
    powers = [np.linalg.matrix_power(z, k) for k in range(5)]
    coefficients = STEP_RULES[name].coefficients
    step = sum(c * p for c, p in zip(coefficients, powers, strict=False))
    push = sum(c * p for c, p in zip(coefficients[1:], powers, strict=False))
    assert np.linalg.norm(step, 2) <= contraction.stretch * (1 + 1e-9)
    assert np.linalg.norm(push, 2) <= contraction.push * (1 + 1e-9)
    assert np.linalg.eigvalsh((z + z.T) / 2).max() / dt <= contraction.one_sided + 1e-9
    if kind == "symmetric" and name == "euler" and dt < 1.5:
        assert np.linalg.norm(step, 2) == pytest.approx(contraction.stretch, rel=1e-5)


@pytest.mark.parametrize("name", list(DIFFUSIONS))
def test_noise_power_is_the_trace_of_the_diffusion(name: str) -> None:
    adjacency = operator()
    n, d = adjacency.shape[0], 2
    options = {"modes": 6} if name == "q-wiener" else {}
    diffusion = DIFFUSIONS.get(name)(d, sigma=0.6, **options).double()
    diffusion.set_gain(1.5)
    bound = diffusion.bind(adjacency)
    keys = bound.keys(torch.arange(n)).numel()
    units = torch.eye(keys * d, dtype=torch.float64).reshape(keys * d, keys, d).transpose(0, 1).contiguous()
    state = torch.zeros(n, keys * d, d, dtype=torch.float64)
    with torch.no_grad():
        trace = float(bound.apply(0.0, state, units).square().sum())
    noise = noise_of(diffusion, n, d)
    if name == "state-dependent":  # at h = 0 it is in the middle; the bound is the top
        assert noise.power == pytest.approx(trace * 1.5**2, rel=1e-6)
        assert noise.l_g == pytest.approx(0.6 * 1.5 * 0.5)
    else:
        assert (noise.power, noise.l_g) == (pytest.approx(trace, rel=1e-6), 0.0)


def test_an_unknown_diffusion_is_refused() -> None:
    class Own(ScaledDiffusion):
        name = "own"

        def bind(self, adjacency: SparseMatrix) -> None: ...

    with pytest.raises(BadUsage, match="size of the diffusion 'own'"):
        noise_of(Own(), 3, 2)
    Own.power = lambda self, nodes, width: 2.0 * nodes  # type: ignore[method-assign]
    assert noise_of(Own(), 3, 2).power == 6.0


@given(st.integers(2, 9), st.integers(0, 2**31))
@settings(max_examples=60, deadline=None)
def test_softmax_shrinks_distances_by_half(classes: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = torch.from_numpy(rng.normal(size=(2, 50, classes)) * rng.choice([0.01, 1.0, 10.0]))
    apart = (torch.softmax(a, -1) - torch.softmax(b, -1)).norm(dim=1)
    assert bool((apart <= SOFTMAX * (a - b).norm(dim=1) * (1 + 1e-9) + 1e-15).all())


def test_half_is_the_best_constant_of_softmax() -> None:
    a = torch.tensor([1e-4, -1e-4], dtype=torch.float64)
    assert float((torch.softmax(a, -1) - 0.5).norm() / a.norm()) == pytest.approx(SOFTMAX, rel=1e-6)


def test_how_the_initial_state_enters_a_drift() -> None:
    adjacency, g = operator(), torch.Generator().manual_seed(0)

    def kappa(drift: Drift) -> float:
        return drift.source_lipschitz(adjacency)

    assert kappa(GCNDrift(4, generator=g)) == 0.0
    assert kappa(GATDrift(4, generator=g)) == 0.0
    assert kappa(GraphHeatDrift(4, teleport=0.1, source=-0.4, generator=g)) == 0.4
    assert kappa(GraphHeatDrift(4, attention="linear", generator=g)) == math.inf
    assert kappa(ReactionDrift(4, reaction="source", strength=0.3, generator=g)) == pytest.approx(0.3)
    assert kappa(ReactionDrift(4, generator=g)) == 0.0
    assert kappa(SecondOrderDrift(4, force="graph-heat", generator=g)) == pytest.approx(0.1)
    smoothing = GraphHeatDrift(1, teleport=0.1, source_operator="smoothing", generator=g)
    state = torch.zeros(adjacency.shape[0], adjacency.shape[0], 1, dtype=torch.float64)
    unit = torch.eye(adjacency.shape[0], dtype=torch.float64)[:, :, None]
    matrix = (smoothing.bind(adjacency, unit)(0.0, state) - smoothing.bind(adjacency, state)(0.0, state))[:, :, 0]
    assert kappa(smoothing) == pytest.approx(float(torch.linalg.matrix_norm(matrix, 2)), rel=1e-5)


def test_solvers_without_a_bound_are_refused() -> None:
    assert step_rule("heun", state_dependent=False) is STEP_RULES["heun"]
    with pytest.raises(BadUsage, match="dopri5"):
        step_rule("dopri5", state_dependent=False)
    with pytest.raises(BadUsage, match="depends on the state"):
        step_rule("heun", state_dependent=True)
