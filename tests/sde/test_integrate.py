"""The entry point: grids, what is saved, refusals, divergence, bits."""

from __future__ import annotations

import hashlib
import math
import subprocess
import sys

import numpy as np
import pytest
import torch
from dynamics_cases import DOUBLE, GCNField, WavyNoise, motion
from dynamics_checks import check_steps_for

from graphsde.base.errors import BadUsage, Diverged, GraphsdeError
from graphsde.sde.brownian import BrownianMotion, node_keys
from graphsde.sde.integrate import Path, integrate
from graphsde.sde.plan import steps_for
from graphsde.sde.solvers import SOLVERS, Dopri5, StepSolver
from graphsde.sde.solvers.base import EvaluationsExhausted, SolverDiverged
from graphsde.testing.solvers import ConstantNoise, Field, ProportionalNoise, ornstein_uhlenbeck

SHAPE = (12, 3, 4)
START = torch.linspace(-1, 1, math.prod(SHAPE), dtype=DOUBLE).view(SHAPE)
KINDS = [(name, kind) for name in SOLVERS for kind in SOLVERS.get(name).strong_order]


def solve(solver: str, kind: str = "none", steps: int = 6, **options: object) -> Path:
    noise = {"none": None, "additive": ConstantNoise(0.7), "diagonal": WavyNoise(0.7)}[kind]
    given = {"drift": GCNField(), "initial": START, "horizon": 1.0, "diffusion": noise, "noise_kind": kind, **options}
    return integrate(steps=steps, solver=solver, brownian=motion(SHAPE, steps), **given)


def test_number_of_steps_is_whole() -> None:
    check_steps_for(200)


@pytest.mark.parametrize(
    ("horizon", "dt"),
    [(1.0, 0.0), (1.0, -0.1), (1.0, 1.5), (1.0, math.nan), (1.0, math.inf), (0.0, 0.1), (-1.0, 0.1), (math.nan, 0.1)],
)
def test_steps_that_make_no_sense(horizon: float, dt: float) -> None:
    with pytest.raises(BadUsage, match="E-STEP"):
        steps_for(horizon, dt)


def test_what_is_saved() -> None:
    last, some, everything = (solve("sra1", "additive", 6, save=save) for save in ("last", 4, "all"))
    assert last.times == (1.0,)
    assert last.states.shape == (1, *SHAPE)
    assert everything.times == tuple(k / 6 for k in range(7))
    assert everything.states.shape == (7, *SHAPE)
    assert some.times == (0.0, 2 / 6, 4 / 6, 1.0)
    assert torch.equal(some.states, everything.states[[0, 2, 4, 6]])
    assert torch.equal(everything.saved[0], START)
    assert torch.equal(last.final, everything.final)


def test_saved_states_of_the_adaptive_ode() -> None:
    path = solve("dopri5", steps=4, save="all")
    assert path.times == (0.0, 0.25, 0.5, 0.75, 1.0)
    half = solve("dopri5", steps=1, horizon=0.5)
    assert torch.allclose(path.saved[2], half.final, atol=1e-4)


@pytest.mark.parametrize("save", [1, 0, 8, True, "first", 2.0])
def test_savings_that_make_no_sense(save: object) -> None:
    with pytest.raises(BadUsage, match="E-SAVE"):
        solve("sra1", save=save)


