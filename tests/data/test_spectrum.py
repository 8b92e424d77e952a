"""Modes of Laplacians against closed forms, dense decompositions and each other."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from graphsde.data.adjacency import Adjacency
from graphsde.data.spectrum import Modes, _solve, laplacian_modes


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


DENSE_LIMIT = "graphsde.data.eigenpairs._DENSE_UP_TO"


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
