"""Covariances of nodes against functions of the dense Laplacian."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.linalg
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import graphsde as gs
from graphsde.graph.graph import Graph
from graphsde.graph.spectrum import Laplacian, graph_spectrum
from graphsde.models.graph_gp.kernel import FeatureKind, FeatureMap, NodeKernel, Places, length_for

ALL = torch.arange(24)
KINDS: tuple[Laplacian, ...] = ("normalised", "unnormalised")


def scattered_graph(seed: int = 0, nodes: int = 24) -> Graph:
    """Several components, lonely nodes among them."""
    rng = np.random.default_rng(seed)
    edges = np.stack(np.nonzero(np.triu(rng.random((nodes, nodes)) < 1.3 / nodes, 1)))
    return gs.from_arrays(rng.normal(size=(nodes, 3)).astype(np.float32), edges)


def dense_laplacian(graph: Graph, kind: Laplacian) -> np.ndarray:
    weights = graph.adjacency.matrix.toarray().astype(float)
    degree = weights.sum(1)
    if kind == "unnormalised":
        return np.diag(degree) - weights
    root = np.sqrt(np.where(degree > 0, degree, 1.0))
    return np.diag((degree > 0).astype(float)) - weights / root[:, None] / root


def kernel_of(graph: Graph, kind: Laplacian, nu: float, kappa: float, sigma: float, modes: int = 24) -> NodeKernel:
    return NodeKernel(nu, kappa, sigma).on(Places.of(graph_spectrum(graph.adjacency, kind, modes)))


@pytest.mark.parametrize("kind", KINDS)
def test_matern_is_a_power_of_the_laplacian(kind: Laplacian) -> None:
    """σ² (2ν/κ² + L)^{−ν}, scaled to a mean variance of σ²; here ν = 2 by inverting twice."""
    graph = scattered_graph()
    assert graph.adjacency.isolated.any() and graph.adjacency.components.max() >= 3
    nu, kappa, sigma = 2.0, 3.0, 1.7
    root = np.linalg.inv(2 * nu / kappa**2 * np.eye(24) + dense_laplacian(graph, kind))
    exact = sigma**2 * (root @ root) * 24 / np.trace(root @ root)
    kernel = kernel_of(graph, kind, nu, kappa, sigma)
    np.testing.assert_allclose(kernel.between(ALL, ALL).detach().numpy(), exact, atol=1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_growing_smoothness_tends_to_the_diffusion_kernel(kind: Laplacian) -> None:
    graph, kappa = scattered_graph(1), 2.5
    heat = scipy.linalg.expm(-(kappa**2) / 2 * dense_laplacian(graph, kind))
    heat *= 24 / np.trace(heat)
    gaps = [
        np.abs(kernel_of(graph, kind, nu, kappa, 1.0).between(ALL, ALL).detach().numpy() - heat).max()
        for nu in (1e1, 1e3, 1e8)
    ]
    assert gaps[2] < 1e-6 < gaps[1] < gaps[0] / 30


@settings(max_examples=15, deadline=None)
@given(
    nu=st.floats(0.1, 1e4),
    kappa=st.floats(0.01, 100),
    sigma=st.floats(0.01, 100),
    modes=st.integers(1, 24),
    seed=st.integers(0, 20),
)
def test_variance_is_sigma_squared_on_average_and_the_matrix_is_positive(
    nu: float, kappa: float, sigma: float, modes: int, seed: int
) -> None:
    kernel = kernel_of(scattered_graph(seed), "normalised", nu, kappa, sigma, modes)
    matrix = kernel.between(ALL, ALL).detach()
    variance = kernel.variance(ALL).detach()
    torch.testing.assert_close(matrix.diagonal(), variance)
    assert float(variance.mean()) == pytest.approx(sigma**2, rel=1e-9)
    assert float(torch.linalg.eigvalsh(matrix).min()) > -1e-9 * sigma**2 * 24


def test_nodes_of_different_components_are_independent() -> None:
    graph = scattered_graph()
    matrix = kernel_of(graph, "normalised", 1.5, 5.0, 1.0).between(ALL, ALL).detach().numpy()
    component = graph.adjacency.components
    apart = component[:, None] != component
    assert apart.any() and np.abs(matrix[apart]).max() < 1e-12
    assert (matrix[~apart] > 0).all()


@pytest.mark.parametrize("kind", ["linear", "rbf"])
def test_a_kernel_of_features_is_added(kind: FeatureKind) -> None:
    graph = scattered_graph()
    phi = FeatureMap.fit(graph, "standard", hops=1).of(graph)
    places = Places.of(graph_spectrum(graph.adjacency, "normalised", 24), phi)
    kernel, alone = NodeKernel(1.5, 5.0, 2.0, kind).on(places), NodeKernel(1.5, 5.0, 2.0).on(places)
    with torch.no_grad():
        kernel.log_tau.fill_(math.log(0.7))
        if kind == "rbf":
            kernel.log_length.fill_(math.log(1.3))
    x = phi.double().numpy()
    if kind == "linear":
        expected = 0.49 * x @ x.T
    else:
        expected = 0.49 * np.exp(-np.square(x[:, None] - x).sum(-1) / (2 * 1.69))
    added = kernel.between(ALL, ALL) - alone.between(ALL, ALL)
    np.testing.assert_allclose(added.detach().numpy(), expected, atol=1e-10)
    torch.testing.assert_close(kernel.variance(ALL), kernel.between(ALL, ALL).diagonal())


def test_features_are_averaged_centred_and_scaled() -> None:
    graph = scattered_graph()
    phi = FeatureMap.fit(graph, "none", hops=2).of(graph).double().numpy()
    smooth = graph.adjacency.normalized @ (graph.adjacency.normalized @ graph.features)
    centred = smooth - smooth.mean(0)
    np.testing.assert_allclose(phi, centred / np.sqrt(np.square(centred).sum(1).mean()), atol=1e-5)
    again = FeatureMap.from_dict(FeatureMap.fit(graph, "none", hops=2).as_dict())
    np.testing.assert_array_equal(again.of(graph).numpy(), phi.astype(np.float32))


@pytest.mark.parametrize("nu", [0.5, 5.0, 1e5])
def test_the_first_length_weighs_the_modes_that_tell_classes_apart(nu: float) -> None:
    spectrum = graph_spectrum(scattered_graph().adjacency, "normalised", 24)
    places = Places.of(spectrum)
    flat, weights = NodeKernel(nu, length_for(places.values, 4, nu), 1.0).on(places).spectrum()
    assert float((weights[2] / flat).detach()) == pytest.approx(1 / 8)
    assert length_for(places.values[:0], 4, nu) == 1.0
    assert length_for(places.values[:1], 9, nu) == length_for(places.values, 2, nu)


@pytest.mark.parametrize("kind", ["none", "linear", "rbf"])
def test_gradients_of_the_parameters_are_right(kind: FeatureKind) -> None:
    graph = scattered_graph()
    features = FeatureMap.fit(graph, "standard", hops=0).of(graph)
    kernel = NodeKernel(1.5, 3.0, 2.0, kind).on(Places.of(graph_spectrum(graph.adjacency, "normalised", 24), features))
    names, values = zip(*kernel.named_parameters(), strict=True)

    def block(*parameters: torch.Tensor) -> torch.Tensor:
        rows, columns = ALL[:5], ALL[8:15]
        given = dict(zip(names, parameters, strict=True))
        return torch.func.functional_call(
            _Between(kernel), {f"kernel.{k}": v for k, v in given.items()}, (rows, columns)
        )

    assert torch.autograd.gradcheck(block, tuple(value.detach().clone().requires_grad_() for value in values))


class _Between(torch.nn.Module):
    def __init__(self, kernel: NodeKernel) -> None:
        super().__init__()
        self.kernel = kernel

    def forward(self, rows: torch.Tensor, columns: torch.Tensor) -> torch.Tensor:
        return self.kernel.between(rows, columns)
