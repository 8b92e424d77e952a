"""Sizes, correlations and refusals of the diffusions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from graphsde.base.errors import BadUsage
from graphsde.graph.graph import Graph
from graphsde.sde.diffusion import (
    DIFFUSIONS,
    ConstantDiffusion,
    LearnedDiffusion,
    PerDimensionDiffusion,
    QWienerDiffusion,
    SmoothedDiffusion,
    StateDependentDiffusion,
    VelocityDiffusion,
)

D = torch.float64


def stream(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def normal(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, generator=stream(seed), dtype=D)


@pytest.mark.parametrize("name", list(DIFFUSIONS))
@pytest.mark.parametrize("sigma", [-1.0, float("nan"), float("inf"), "1", None, True])
def test_a_wrong_sigma_is_refused(name: str, sigma: Any) -> None:
    with pytest.raises(BadUsage, match="sigma"):
        DIFFUSIONS.get(name)(4, sigma=sigma)  # type: ignore[call-arg]


@pytest.mark.parametrize("name", [name for name in DIFFUSIONS if name != "learned"])
def test_sigma_zero_is_silence(name: str, blocks: Graph) -> None:
    diffusion = DIFFUSIONS.get(name)(4, sigma=0.0)  # type: ignore[call-arg]
    bound = diffusion.bind(blocks.adjacency.operator)
    h = torch.ones(blocks.num_nodes, 2, 4)
    noise = torch.ones(bound.keys(torch.arange(blocks.num_nodes)).shape[0], 2, 4)
    assert diffusion.is_zero and bound.is_zero  # type: ignore[attr-defined]
    assert torch.equal(bound.apply(0.0, h, noise), torch.zeros_like(h))
    with pytest.raises(BadUsage, match="E-KL"):
        bound.whiten(0.0, h, torch.zeros_like(h))


@pytest.mark.parametrize(
    "make",
    [
        lambda s: ConstantDiffusion(4, sigma=s),
        lambda s: LearnedDiffusion(4, sigma=s),
        lambda s: PerDimensionDiffusion(4, sigma=s),
        lambda s: PerDimensionDiffusion(4, sigma=[s] * 4, learn=True),
        lambda s: StateDependentDiffusion(4, sigma=s),
    ],
)
@pytest.mark.parametrize("sigma", [1e-3, 0.5, 1.0, 40.0])
def test_independent_noise_has_the_size_asked_for(make: Any, sigma: float, blocks: Graph) -> None:
    diffusion = make(sigma)
    diffusion.set_gain(3.0)
    bound = diffusion.bind(blocks.adjacency.operator)
    noise = torch.randn(blocks.num_nodes, 2, 4, generator=stream())
    torch.testing.assert_close(bound.apply(0.0, torch.zeros_like(noise), noise), 3.0 * sigma * noise)
    torch.testing.assert_close(bound.whiten(0.0, torch.zeros_like(noise), noise), noise / (3.0 * sigma))


def test_per_dimension_sizes_and_their_silent_dimensions(blocks: Graph) -> None:
    bound = PerDimensionDiffusion(3, sigma=[2.0, 0.0, 0.5]).bind(blocks.adjacency.operator.to(D))
    noise = normal(blocks.num_nodes, 2, 3)
    push = bound.apply(0.0, noise, noise)
    torch.testing.assert_close(push, noise * torch.tensor([2.0, 0.0, 0.5], dtype=D))
    torch.testing.assert_close(bound.whiten(0.0, noise, push), noise * torch.tensor([1.0, 0.0, 1.0], dtype=D))
    with pytest.raises(BadUsage, match="E-KL"):
        bound.whiten(0.0, noise, noise)


def test_per_dimension_needs_as_many_sizes_as_dimensions() -> None:
    with pytest.raises(BadUsage, match="2 values for 3"):
        PerDimensionDiffusion(3, sigma=[1.0, 2.0])
    with pytest.raises(BadUsage, match="sigma"):
        PerDimensionDiffusion(2, sigma=[1.0, 0.0], learn=True)


def test_velocity_leaves_positions_alone(blocks: Graph) -> None:
    noise = normal(blocks.num_nodes, 2, 4)
    push = VelocityDiffusion(4, sigma=0.5).bind(blocks.adjacency.operator.to(D)).apply(0.0, noise, noise)
    assert not push[..., :2].any()
    torch.testing.assert_close(push[..., 2:], 0.5 * noise[..., 2:])
    with pytest.raises(BadUsage, match="even"):
        VelocityDiffusion(3)


def test_state_dependent_noise_stays_within_its_bounds(blocks: Graph) -> None:
    diffusion = StateDependentDiffusion(4, sigma=2.0, swing=0.25)
    scale = diffusion.scale(0.0, 100 * torch.randn(blocks.num_nodes, 3, 4, generator=stream())).detach()
    assert float(scale.min()) == pytest.approx(1.5) and float(scale.max()) == pytest.approx(2.5)
    assert diffusion.noise == "diagonal"


@pytest.mark.parametrize("gain", [-1.0, math.nan, math.inf])
def test_a_wrong_gain_is_refused(gain: float) -> None:
    with pytest.raises(BadUsage, match="gain"):
        ConstantDiffusion(4).set_gain(gain)


def test_the_gain_is_saved_with_the_module() -> None:
    one, two = ConstantDiffusion(4), ConstantDiffusion(4)
    one.set_gain(0.125)
    two.load_state_dict(one.state_dict())
    assert float(two.gain) == 0.125


def node_variance(diffusion: Any, graph: Graph) -> np.ndarray:
    """Exact variance per node, from the response to each Brownian motion alone.  # [N]"""
    bound = diffusion.bind(graph.adjacency.operator.to(D))
    count = bound.keys(torch.arange(graph.num_nodes)).shape[0]
    each = torch.eye(count, dtype=D)[:, :, None]
    return bound.apply(0.0, torch.zeros(graph.num_nodes, count, 1, dtype=D), each).square().sum(1)[:, 0].numpy()


