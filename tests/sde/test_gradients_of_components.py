"""The package's own drifts, priors and diffusions: every way back gives the same gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from dynamics_cases import DOUBLE, small_operator
from torch import Tensor

from graphsde.base.seeds import torch_stream
from graphsde.sde.brownian import BrownianMotion, node_keys
from graphsde.sde.diffusion import DIFFUSIONS
from graphsde.sde.drift import DRIFTS
from graphsde.sde.integrate import integrate
from graphsde.sde.prior import PRIORS

SHAPE = (12, 2, 4)
SOLVERS = {"additive": "sra1", "diagonal": "srk"}
DRIFT_CASES: list[tuple[str, dict[str, Any]]] = [
    ("gcn", {"dropout": 0.3}),
    ("gcn", {"spectral_bound": 0.8}),
    ("gat", {"heads": 2, "dropout": 0.3}),
    ("graph-heat", {"rate": 0.5, "learn_rate": True}),
    ("graph-heat", {"attention": "linear", "heads": 2}),
    ("graph-heat", {"attention": "nonlinear", "heads": 2}),
    ("reaction", {}),
    ("second-order", {}),
]


def gradients(
    mode: str,
    drift_name: str,
    drift_settings: dict[str, Any],
    diffusion_name: str,
    *,
    kl: bool,
    solver: str | None = None,
) -> list[Tensor | None]:
    drift = DRIFTS.get(drift_name)(4, generator=torch_stream(0, "weights"), **drift_settings).double()
    diffusion = DIFFUSIONS.get(diffusion_name)(4).double()
    adjacency = small_operator()
    encoder = torch.randn(3, 4, generator=torch_stream(0, "encoder"), dtype=DOUBLE).requires_grad_()
    features = torch.randn(12, 3, generator=torch_stream(0, "features"), dtype=DOUBLE)
    initial = torch.tanh(features @ encoder)[:, None].expand(SHAPE)
    bound = diffusion.bind(adjacency)
    keys = bound.keys(node_keys(np.arange(12)))
    path = integrate(
        drift.bind(adjacency, initial, torch_stream(0, "dropout")),
        initial,
        horizon=1.0,
        steps=7,
        solver=solver or SOLVERS[diffusion.noise],
        diffusion=bound,
        noise_kind=diffusion.noise,
        brownian=BrownianMotion(0, keys, range(2), 4, 1.0, 7, DOUBLE),
        prior=PRIORS.get("ou")(4).bind(adjacency, initial) if kl else None,
        gradients=mode,
    )
    loss = path.final.square().sum() + (path.kl.sum() if path.kl is not None else 0.0)
    return list(torch.autograd.grad(loss, [encoder, *drift.parameters(), *diffusion.parameters()], allow_unused=True))


def assert_same(want: list[Tensor | None], got: list[Tensor | None]) -> None:
    assert any(x is not None and x.abs().max() > 1e-6 for x in want)
    for one, two in zip(want, got, strict=True):
        zero = one is None or not one.any()
        assert zero == (two is None or not two.any())
        assert zero or torch.allclose(one, two, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize(("name", "settings"), DRIFT_CASES)
def test_drifts(name: str, settings: dict[str, Any]) -> None:
    stored, kept = (gradients(mode, name, settings, "learned", kl=True) for mode in ("store", "checkpoint"))
    assert_same(stored, kept)


@pytest.mark.parametrize("name", list(DIFFUSIONS))
def test_diffusions(name: str) -> None:
    kl = name in ("constant", "learned", "per-dimension", "state-dependent")
    stored, kept = (gradients(mode, "gcn", {}, name, kl=kl) for mode in ("store", "checkpoint"))
    assert_same(stored, kept)


@pytest.mark.parametrize("diffusion", ["learned", "state-dependent"])
def test_reversible(diffusion: str) -> None:
    stored, undone = (
        gradients(mode, "gcn", {}, diffusion, kl=True, solver="reversible-heun") for mode in ("store", "reversible")
    )
    assert_same(stored, undone)
