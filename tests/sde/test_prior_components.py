"""The priors by hand, and the path KL between them and the drifts that were made for them."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from graphsde.base.errors import BadUsage
from graphsde.graph.graph import Graph
from graphsde.graph.sparse import SparseMatrix
from graphsde.sde.diffusion import ConstantDiffusion
from graphsde.sde.drift import GraphHeatDrift
from graphsde.sde.prior import PRIORS, ConstantPrior, GraphOUPrior, OrnsteinUhlenbeckPrior, UnderdampedPrior

D = torch.float64
LONELY = SparseMatrix(torch.tensor([0, 1]), torch.tensor([0]), torch.ones(1), (1, 1))


def state(graph: Graph, seed: int = 1, width: int = 4) -> Tensor:
    return torch.randn(graph.num_nodes, 2, width, generator=torch.Generator().manual_seed(seed), dtype=D)


def test_priors_by_hand(blocks: Graph) -> None:
    h, operator = state(blocks), blocks.adjacency.operator.to(D)
    dense = torch.from_numpy(blocks.adjacency.normalized.toarray().astype(float))
    by_hand = [
        (OrnsteinUhlenbeckPrior(4, theta=0.3, mu=2.0), 0.3 * (2.0 - h)),
        (OrnsteinUhlenbeckPrior(4, theta=0.3), -0.3 * h),
        (ConstantPrior(4, drift=-5.0), torch.full_like(h, -5.0)),
        (GraphOUPrior(4, teleport=0.2), 0.8 * torch.einsum("ij,jsd->isd", dense, h) - h),
        (
            UnderdampedPrior(4, friction=0.5, stiffness=2.0),
            torch.cat([h[..., 2:], -2 * h[..., :2] - 0.5 * h[..., 2:]], -1),
        ),
    ]
    assert {type(prior).name for prior, _ in by_hand} == set(PRIORS)
    for prior, expected in by_hand:
        torch.testing.assert_close(prior.bind(operator, h)(0.3, h), expected, atol=1e-6, rtol=0)


def test_path_kl_against_the_graph_diffusion_prior_is_closed(blocks: Graph) -> None:
    """½ T a² ‖H(0)‖²/g², whatever path is taken: posterior and prior differ by the source alone."""
    operator, start = blocks.adjacency.operator.to(D), state(blocks)
    a, g, horizon, steps = 0.1, 0.4, 2.0, 8
    drift = GraphHeatDrift(4, teleport=a, generator=torch.Generator().manual_seed(0)).bind(operator, start)
    prior = GraphOUPrior(4, teleport=a).bind(operator, start)
    noise = ConstantDiffusion(4, sigma=g).bind(operator)
    h, kl, dt = start, torch.zeros(2, dtype=D), horizon / steps
    for step in range(steps):
        u = noise.whiten(0.0, h, drift(0.0, h) - prior(0.0, h))
        kl = kl + 0.5 * dt * u.square().sum((0, 2))
        h = h + dt * drift(0.0, h) + noise.apply(0.0, h, state(blocks, seed=10 + step)) * math.sqrt(dt)
    torch.testing.assert_close(kl, 0.5 * horizon * a**2 * start.square().sum((0, 2)) / g**2)


def test_ou_settles_at_its_variance() -> None:
    """Euler–Maruyama on the prior itself: variance σ²/(2θ) · 1/(1 − θ dt/2) for the discrete chain."""
    theta, mu, sigma, dt = 1.3, 0.7, 0.6, 0.05
    h = torch.full((1, 40_000, 1), 0.0)
    field = OrnsteinUhlenbeckPrior(1, theta=theta, mu=mu).bind(LONELY, h)
    noise = ConstantDiffusion(1, sigma=sigma).bind(LONELY)
    rng = torch.Generator().manual_seed(0)
    for _ in range(120):
        increment = torch.randn(h.shape, generator=rng) * math.sqrt(dt)
        h = h + dt * field(0.0, h) + noise.apply(0.0, h, increment)
    variance = sigma**2 / (2 * theta) / (1 - theta * dt / 2)
    assert float(h.mean()) == pytest.approx(mu, abs=4 * math.sqrt(variance / 40_000))
    assert float(h.var()) == pytest.approx(variance, rel=4 * math.sqrt(2 / 40_000))


@pytest.mark.parametrize(
    ("cls", "wrong"),
    [
        (OrnsteinUhlenbeckPrior, {"theta": -1.0}),
        (OrnsteinUhlenbeckPrior, {"mu": np.nan}),
        (ConstantPrior, {"drift": math.inf}),
        (GraphOUPrior, {"teleport": 2.0}),
        (UnderdampedPrior, {"friction": -0.1}),
        (UnderdampedPrior, {"width": 3}),
    ],
)
def test_wrong_settings_are_refused(cls: type, wrong: dict[str, float]) -> None:
    with pytest.raises(BadUsage, match=next(iter(wrong))):
        cls(**{"width": 4, **wrong})


def test_graph_diffusion_needs_self_loops() -> None:
    import scipy.sparse as sp

    bare = SparseMatrix.from_scipy(sp.csr_array(np.array([[0.0, 1.0], [1.0, 0.0]])), dtype=D)
    with pytest.raises(BadUsage, match="E-SELF-LOOP"):
        GraphOUPrior(2).bind(bare, torch.zeros(2, 1, 2, dtype=D))


def test_the_gap_to_ornstein_uhlenbeck_by_hand() -> None:
    """f − θ(μ − h) with θ = 3, μ = 2: at h = ½ and f = 1 it is 1 − 4½, at h = −1 and f = 10 it is 10 − 9."""
    prior = OrnsteinUhlenbeckPrior(2, theta=3.0, mu=2.0).bind(LONELY, torch.zeros(1, 1, 2))
    f, h = torch.tensor([[[1.0, 10.0]]]), torch.tensor([[[0.5, -1.0]]])
    assert prior(0.0, h).tolist() == [[[4.5, 9.0]]]
    assert prior.gap(0.0, h, f).tolist() == [[[-3.5, 1.0]]]  # type: ignore[attr-defined]
    room = f.clone()
    assert prior.gap(0.0, h, room, room).tolist() == room.tolist() == [[[-3.5, 1.0]]]  # type: ignore[attr-defined]


@pytest.mark.parametrize("solver", ["euler", "sra1", "heun"])
def test_one_step_of_path_kl_against_ornstein_uhlenbeck_by_hand(solver: str) -> None:
    """The posterior rests at h = ½ without a drift of its own and with hardly any noise, so that every rate is that at
    the start: ½ (θ(μ − h))² dt/g² = ½ · 4.5² · ¼/g² for one entry, and four times as much where g is half."""
    from dynamics_cases import motion

    from graphsde.sde.integrate import integrate

    start = torch.full((1, 1, 1), 0.5, dtype=D)
    prior = OrnsteinUhlenbeckPrior(1, theta=3.0, mu=2.0).bind(LONELY, start)
    for g in (2e-7, 1e-7):
        kl = integrate(
            ConstantPrior(1).bind(LONELY, start), start, horizon=0.25, steps=1, solver=solver, prior=prior,
            diffusion=ConstantDiffusion(1, sigma=g).bind(LONELY), noise_kind="additive",
            brownian=motion((1, 1, 1), 1, horizon=0.25),
        ).kl  # fmt: skip
        assert kl is not None and float(kl) * g**2 == pytest.approx(2.53125, rel=1e-6)