@pytest.mark.parametrize(
    "diffusion",
    [
        SmoothedDiffusion(1, sigma=0.3),
        QWienerDiffusion(1, sigma=0.3, modes=5),
        QWienerDiffusion(1, sigma=0.3, modes=7, spectrum="heat", kappa=2.0),
        QWienerDiffusion(1, sigma=0.3, modes=1000, nu=0.5),
    ],
)
def test_correlated_noise_has_unit_variance_on_average(diffusion: Any, blocks: Graph) -> None:
    variance = node_variance(diffusion, blocks)
    assert variance.mean() == pytest.approx(0.09, rel=1e-5)
    assert variance.std() > 1e-3  # on average, not for each node


def test_smoothed_noise_is_the_operator_over_its_root_mean_square(blocks: Graph) -> None:
    dense = blocks.adjacency.normalized.toarray().astype(float)
    noise = normal(blocks.num_nodes, 3, 2)
    bound = SmoothedDiffusion(2, sigma=0.3).bind(blocks.adjacency.operator.to(D))
    expected = 0.3 * torch.einsum("ij,jsd->isd", torch.from_numpy(dense / math.sqrt((dense**2).sum(1).mean())), noise)
    torch.testing.assert_close(bound.apply(0.0, noise, noise), expected, atol=1e-6, rtol=0)
    with pytest.raises(BadUsage, match="E-KL"):
        bound.whiten(0.0, noise, noise)


def test_q_wiener_with_all_modes_is_the_matern_covariance(blocks: Graph) -> None:
    """(2ν/κ² + L)^{−ν}, as a function of the matrix, scaled to trace N."""
    n, nu, kappa = blocks.num_nodes, 1.5, 3.0
    bound = QWienerDiffusion(1, modes=n, nu=nu, kappa=kappa).bind(blocks.adjacency.operator.to(D))
    each = torch.eye(n, dtype=D)[:, :, None]
    response = bound.apply(0.0, torch.zeros(n, n, 1, dtype=D), each)[..., 0].numpy()
    laplacian = np.eye(n) - blocks.adjacency.normalized.toarray().astype(float)
    values, vectors = np.linalg.eigh(laplacian)
    covariance = vectors @ np.diag((2 * nu / kappa**2 + values) ** -nu) @ vectors.T
    covariance *= n / np.trace(covariance)
    np.testing.assert_allclose(response @ response.T, covariance, atol=1e-5)


def test_q_wiener_has_one_key_per_mode_whatever_the_nodes(blocks: Graph) -> None:
    bound = QWienerDiffusion(2, modes=6).bind(blocks.adjacency.operator)
    assert bound.keys(torch.arange(30) * 7).tolist() == list(range(6))
    with pytest.raises(BadUsage, match="E-KL"):
        bound.whiten(0.0, torch.zeros(30, 1, 2), torch.zeros(30, 1, 2))


def test_q_wiener_with_all_modes_is_the_heat_kernel(blocks: Graph) -> None:
    """exp(−½κ²L), as a function of the matrix, scaled to trace N."""
    n, kappa = blocks.num_nodes, 1.5
    bound = QWienerDiffusion(1, modes=n, spectrum="heat", kappa=kappa).bind(blocks.adjacency.operator.to(D))
    each = torch.eye(n, dtype=D)[:, :, None]
    response = bound.apply(0.0, torch.zeros(n, n, 1, dtype=D), each)[..., 0]
    laplacian = torch.eye(n, dtype=D) - torch.from_numpy(blocks.adjacency.normalized.toarray().astype(float))
    covariance = torch.linalg.matrix_exp(-0.5 * kappa**2 * laplacian)
    covariance = covariance * (n / covariance.trace())
    np.testing.assert_allclose((response @ response.T).numpy(), covariance.numpy(), atol=1e-5)
