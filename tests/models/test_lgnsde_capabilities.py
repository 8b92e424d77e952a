"""An LGNSDE asks its parts what they can do: a linear drift of somebody else's gets all that the shipped one gets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import graphsde as gs
from graphsde.base.errors import BadUsage
from graphsde.graph.sparse import SparseMatrix
from graphsde.models.lgnsde.module import LGNSDEModule, Noise
from graphsde.models.neural import Inputs
from graphsde.sde.brownian import node_keys
from graphsde.sde.drift import DRIFTS
from graphsde.sde.field import BoundDrift, Diffusion, Drift, Prior, register_drift, register_prior
from graphsde.sde.prior import PRIORS
from graphsde.testing.parts import DRIFT_CHECKS, Check, ComponentCase

from support import block_graph

QUICK: dict[str, Any] = {"epochs": 4, "hidden": 6, "evaluate_every": 2}


class _Decay:
    """−c H + push."""

    def __init__(self, speed: float, push: Tensor | None = None) -> None:
        self.speed, self.push = speed, push
        self.tensors: tuple[Tensor, ...] = () if push is None else (push,)

    def __call__(self, t: float, h: Tensor) -> Tensor:
        return -self.speed * h if self.push is None else self.push - self.speed * h


class ForgetfulPrior(Prior):
    """p(H) = −c H. Paper: none."""

    name, summary, paper, year = "forgetful", "forgets", "none", 2024
    relative = True

    def __init__(self, width: int, *, speed: float = 0.5) -> None:
        super().__init__()
        self.speed = speed

    def bind(self, adjacency: SparseMatrix, initial: Tensor) -> BoundDrift:
        return _Decay(self.speed)


class NostalgicDrift(Drift):
    """f(H) = −c H + 0.3 H(0). Paper: none."""

    name, summary, paper, year = "nostalgic", "forgets, but for where it began", "none", 2024
    relative = linear = True

    def __init__(self, width: int, *, speed: float = 0.5, generator: torch.Generator) -> None:
        super().__init__()
        self.speed = speed

    def bind(self, adjacency: SparseMatrix, initial: Tensor, generator: torch.Generator | None = None) -> BoundDrift:
        return _Decay(self.speed, self.control(initial))

    def closed_kl(self, prior: Prior, diffusion: Diffusion) -> bool:
        return isinstance(prior, ForgetfulPrior) and prior.speed == self.speed and diffusion.channel == "identity"

    def control(self, initial: Tensor) -> Tensor:
        return 0.3 * initial


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    register_drift(NostalgicDrift)
    register_prior(ForgetfulPrior)
    yield
    del DRIFTS._entries["nostalgic"], PRIORS._entries["forgetful"]


PARTS: Mapping[str, Any] = {"drift": "nostalgic", "prior": "forgetful", "diffusion": "constant"}


def test_a_linear_drift_of_a_third_party_gets_relative_noise_and_the_closed_kl() -> None:
    graph = block_graph()
    model = gs.LGNSDE(**QUICK, **PARTS, sigma=0.5, kl_weight=1e-3).fit(graph)
    assert model.settings.preset == "universal" and model.settings.sigma_is == "ratio"
    module = model.module
    assert isinstance(module, LGNSDEModule)
    inputs = Inputs(torch.tensor(np.asarray(model.encoder.transform(graph))), graph.adjacency.operator)  # type: ignore[union-attr]
    noise = Noise(7, node_keys(graph.node_ids), range(3))
    with torch.no_grad():
        latent = module.evolve(inputs, noise, None, kl=True)
        solved = module.trajectory(inputs, noise, module.initial(inputs, 1, None), kl=True)
    assert float(module.gain) > 0 and latent.kl is not None and solved.kl is not None
    torch.testing.assert_close(latent.state, solved.final, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(latent.kl.expand(3), solved.kl, rtol=1e-4, atol=0.0)


def test_it_is_asked_and_not_guessed_at() -> None:
    graph = block_graph()
    for other in ({"prior": {"name": "forgetful", "options": {"speed": 0.1}}}, {"diffusion": "smoothed"}):
        with pytest.raises(BadUsage, match="no closed form"):
            gs.LGNSDE(**QUICK, **{**PARTS, **other}, kl_weight=1e-3).fit(graph)
    assert gs.LGNSDE(**{**PARTS, "prior": "ou"}).settings.preset == "paper"
    NostalgicDrift.learns_rate = True
    try:
        with pytest.raises(BadUsage, match="rate of drift 'nostalgic'"):
            gs.LGNSDE(**QUICK, **PARTS).fit(graph)
    finally:
        del NostalgicDrift.learns_rate


def test_second_order_dynamics_of_a_linear_force_superpose() -> None:
    parts = {"drift": {"name": "second-order", "options": {"force": "graph-heat"}}, "prior": "underdamped"}
    model = gs.LGNSDE(**QUICK, **parts, diffusion="velocity", sigma_is="ratio", kl_weight=0.0)
    assert np.isfinite(model.fit(block_graph()).predict(block_graph(), samples=2).probs).all()


def test_memory_is_estimated_by_what_the_drift_keeps() -> None:
    graph = block_graph()
    kept = {name: gs.LGNSDE(preset="paper", drift=name).activations(graph) for name in ("gcn", "nostalgic")}
    settings = gs.LGNSDE(preset="paper").settings
    each = 2 * settings.steps * settings.hidden * settings.paths
    assert kept["gcn"] - kept["nostalgic"] == each * (DRIFTS.get("gcn").kept_states - 1) > 0


@pytest.mark.parametrize("check", DRIFT_CHECKS, ids=lambda check: check.__name__)
def test_the_third_partys_drift_keeps_the_contract(check: Check) -> None:
    check(ComponentCase(lambda width, generator: NostalgicDrift(width, generator=generator)))