def test_rk4_and_dopri5_agree_with_torchdiffeq() -> None:
    import torchdiffeq

    drift = GCNField()
    grid = torch.linspace(0, 1, 9, dtype=DOUBLE)

    def field(t: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
        return drift(float(t), h)

    truth = torchdiffeq.odeint(field, START, grid, method="dopri8", rtol=1e-11, atol=1e-12)[-1]
    exact_grid = torchdiffeq.odeint(field, START, grid, method="rk4", options={"perturb": False})[-1]
    ours = solve("rk4", steps=8).final
    assert (ours - truth).abs().max() < 1e-4  # torchdiffeq's own rk4 is the 3/8 rule: same order, other numbers
    assert (exact_grid - truth).abs().max() < 1e-4
    assert (integrate(drift, START, horizon=1.0, steps=1, solver=Dopri5(1e-9, 1e-10)).final - truth).abs().max() < 1e-7
    assert (solve("heun", steps=256).final - truth).abs().max() < 1e-4
    assert (solve("euler", steps=4096).final - truth).abs().max() < 1e-3


def test_heun_and_euler_agree_with_torchdiffeq_to_rounding() -> None:
    import torchdiffeq

    drift = GCNField()
    for ours, theirs in (("euler", "euler"), ("heun", "heun2")):
        want = torchdiffeq.odeint(
            lambda t, h: drift(float(t), h), START, torch.linspace(0, 1, 9, dtype=DOUBLE), method=theirs
        )[-1]
        assert (solve(ours, steps=8).final - want).abs().max() < 1e-12


def test_evaluations_of_dopri5_have_a_cap() -> None:
    stiff = Field(lambda t, h: -1e5 * (h - math.cos(50 * t)))
    with pytest.raises(EvaluationsExhausted, match="E-DIVERGED") as caught:
        integrate(stiff, START, horizon=10.0, steps=1, solver=Dopri5(max_evaluations=100))
    assert isinstance(caught.value, Diverged)
    assert stiff.calls == 100


# --- noise that is off ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", [name for name in SOLVERS if name != "dopri5"])
def test_sigma_zero_is_the_ode_and_draws_nothing(solver: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*arguments: object) -> None:
        raise AssertionError("noise was drawn")

    ode = solve(solver, gradients="store")
    monkeypatch.setattr(BrownianMotion, "increment", forbidden)
    prior = ornstein_uhlenbeck(1.0, 0.0)
    switched_off = solve(solver, "none", diffusion=ConstantNoise(0.0), prior=prior)
    assert torch.equal(switched_off.final, ode.final)
    assert switched_off.kl is None
    assert prior.calls == 0

    class Nothing(ConstantNoise):
        is_zero = True

    kind = next((k for k in SOLVERS.get(solver).strong_order if k != "none"), "none")
    assert torch.equal(solve(solver, "none", diffusion=Nothing(0.0), noise_kind=kind, prior=prior).final, ode.final)


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "options"),
    [
        ("E-STEP", {"steps": 0}),
        ("E-STEP", {"steps": 2.5}),
        ("E-STEP", {"steps": True}),
        ("E-STEP", {"horizon": math.nan}),
        ("E-STEP", {"horizon": -1.0}),
        ("E-STATE", {"initial": torch.zeros(3, 4)}),
        ("E-STATE", {"initial": torch.zeros(3, 1, 4, dtype=torch.int64)}),
        ("E-NOISE", {"brownian": None}),
        ("E-NOISE", {"brownian": motion(SHAPE, 5)}),
        ("E-NOISE", {"brownian": motion(SHAPE, 6, horizon=2.0)}),
        ("E-NOISE", {"brownian": motion((12, 2, 4), 6)}),
        ("E-NOISE", {"brownian": motion(SHAPE, 6, dtype=torch.float32)}),
        ("E-SOLVER", {"noise_kind": None}),
        ("E-SOLVER", {"gradients": "reversible"}),
        ("E-NAME", {"gradients": "adjoint"}),
        ("E-NAME", {"solver": "magic"}),
    ],
)
def test_parts_that_do_not_fit(code: str, options: dict[str, object]) -> None:
    given = {"initial": START, "horizon": 1.0, "steps": 6, "solver": "sra1", "diffusion": ConstantNoise(1.0),
             "noise_kind": "additive", "brownian": motion(SHAPE, 6), **options}  # fmt: skip
    with pytest.raises(GraphsdeError, match=code):
        integrate(GCNField(), **given)


def test_dopri5_can_only_store() -> None:
    with pytest.raises(BadUsage, match="E-SOLVER"):
        solve("dopri5", gradients="checkpoint")


# --- divergence -------------------------------------------------------------------------------------------------------


def nan_at_node(t: float, h: torch.Tensor) -> torch.Tensor:
    return torch.where((torch.arange(len(h)) == 3).view(-1, 1, 1) & torch.tensor(t > 0.4), math.nan, -h)


def one_entry_at_the_end(t: float, h: torch.Tensor) -> torch.Tensor:
    out = -h
    if t >= 0.8:
        out[7, 2, 1] = math.inf
    return out


INJECTIONS = {
    "explodes": lambda t, h: 1e8 * h.pow(3),
    "nan at a node": nan_at_node,
    "inf at the end": one_entry_at_the_end,
    "opposite infinities": lambda t, h: h / 0.0 if t > 0.3 else -h,
}


@pytest.mark.parametrize("injection", list(INJECTIONS))
@pytest.mark.parametrize(("solver", "kind"), KINDS)
def test_no_infinite_state_leaves_silently(solver: str, kind: str, injection: str) -> None:
    with pytest.raises(Diverged) as caught:
        solve(solver, kind, drift=Field(INJECTIONS[injection]))
    error = caught.value
    if not isinstance(error, SolverDiverged):
        assert solver == "dopri5"
        return
    assert error.method == solver
    assert error.hint
    assert 0 < error.time <= 1.0
    if issubclass(SOLVERS.get(solver), StepSolver):
        assert error.step is not None
        assert 1 <= error.step <= 6
        assert math.isclose(error.time, error.step / 6)
        assert error.dt == 1 / 6
        assert f"step {error.step}" in str(error)
    if injection == "nan at a node":
        assert (error.nodes, error.positions) == (1, (3,))
    if injection == "inf at the end":
        assert error.positions == (7,)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_an_initial_state_that_is_not_finite(value: float) -> None:
    start = START.clone()
    start[4, 1, 0] = value
    with pytest.raises(SolverDiverged, match="step 0") as caught:
        solve("euler", initial=start)
    assert caught.value.positions == (4,)


def test_large_but_finite_states_are_no_divergence() -> None:
    """A sum over nodes may overflow while every entry is finite."""
    start = torch.full((2000, 1, 64), 3e37)
    final = integrate(Field(lambda t, h: torch.zeros_like(h)), start, horizon=1.0, steps=1, solver="euler").final
    assert torch.equal(final, start)


