"""Steps that follow the path: accuracy, laws, independence of paths, refusals."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from dynamics_cases import DOUBLE, GCNField, WavyNoise
from dynamics_checks import LEVEL, RATE, SIZE, START, assert_mean, ou_moments, ou_path_kl
from torch import Tensor

from graphsde.base.errors import BadUsage
from graphsde.sde.adaptive import BrownianBridge, _Walk, integrate_adaptive, step_error
from graphsde.sde.brownian import node_keys
from graphsde.sde.integrate import AdaptivePath
from graphsde.sde.solvers.base import EvaluationsExhausted, SolverDiverged, System, make_solver
from graphsde.testing.solvers import ConstantNoise, Field, ProportionalNoise, ornstein_uhlenbeck

PAIRS = [
    ("sra1", "additive"),
    ("euler", "additive"),
    ("euler", "diagonal"),
    ("milstein", "diagonal"),
    ("srk", "diagonal"),
]


def run(
    solver: str = "sra1",
    kind: str = "additive",
    paths: list[int] | None = None,
    tolerance: float = 1e-2,
    **options: object,
) -> AdaptivePath:
    paths = [0, 1, 2] if paths is None else paths
    start = torch.linspace(-1, 1, 48, dtype=DOUBLE).view(12, 1, 4).expand(12, len(paths), 4)
    noise = {"none": None, "additive": ConstantNoise(0.8), "diagonal": WavyNoise(0.8, 0.6)}[kind]
    given = {"bind_drift": lambda h: GCNField(), "initial": start, "diffusion": noise, "noise_kind": kind, **options}
    return integrate_adaptive(
        horizon=1.0, seed=0, keys=node_keys(np.arange(12)), paths=paths, solver=solver, rtol=tolerance, atol=tolerance,
        **given,
    )  # fmt: skip


@pytest.mark.parametrize(("solver", "kind"), PAIRS)
def test_a_path_does_not_depend_on_the_others(solver: str, kind: str) -> None:
    prior = {"bind_prior": lambda h: ornstein_uhlenbeck(1.0, 0.0)}
    together, alone = run(solver, kind, [4, 0, 9], 0.05, **prior), run(solver, kind, [9], 0.05, **prior)
    assert torch.equal(together.final[:, 2:], alone.final)
    assert torch.equal(together.kl[2:], alone.kl)
    for name in ("accepted", "rejected", "evaluations"):
        assert getattr(together, name)[2] == getattr(alone, name)[0]


@pytest.mark.parametrize(("solver", "kind"), [("sra1", "additive"), ("srk", "diagonal")])
def test_tighter_tolerances_come_nearer_and_cost_more(solver: str, kind: str) -> None:
    loose, tight, exact = (run(solver, kind, tolerance=tolerance) for tolerance in (3e-2, 1e-3, 3e-5))
    errors = [float((path.final - exact.final).abs().max()) for path in (loose, tight)]
    assert errors[1] < 0.2 * errors[0]
    assert (tight.evaluations > loose.evaluations).all()
    assert (exact.accepted > tight.accepted).all()


def test_steps_are_short_only_where_they_must_be() -> None:
    """A drift that is stiff during a tenth of the time."""
    calls: list[float] = []

    def sudden(t: float, h: Tensor) -> Tensor:
        calls.append(t)
        return -h * (60.0 if 0.5 <= t < 0.6 else 0.1)

    run("sra1", "additive", [0], 1e-2, bind_drift=lambda h: Field(sudden))
    busy = np.mean([0.48 <= t < 0.62 for t in calls])
    assert busy > 0.4


def test_the_law_is_not_biased_by_rejections() -> None:
    """Mean, variance and KL of an Ornstein–Uhlenbeck process, with rejections that depend on the noise."""
    shape = (2, 400, 5)
    path = integrate_adaptive(
        lambda h: ornstein_uhlenbeck(RATE, LEVEL), torch.full(shape, START, dtype=DOUBLE), horizon=1.0, seed=1,
        keys=node_keys(np.arange(2)), paths=range(400), diffusion=ConstantNoise(SIZE), noise_kind="additive",
        bind_prior=lambda h: ornstein_uhlenbeck(0.5, -0.3), rtol=5e-3, atol=5e-3, shallowest=1,
    )  # fmt: skip
    mean, variance = ou_moments(1.0)
    assert path.rejected.double().std() > 0.2
    assert_mean(path.final, mean, bias=2e-3)
    assert_mean((path.final - mean).square(), variance, bias=2e-3)
    truth = ou_path_kl(0.5, -0.3) * 10
    assert_mean(path.kl, truth, bias=5e-3 * truth)


def test_geometric_brownian_motion_path_by_path() -> None:
    keys, paths = node_keys(np.arange(8)), [0, 5, 6]
    path = integrate_adaptive(
        lambda h: Field(lambda t, h: 0.3 * h), torch.ones(8, 3, 2, dtype=DOUBLE), horizon=1.0, seed=2, keys=keys,
        paths=paths, solver="srk", diffusion=ProportionalNoise(0.5), noise_kind="diagonal", rtol=1e-4, atol=1e-4,
    )  # fmt: skip
    w = torch.cat([BrownianBridge(2, keys, p, 2, 1.0, DOUBLE).increment(0, 0).dw for p in paths], 1)
    assert (path.final - torch.exp((0.3 - 0.125) + 0.5 * w)).abs().max() < 3e-3


def test_without_noise() -> None:
    path = run(
        "rk4", "none", [0], 1e-6, bind_drift=lambda h: Field(lambda t, h: -h), initial=torch.ones(12, 1, 4).double()
    )
    assert torch.allclose(path.final, torch.full_like(path.final, math.exp(-1.0)), atol=1e-6)
    assert path.kl is None


def test_evaluations_are_counted() -> None:
    drifts: list[Field] = []

    def bind(h: Tensor) -> Field:
        drifts.append(Field(lambda t, h: torch.sin(5 * h)))
        return drifts[-1]

    path = run(bind_drift=bind, tolerance=1e-3)
    assert path.evaluations.tolist() == [drift.calls for drift in drifts]
    assert (path.rejected > 0).all()
    # two half steps per attempt; a whole step only where it is not the first half of a rejected one
    assert torch.equal(path.evaluations, 2 * (2 * (path.accepted + path.rejected) + path.accepted))


def test_each_path_gets_the_drift_of_its_own_start() -> None:
    start = torch.arange(3, dtype=DOUBLE).view(1, 3, 1).expand(12, 3, 4).contiguous()
    path = run(kind="none", initial=start, bind_drift=lambda h: Field(lambda t, x: 0 * x + h))
    assert torch.allclose(path.final, 2 * start)


def test_gradients_flow_through_accepted_steps() -> None:
    rate = torch.tensor(0.9, dtype=DOUBLE, requires_grad=True)

    def loss(value: Tensor) -> Tensor:
        path = run("sra1", "additive", [0], 1e-2, bind_drift=lambda h: ornstein_uhlenbeck(value, 0.2),
                   bind_prior=lambda h: ornstein_uhlenbeck(0.3, 0.0))  # fmt: skip
        return path.final.sum() + path.kl.sum()

    assert torch.autograd.gradcheck(loss, (rate,), eps=1e-7, rtol=1e-5)


def test_a_step_that_can_not_be_short_enough() -> None:
    with pytest.raises(EvaluationsExhausted, match="not accurate enough"):
        run(bind_drift=lambda h: Field(lambda t, h: 1e4 * torch.sin(1e4 * h)), deepest=6)


def test_divergence_is_told() -> None:
    with pytest.raises(SolverDiverged) as caught:
        run(bind_drift=lambda h: Field(lambda t, h: h / 0.0), deepest=4)
    assert caught.value.nodes == 12
    with pytest.raises(SolverDiverged, match="step 0"):
        run(initial=torch.full((12, 3, 4), math.nan, dtype=DOUBLE))


@pytest.mark.parametrize(
    ("code", "options"),
    [
        ("E-SOLVER", {"solver": "reversible-heun"}),
        ("E-SOLVER", {"solver": "dopri5", "kind": "none"}),
        ("E-SOLVER", {"solver": "sra1", "kind": "diagonal"}),
        ("E-SOLVER", {"noise_kind": None}),
        ("E-STATE", {"initial": torch.zeros(12, 2, 4, dtype=DOUBLE)}),
        ("E-USAGE", {"tolerance": 0.0}),
        ("E-USAGE", {"deepest": 2}),
    ],
)
def test_parts_that_do_not_fit(code: str, options: dict[str, object]) -> None:
    with pytest.raises(BadUsage, match=code):
        run(**options)


def test_the_error_of_a_step() -> None:
    before, one = torch.zeros(2, 1, 2), torch.tensor([[[1.0, 2.0]], [[3.0, 4.0]]])
    assert step_error(before, one, one, 0.1, 0.1) == 0.0
    two = one + 0.2
    expected = (0.2 / (0.1 + 0.1 * two)).square().mean().sqrt()
    assert math.isclose(step_error(before, one, two, 0.1, 0.1), float(expected), rel_tol=1e-5)
    assert step_error(before, one, one * math.nan, 0.1, 0.1) == math.inf


def test_when_a_longer_step_is_tried() -> None:
    """A step of twice the length is expected to have 2^(p + ½) times the error; half of what would pass is left."""
    for solver, kind, error in (("sra1", "additive", 0.125), ("euler", "diagonal", 0.25), ("rk4", "none", 2**-5.5)):
        system = System(Field(lambda t, h: -h), noise=kind)  # type: ignore[arg-type]
        walk = _Walk(system, make_solver(solver), 1.0, None, 1e-2, 1e-2, 2, 16)  # type: ignore[arg-type]
        assert walk._comfort() == pytest.approx(error, rel=1e-12)
