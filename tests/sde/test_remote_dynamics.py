"""Drifts, priors, diffusions and solvers on another device: no tensor stays behind, and the results are the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

# the settings that the contract tries, on both kinds of device: float64 is missing on Apple's
from test_component_contract import DIFFUSION_SETTINGS, DRIFT_SETTINGS, PRIOR_SETTINGS
from torch import Tensor

from graphsde.base.seeds import torch_stream
from graphsde.graph.sparse import SparseMatrix
from graphsde.nn.keyed_masks import KeyedMasks
from graphsde.nn.layers import bring_home, place
from graphsde.sde.adaptive import integrate_adaptive
from graphsde.sde.brownian import BrownianMotion, node_keys
from graphsde.sde.diffusion import DIFFUSIONS, ConstantDiffusion
from graphsde.sde.drift import DRIFTS, GCNDrift
from graphsde.sde.integrate import integrate
from graphsde.sde.marginals import propagated_variance, unit_variance
from graphsde.sde.prior import PRIORS
from graphsde.sde.solvers import SOLVERS
from graphsde.testing.parts import NODES, small_graph
from remote_device import RemoteTensor, remote_device

WIDTH, PATHS, STEPS = 4, 2, 4
CPU = torch.device("cpu")


def each(settings: dict[str, list[dict[str, Any]]]) -> list[Any]:
    return [
        pytest.param(name, own, id=f"{name}-{at}") for name, all_ in settings.items() for at, own in enumerate(all_)
    ]


def graph() -> SparseMatrix:
    return small_graph().to(torch.float32)


def solved(
    where: torch.device,
    *,
    drift: tuple[str, dict[str, Any]] = ("gcn", {"dropout": 0.3}),
    diffusion: tuple[str, dict[str, Any]] | None = ("constant", {"sigma": 0.7}),
    prior: tuple[str, dict[str, Any]] | None = None,
    solver: str = "euler",
    gradients: Any = "store",
) -> list[Tensor]:
    """Final state, KL and gradients of a solve on a device, brought home."""
    f = DRIFTS.get(drift[0])(WIDTH, generator=torch_stream(0, "weights"), **drift[1])
    g = None if diffusion is None else DIFFUSIONS.get(diffusion[0])(WIDTH, **diffusion[1])
    p = None if prior is None else PRIORS.get(prior[0])(WIDTH, **prior[1])
    for part in (f, g, p):
        if part is not None:
            place(part, where)
    adjacency = graph().on(where)
    initial = torch.randn(NODES, PATHS, WIDTH, generator=torch_stream(0, "state")).to(where).requires_grad_()
    bound = None if g is None else g.bind(adjacency)
    keys = node_keys(np.arange(NODES)).to(where)
    path = integrate(
        f.bind(adjacency, initial, torch_stream(0, "dropout")),
        initial,
        horizon=1.0,
        steps=STEPS,
        solver=solver,
        diffusion=bound,
        noise_kind=None if g is None else g.noise,
        brownian=None if bound is None else BrownianMotion(0, bound.keys(keys), range(PATHS), WIDTH, 1.0, STEPS),
        prior=None if p is None else p.bind(adjacency, initial),
        gradients=gradients,
    )
    assert isinstance(path.final, RemoteTensor) == (where.type != "cpu")
    loss = path.final.square().sum() + (0.0 if path.kl is None else path.kl.sum())
    loss.backward()
    learned = [one for part in (f, g, p) if part is not None for one in part.parameters()]
    found = [path.final, *([] if path.kl is None else [path.kl]), *(one.grad for one in (initial, *learned))]
    return [one.detach().cpu() for one in found if one is not None]


def same_elsewhere(monkeypatch: pytest.MonkeyPatch, float64: bool = True, **parts: Any) -> None:
    here = solved(CPU, **parts)
    with remote_device(monkeypatch, float64=float64) as name:
        there = solved(torch.device(name), **parts)
    assert len(here) == len(there) >= 2
    for one, two in zip(here, there, strict=True):
        assert float((one - two).abs().max()) <= 5e-5 * (1.0 + float(one.abs().max()))


@pytest.mark.parametrize("float64", [True, False])
@pytest.mark.parametrize(("name", "own"), each(DRIFT_SETTINGS))
def test_drift(monkeypatch: pytest.MonkeyPatch, name: str, own: dict[str, Any], float64: bool) -> None:
    same_elsewhere(monkeypatch, float64, drift=(name, own))


@pytest.mark.parametrize("float64", [True, False])
@pytest.mark.parametrize(("name", "own"), each(DIFFUSION_SETTINGS))
def test_diffusion(monkeypatch: pytest.MonkeyPatch, name: str, own: dict[str, Any], float64: bool) -> None:
    drift = ("second-order", {}) if name == "velocity" else ("gcn", {})
    same_elsewhere(monkeypatch, float64, drift=drift, diffusion=(name, own))


@pytest.mark.parametrize(("name", "own"), each(PRIOR_SETTINGS))
def test_prior(monkeypatch: pytest.MonkeyPatch, name: str, own: dict[str, Any]) -> None:
    second = name == "underdamped"
    drift, diffusion = (("second-order", {}), "velocity") if second else (("gcn", {}), "constant")
    same_elsewhere(monkeypatch, drift=drift, diffusion=(diffusion, {"sigma": 0.7}), prior=(name, own))


@pytest.mark.parametrize("float64", [True, False])
@pytest.mark.parametrize("name", list(SOLVERS))
def test_solver(monkeypatch: pytest.MonkeyPatch, name: str, float64: bool) -> None:
    noisy = "additive" in SOLVERS.get(name)().noise
    diffusion = ("constant", {"sigma": 0.7}) if noisy else None
    modes = ["store"] if name == "dopri5" else ["store", "checkpoint"]
    for gradients in [*modes, *(["reversible"] if name == "reversible-heun" else [])]:
        prior = ("ou", {}) if noisy else None
        same_elsewhere(monkeypatch, float64, solver=name, diffusion=diffusion, prior=prior, gradients=gradients)


def test_adaptive_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    def path(where: torch.device) -> list[Tensor]:
        drift, noise = GCNDrift(WIDTH, generator=torch_stream(0, "weights")), ConstantDiffusion(WIDTH, sigma=0.3)
        place(drift, where)
        place(noise, where)
        adjacency, keys = graph().on(where), node_keys(np.arange(NODES)).to(where)
        initial = torch.randn(NODES, PATHS, WIDTH, generator=torch_stream(0, "state")).to(where)
        found = integrate_adaptive(
            lambda h: drift.bind(adjacency, h), initial, horizon=1.0, seed=0, keys=keys, paths=range(PATHS),
            diffusion=noise.bind(adjacency), noise_kind=noise.noise,
        )  # fmt: skip
        return [found.final.detach().cpu(), found.accepted.cpu()]

    here = path(CPU)
    with remote_device(monkeypatch) as name:
        there = path(torch.device(name))
    assert torch.allclose(here[0], there[0], atol=1e-5) and torch.equal(here[1], there[1])


@pytest.mark.parametrize("float64", [True, False])
def test_marginals(monkeypatch: pytest.MonkeyPatch, float64: bool) -> None:
    def found(where: torch.device) -> list[Tensor]:
        adjacency, kappa = graph().on(where), torch.tensor([0.9, -0.4]).to(where)
        own = torch.linspace(0.1, 1.0, NODES).to(where)
        parts = [unit_variance(adjacency, kappa, 5, channel=channel) for channel in ("identity", "smoothing")]
        parts += [unit_variance(adjacency, 0.7, 4), propagated_variance(adjacency, 0.8, 3, own)]
        return [one.cpu() for one in parts]

    here = found(CPU)
    with remote_device(monkeypatch, float64=float64) as name:
        there = found(torch.device(name))
    assert all(torch.allclose(one, two, rtol=1e-5) for one, two in zip(here, there, strict=True))


def test_masks_have_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    def drawn(where: torch.device) -> list[Tensor]:
        masks = KeyedMasks(3, 7, node_keys(np.arange(NODES)).to(where))
        adjacency = graph().on(where)
        found = [masks.rows(5), masks.entries(adjacency), masks.edges(adjacency, 3), masks.scalars(4)]
        return [one.cpu() for one in (*found, masks.edges(adjacency, 2, symmetric=True))]

    here = drawn(CPU)
    with remote_device(monkeypatch) as name:
        there = drawn(torch.device(name))
    assert all(torch.equal(one, two) for one, two in zip(here, there, strict=True))


def test_a_module_without_float64_gets_its_digits_back(monkeypatch: pytest.MonkeyPatch) -> None:
    drift = DRIFTS.get("graph-filter")(WIDTH, kappas=[0.9, 0.3], generator=torch_stream(0, "weights"))
    drift.register_buffer("moving", torch.tensor(0.1, dtype=torch.float64))
    before = {name: one.clone() for name, one in drift.state_dict().items()}
    with remote_device(monkeypatch, float64=False) as name:
        narrowed = place(drift, torch.device(name))
        assert {one.dtype for one in drift.state_dict().values()} == {torch.float32}
        drift.moving.add_(1.0)
        bring_home(drift, narrowed)
    after = drift.state_dict()
    assert torch.equal(after["fixed"], before["fixed"]) and after["fixed"].dtype == torch.float64
    assert after["moving"].dtype == torch.float64 and float(after["moving"]) == pytest.approx(1.1, abs=1e-6)