@pytest.mark.parametrize("mode", ["store", "checkpoint", "reversible"])
def test_divergence_is_told_in_every_gradient_mode(mode: str) -> None:
    solver = "reversible-heun" if mode == "reversible" else "sra1"
    with pytest.raises(SolverDiverged):
        solve(
            solver,
            "additive",
            drift=Field(INJECTIONS["explodes"]),
            gradients=mode,
            initial=START.clone().requires_grad_(),
        )


# --- bits -------------------------------------------------------------------------------------------------------------


def digest(path: Path) -> str:
    return hashlib.sha256(path.states.detach().numpy().tobytes() + path.kl.detach().numpy().tobytes()).hexdigest()


def reference_solve(nodes: int = 300, seed: int = 0) -> Path:
    shape = (nodes, 4, 16)
    generator = torch.Generator().manual_seed(5)
    weight = torch.randn(16, 16, generator=generator) / 4
    return integrate(
        Field(lambda t, h: torch.tanh(h @ weight) - h), torch.zeros(shape), horizon=1.0, steps=5, solver="sra1",
        diffusion=ConstantNoise(0.5), noise_kind="additive", prior=ornstein_uhlenbeck(1.0, 0.0), save="all",
        brownian=motion(shape, 5, seed=seed, dtype=torch.float32),
    )  # fmt: skip


def test_same_seed_same_bits() -> None:
    first = digest(reference_solve())
    for k in range(20):
        torch.set_num_threads(1 + k % 2)
        np.random.seed(k)
        torch.manual_seed(k)
        assert digest(reference_solve()) == first
    assert digest(reference_solve(seed=1)) != first


def test_same_bits_in_another_process_and_errors_without_assertions() -> None:
    code = f"""
import sys
sys.path[:0] = {sys.path!r}
import numpy, torch, test_integrate as here
assert False, "assertions must be off here"
numpy.random.seed(3)
print(here.digest(here.reference_solve()))
caught = 0
for solver, kind in here.KINDS:
    for drift in here.INJECTIONS.values():
        try:
            here.solve(solver, kind, drift=here.Field(drift))
        except here.Diverged:
            caught += 1
print(caught)
"""
    done = subprocess.run([sys.executable, "-O", "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.split() == [digest(reference_solve()), str(len(KINDS) * len(INJECTIONS))]


@pytest.mark.parametrize(("solver", "kind"), [pair for pair in KINDS if pair[1] != "none"])
def test_a_path_is_the_same_alone_or_among_many(solver: str, kind: str) -> None:
    noise = ConstantNoise(0.7) if kind == "additive" else ProportionalNoise(0.3)
    keys = node_keys(np.arange(5))

    def final(paths: list[int]) -> torch.Tensor:
        return integrate(
            ornstein_uhlenbeck(1.0, 0.5), torch.ones(5, len(paths), 3), horizon=1.0, steps=4, solver=solver,
            diffusion=noise, noise_kind=kind, brownian=BrownianMotion(0, keys, paths, 3, 1.0, 4),
        ).final  # fmt: skip

    everything = final(list(range(100)))
    assert torch.equal(final([17]), everything[:, 17:18])
    assert torch.equal(final(list(range(10))), everything[:, :10])


def test_permuting_the_nodes_permutes_the_result() -> None:
    order = torch.randperm(12, generator=torch.Generator().manual_seed(0))
    drift = GCNField()
    dense = drift.adjacency.csr().to_dense()

    def final(order: torch.Tensor) -> torch.Tensor:
        matrix = dense[order][:, order]

        def field(t: float, h: torch.Tensor) -> torch.Tensor:
            return torch.tanh(torch.einsum("nm,msd->nsd", matrix, h) @ drift.first) - h

        keys = node_keys(np.arange(12))[order]
        return integrate(
            Field(field), START[order], horizon=1.0, steps=5, diffusion=ConstantNoise(0.5), noise_kind="additive",
            brownian=BrownianMotion(0, keys, range(3), 4, 1.0, 5, DOUBLE),
        ).final  # fmt: skip

    assert torch.allclose(final(order), final(torch.arange(12))[order], rtol=0, atol=1e-13)


def test_coarse_and_fine_steps_walk_the_same_path() -> None:
    draws = motion(SHAPE, 24)
    finals = [
        integrate(
            GCNField(), START, horizon=1.0, steps=n, diffusion=ConstantNoise(0.7), noise_kind="additive",
            brownian=draws,
        )
        for n in (12, 24)
    ]  # fmt: skip
    other = integrate(
        GCNField(), START, horizon=1.0, steps=24, diffusion=ConstantNoise(0.7), noise_kind="additive",
        brownian=motion(SHAPE, 24, seed=9),
    )  # fmt: skip
    near, far = ((path.final - finals[1].final).abs().mean() for path in (finals[0], other))
    assert near < 0.02 * far


def test_prediction_keeps_no_graph() -> None:
    drift = GCNField(grad=True)
    with torch.no_grad():
        assert not solve("sra1", "additive", drift=drift).final.requires_grad
    assert solve("sra1", "additive", drift=drift).final.requires_grad
