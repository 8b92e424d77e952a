"""Modes of Laplacians against closed forms, dense decompositions and each other."""

from __future__ import annotations

from collections import OrderedDict

import numpy as np
import pytest
import scipy.sparse as sp

from graphsde.graph.adjacency import Adjacency
from graphsde.graph.spectrum import Laplacian, Modes, Spectrum, _solve, graph_spectrum, laplacian_modes


def ring(nodes: int, rings: int = 1, lonely: int = 0) -> Adjacency:
    steps = np.arange(nodes)
    pairs = [(k * nodes + steps, k * nodes + (steps + 1) % nodes) for k in range(rings)]
    rows, cols = (np.concatenate(part) for part in zip(*pairs, strict=True))
    size = nodes * rings + lonely
    half = sp.coo_array((np.ones(len(rows), dtype=np.float32), (rows, cols)), shape=(size, size)).tocsr()
    return Adjacency(sp.csr_array(half + half.T))


def check_modes(modes: Modes, adjacency: Adjacency, within: float = 1e-5) -> None:
    dense_vectors = modes.vectors
    np.testing.assert_allclose(dense_vectors.T @ dense_vectors, np.eye(dense_vectors.shape[1]), atol=1e-6)
    residual = dense_vectors - adjacency.normalized @ dense_vectors - dense_vectors * modes.values
    assert np.abs(residual).max() < within
    assert (np.diff(modes.values) >= -1e-7).all()


DENSE_LIMIT = "graphsde.graph.spectrum._DENSE_UP_TO"


