"""Gradients written out by hand against those of autograd: of the convolutions, of a step, of a whole solve."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from dynamics_cases import DOUBLE, small_operator
from torch import Tensor

from graphsde.sde.brownian import BrownianMotion, Increment, node_keys
from graphsde.sde.diffusion import ConstantDiffusion
from graphsde.sde.drift import GCNDrift
from graphsde.sde.drift.stack import ACTIVATIONS
from graphsde.sde.integrate import Path, integrate
from graphsde.sde.prior import OrnsteinUhlenbeckPrior
from graphsde.sde.solvers import SRA1, Euler, System, adjoint

NODES, WIDTH = 9, 3


def stream(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def make_drift(**settings: Any) -> GCNDrift:
    drift = GCNDrift(WIDTH, generator=stream(0), **settings).double()
    with torch.no_grad():
        for bias in drift.biases:
            bias.normal_(generator=stream(1))
    return drift


def make_state(paths: int) -> Tensor:
    return torch.randn(NODES, paths, WIDTH, dtype=DOUBLE, generator=stream(2))


class Hidden:
    """A bound drift that keeps its gradient to itself, so that autograd has to find it."""

    def __init__(self, bound: Any) -> None:
        self.bound, self.tensors = bound, bound.tensors

    def __call__(self, t: float, h: Tensor) -> Tensor:
        return self.bound.run(t, h, self.tensors, None)


@pytest.mark.parametrize("activation", ["softplus", "tanh", "relu"])
@pytest.mark.parametrize(
    "settings",
    [{"layers": 1}, {"layers": 2}, {"layers": 3, "time": False}, {"layers": 3, "dropout": 0.4, "dropout_last": True}],
    ids=str,
)
def test_convolutions_once_and_twice(activation: str, settings: dict[str, Any]) -> None:
    drift = make_drift(activation=activation, **settings)
    h = make_state(2).requires_grad_()
    bound: Any = drift.bind(small_operator(NODES), h, stream(3))
    inputs = (h, *(x.detach().requires_grad_() for x in bound.tensors))

    def value(h: Tensor, *parameters: Tensor) -> Tensor:
        return bound.value(0.7, h, *parameters)

    assert torch.autograd.gradcheck(value, inputs)
    assert torch.autograd.gradgradcheck(value, inputs)
    assert torch.equal(value(*inputs), bound.run(0.7, inputs[0], inputs[1:], None))


def test_a_directed_graph_sends_gradients_against_its_edges() -> None:
    operator = small_operator(NODES)
    lopsided = operator.with_values(operator.values * torch.linspace(0.1, 2, operator.nnz, dtype=DOUBLE))
    h = make_state(1).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: make_drift().bind(lopsided, x)(0.2, x), h)


def test_frozen_parameters_get_no_gradient() -> None:
    drift = make_drift()
    drift.weights[1].requires_grad_(False)
    drift.biases[0].requires_grad_(False)
    h = make_state(2)
    drift.bind(small_operator(NODES), h)(0.5, h).square().sum().backward()
    assert drift.weights[1].grad is None and drift.biases[0].grad is None
    assert drift.weights[0].grad is not None and drift.time_weight is not None and drift.time_weight.grad is not None


def solve(drift: Any, h: Tensor, solver: str, *, kl: bool, sigma: float = 0.7, gradients: str = "store") -> Path:
    operator = small_operator(NODES)
    diffusion = ConstantDiffusion(WIDTH, sigma=sigma)
    return integrate(
        drift,
        h,
        horizon=2.0,
        steps=3,
        solver=solver,
        diffusion=diffusion.bind(operator),
        noise_kind=diffusion.noise,
        brownian=BrownianMotion(
            0, node_keys(torch.arange(NODES).numpy()), range(h.shape[1]), WIDTH, 2.0, 3, dtype=DOUBLE
        ),
        prior=OrnsteinUhlenbeckPrior(WIDTH, theta=0.8, mu=0.3).bind(operator, h) if kl else None,
        gradients=gradients,  # type: ignore[arg-type]
    )


def loss_of(path: Path, part: str) -> Tensor:
    weights = torch.linspace(0.5, 1.5, path.final.shape[1], dtype=DOUBLE)  # a KL gradient that differs among paths
    state = path.final.sin().sum()
    kl = torch.zeros((), dtype=DOUBLE) if path.kl is None else (path.kl * weights).sum()
    return {"state": state, "kl": kl, "both": state + kl}[part]


@pytest.mark.parametrize("solver", ["euler", "sra1"])
@pytest.mark.parametrize("paths", [1, 3])
@pytest.mark.parametrize(("part", "kl"), [("state", False), ("state", True), ("kl", True), ("both", True)])
@pytest.mark.parametrize("gradients", ["store", "checkpoint"])
def test_a_solve_has_autograds_values_and_gradients(
    solver: str, paths: int, part: str, kl: bool, gradients: str
) -> None:
    drift = make_drift()
    found = []
    for hide in (False, True):
        h = make_state(paths).requires_grad_()
        bound = drift.bind(small_operator(NODES), h)
        drift.zero_grad()
        path = solve(Hidden(bound) if hide else bound, h, solver, kl=kl, gradients=gradients)
        loss_of(path, part).backward()
        found.append((path, [h.grad, *(p.grad for p in drift.parameters())]))
    (written, grads), (plain, expected) = found
    torch.testing.assert_close(written.final, plain.final, rtol=1e-13, atol=1e-13)
    assert (written.kl is None) == (plain.kl is None) == (not kl)
    assert written.kl is None or plain.kl is None or torch.allclose(written.kl, plain.kl, rtol=1e-13)
    assert len(grads) == 6
    for grad, other in zip(grads, expected, strict=True):
        torch.testing.assert_close(grad, other, rtol=1e-11, atol=1e-12)
    with torch.no_grad():
        ahead = solve(bound, make_state(paths), solver, kl=kl)
    assert torch.equal(ahead.final, written.final)
    assert ahead.kl is None or written.kl is None or torch.equal(ahead.kl, written.kl)


@pytest.mark.parametrize("solver", ["euler", "sra1"])
def test_a_solve_can_be_differentiated_twice(solver: str) -> None:
    drift = make_drift()

    def outputs(h: Tensor, weight: Tensor) -> Tensor:
        bound: Any = drift.bind(small_operator(NODES), h)
        bound.tensors = (bound.tensors[0], weight, *bound.tensors[2:])
        return loss_of(solve(bound, h, solver, kl=True), "both")

    inputs = (make_state(2).requires_grad_(), drift.weights[0].detach().clone().requires_grad_())
    assert torch.autograd.gradcheck(outputs, inputs)
    assert torch.autograd.gradgradcheck(outputs, inputs)


def test_only_fitting_equations_take_the_short_way() -> None:
    h = make_state(1)
    operator = small_operator(NODES)
    bound, noise = make_drift().bind(operator, h), ConstantDiffusion(WIDTH).bind(operator)
    prior = OrnsteinUhlenbeckPrior(WIDTH).bind(operator, h)
    assert adjoint.is_written_out(System(bound, noise, prior, "additive"))
    assert adjoint.is_written_out(System(bound))
    assert not adjoint.is_written_out(System(Hidden(bound), noise, prior, "additive"))
    assert not adjoint.is_written_out(System(bound, noise, bound, "additive"))  # a prior without a constant slope
    learned = ConstantDiffusion(WIDTH).bind(operator)
    learned.uniform = None  # type: ignore[attr-defined]
    assert not adjoint.is_written_out(System(bound, learned, prior, "additive"))


@pytest.mark.parametrize("method", [Euler(), SRA1()])
def test_only_spent_noise_is_written_over(method: Euler | SRA1) -> None:
    h = make_state(2)
    system = System(
        make_drift().bind(small_operator(NODES), h), ConstantDiffusion(WIDTH, sigma=0.7).bind(small_operator(NODES))
    )
    dw, area = make_state(2) * 0.3, make_state(2) * 0.1
    for recorded in (False, True):
        with torch.set_grad_enabled(recorded):
            kept = Increment(0.5, dw.clone(), area.clone())
            (after,), _ = method.step(system, 0.0, 0.5, (h,), kept)
            (again,), _ = method.step(system, 0.0, 0.5, (h,), Increment(0.5, dw.clone(), area.clone(), spent=True))
        assert torch.equal(kept.dw, dw) and torch.equal(kept.levy(), area) and torch.equal(h, make_state(2))
        assert torch.equal(after, again)


def test_softplus_in_single_precision_has_torchs_values() -> None:
    z = torch.tensor([-200.0, -30.0, -1.0, 0.0, 1e-4, 3.0, 19.9, 20.1, 90.0, 1e30])
    found = ACTIVATIONS["softplus"](z, torch.empty_like(z))
    torch.testing.assert_close(found, torch.nn.functional.softplus(z), rtol=1e-6, atol=1e-12)
    assert ACTIVATIONS["softplus"](torch.tensor([float("nan"), 1.0]), torch.empty(2))[0].isnan()


def test_a_solver_made_from_another_steps_as_it_says() -> None:
    class Stopped(Euler):
        def step(self, system: System, t: float, dt: float, carry: Any, noise: Any) -> Any:
            return carry, None

    h = make_state(1).requires_grad_()
    bound = make_drift().bind(small_operator(NODES), h)
    path = integrate(bound, h, horizon=1.0, steps=2, solver=Stopped())
    assert torch.equal(path.final, h)
    assert not torch.equal(integrate(bound, h, horizon=1.0, steps=2, solver=Euler()).final, h)


def test_gradients_of_states_on_the_way() -> None:
    found = []
    for hide in (False, True):
        h = make_state(2).requires_grad_()
        bound = make_drift().bind(small_operator(NODES), h)
        path = integrate(Hidden(bound) if hide else bound, h, horizon=1.0, steps=3, solver="euler", save="all")
        sum((k + 1) * x.sin().sum() for k, x in enumerate(path.states)).backward()  # type: ignore[union-attr]
        found.append(h.grad)
    torch.testing.assert_close(found[0], found[1], rtol=1e-11, atol=1e-12)