def test_modes_of_a_ring_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Laplacian of a ring with self loops: λ_k = (2/3)(1 − cos(2πk/n)), each but the first twice."""
    monkeypatch.setattr(DENSE_LIMIT, 20)
    for nodes in (9, 700):  # dense and Lanczos
        adjacency = ring(nodes)
        modes = laplacian_modes(adjacency.operator, 7)
        k = np.array([0, 1, 1, 2, 2, 3, 3])
        np.testing.assert_allclose(modes.values, 2 / 3 * (1 - np.cos(2 * np.pi * k / nodes)), atol=2e-6)
        check_modes(modes, adjacency)


def test_modes_agree_between_lanczos_and_dense(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    upper = np.triu(rng.random((150, 150)) < 0.03, 1)
    adjacency = Adjacency(sp.csr_array((upper | upper.T).astype(np.float32)))
    matrix = sp.csr_array(adjacency.normalized, dtype=np.float64)
    dense = _solve(matrix, 20)
    monkeypatch.setattr(DENSE_LIMIT, 20)
    lanczos = _solve(matrix, 20)
    np.testing.assert_allclose(lanczos.values, dense.values, atol=1e-6)
    # the same space: projections onto it agree, whatever the signs
    gap = lanczos.vectors @ lanczos.vectors.T - dense.vectors @ dense.vectors.T
    assert np.abs(gap).max() < 1e-3
    check_modes(lanczos, adjacency)


def test_many_components_leave_half_of_the_modes_to_what_varies_inside() -> None:
    adjacency = ring(100, rings=4, lonely=200)  # 204 components
    modes = laplacian_modes(adjacency.operator, 12)
    check_modes(modes, adjacency)
    assert (modes.values[:6] == 0).all() and (modes.values[6:] > 1e-5).all()
    assert (np.abs(modes.vectors[:400, :4]) > 0).any(axis=0).all()  # the rings come before the lonely nodes


def test_modes_of_a_graph_without_edges() -> None:
    lonely = Adjacency(sp.csr_array((5, 5), dtype=np.float32))
    modes = laplacian_modes(lonely.operator, 64)
    assert modes.vectors.shape == (5, 5) and not modes.values.any()
    assert laplacian_modes(lonely.operator, 64) is modes  # kept


def test_modes_of_a_directed_graph_are_those_of_its_symmetric_part() -> None:
    rng = np.random.default_rng(1)
    adjacency = Adjacency(sp.csr_array((rng.random((20, 20)) < 0.2).astype(np.float32)), directed=True)
    modes = laplacian_modes(adjacency.operator, 4)
    dense = adjacency.normalized.toarray().astype(float)
    exact = np.linalg.eigvalsh(np.eye(20) - (dense + dense.T) / 2)[:4]
    np.testing.assert_allclose(modes.values, exact.clip(0), atol=1e-5)


KINDS: tuple[Laplacian, ...] = ("normalised", "unnormalised")


def dense_laplacian(adjacency: Adjacency, kind: Laplacian) -> np.ndarray:
    weights = adjacency.matrix.toarray().astype(float)
    weights = (weights + weights.T) / 2
    degree = weights.sum(1)
    if kind == "unnormalised":
        return np.diag(degree) - weights
    root = np.sqrt(np.where(degree > 0, degree, 1.0))
    return np.diag((degree > 0).astype(float)) - weights / root[:, None] / root


def as_modes(spectrum: Spectrum) -> Modes:
    """Flat modes in front, as columns of their own."""
    members = spectrum.component[:, None] == np.arange(spectrum.num_components)
    vectors = np.concatenate([members * spectrum.flat[:, None], spectrum.varying.vectors], axis=1)
    return Modes(vectors, np.concatenate([np.zeros(spectrum.num_components), spectrum.varying.values]))


def random_adjacency(nodes: int, share: float, seed: int = 0, weighted: bool = False) -> Adjacency:
    rng = np.random.default_rng(seed)
    upper = np.triu(rng.random((nodes, nodes)) < share, 1) * (rng.random((nodes, nodes)) + 0.5 if weighted else 1.0)
    return Adjacency(sp.csr_array((upper + upper.T).astype(np.float32)))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("weighted", [False, True])
def test_the_whole_spectrum_rebuilds_the_laplacian(kind: Laplacian, weighted: bool) -> None:
    adjacency = random_adjacency(40, 0.04, weighted=weighted)  # several components, lonely nodes among them
    assert adjacency.isolated.any() and adjacency.components.max() > 3
    modes = as_modes(graph_spectrum(adjacency, kind, 40))
    np.testing.assert_allclose(modes.vectors.T @ modes.vectors, np.eye(40), atol=1e-9)
    rebuilt = modes.vectors * modes.values @ modes.vectors.T
    np.testing.assert_allclose(rebuilt, dense_laplacian(adjacency, kind), atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_eigenpairs_of_large_components_have_small_residuals(kind: Laplacian, monkeypatch: pytest.MonkeyPatch) -> None:
    adjacency = random_adjacency(300, 0.012)
    dense = graph_spectrum(adjacency, kind, 30)
    monkeypatch.setattr(DENSE_LIMIT, 20)
    monkeypatch.setattr("graphsde.graph.spectrum._SPECTRA", OrderedDict())
    lanczos = graph_spectrum(adjacency, kind, 30)
    assert lanczos.varying.vectors.shape == (300, 30)
    np.testing.assert_allclose(lanczos.varying.values, dense.varying.values, atol=1e-9)
    modes = as_modes(lanczos)
    np.testing.assert_allclose(modes.vectors.T @ modes.vectors, np.eye(modes.values.size), atol=1e-9)
    residual = dense_laplacian(adjacency, kind) @ modes.vectors - modes.vectors * modes.values
    assert np.abs(residual).max() < 1e-6


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dense_up_to", [20, 512])
def test_a_multiple_eigenvalue_is_taken_whole_or_not_at_all(
    kind: Laplacian, dense_up_to: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A ring: λ_k = 2 − 2 cos(2πk/n), each twice; half of it where normalised."""
    monkeypatch.setattr(DENSE_LIMIT, dense_up_to)
    monkeypatch.setattr("graphsde.graph.spectrum._SPECTRA", OrderedDict())
    twice = 2 - 2 * np.cos(2 * np.pi * np.array([1, 1, 2, 2]) / 90)
    for count, kept in ((4, 4), (3, 2), (1, 1)):  # of the first pair one is taken, rather than none
        values = graph_spectrum(ring(90), kind, count).varying.values
        np.testing.assert_allclose(values, twice[:kept] / (2 if kind == "normalised" else 1), atol=1e-9)


def test_lonely_nodes_have_a_flat_mode_and_nothing_else() -> None:
    spectrum = graph_spectrum(Adjacency(sp.csr_array((5, 5), dtype=np.float32)), "normalised", 5)
    assert spectrum.varying.vectors.shape == (5, 0) and spectrum.num_components == 5
    np.testing.assert_array_equal(spectrum.flat, np.ones(5))


@pytest.mark.parametrize("kind", KINDS)
def test_the_spectrum_of_a_directed_graph_is_that_of_its_symmetric_part(kind: Laplacian) -> None:
    rng = np.random.default_rng(1)
    weights = (rng.random((20, 20)) < 0.15) * (1 - np.eye(20))
    adjacency = Adjacency(sp.csr_array(weights.astype(np.float32)), directed=True)
    modes = as_modes(graph_spectrum(adjacency, kind, 20))
    np.testing.assert_allclose(
        modes.vectors * modes.values @ modes.vectors.T, dense_laplacian(adjacency, kind), atol=1e-9
    )


def test_two_spectra_are_kept_by_content() -> None:
    first = graph_spectrum(ring(12), "normalised", 12)
    assert graph_spectrum(ring(12), "normalised", 12) is first
    graph_spectrum(ring(13), "normalised", 12)
    assert graph_spectrum(ring(12), "normalised", 12) is first
    for nodes in (14, 15):
        graph_spectrum(ring(nodes), "normalised", 12)
    assert graph_spectrum(ring(12), "normalised", 12) is not first
