"""Bounds of norms: never below the truth, and near it where it matters."""

from __future__ import annotations

import doctest
import importlib

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from graphsde.graph.adjacency import Adjacency
from graphsde.graph.sparse import SparseMatrix
from graphsde.nn.operators import random_walk, scaled_plus_identity, smoothing_scale
from graphsde.sde.drift import GraphHeatDrift
from graphsde.sde.lipschitz import limit_spectral_norm, operator_norm_bound, spectral_norm_bound, stochastic_norm_bound

SEEDS = st.integers(0, 10**6)


def adjacency(seed: int, nodes: int, *, directed: bool = False, weighted: bool = False) -> Adjacency:
    rng = np.random.default_rng(seed)
    dense = np.triu(rng.random((nodes, nodes)) < 0.3, 1)
    matrix = (dense | (rng.random((nodes, nodes)) < 0.3) if directed else dense | dense.T).astype(np.float32)
    np.fill_diagonal(matrix, 0)
    if weighted:
        size = rng.uniform(0.1, 5, (nodes, nodes))
        matrix *= ((size + size.T) / 2).astype(np.float32)
    return Adjacency(sp.csr_array(matrix), directed=directed)


@settings(max_examples=25, deadline=None)
@given(seed=SEEDS, rows=st.integers(1, 12), columns=st.integers(1, 12), density=st.floats(0, 1))
def test_operator_bound_is_above_the_norm_of_any_matrix(seed: int, rows: int, columns: int, density: float) -> None:
    rng = np.random.default_rng(seed)
    dense = rng.normal(size=(rows, columns)) * (rng.random((rows, columns)) < density)
    bound = operator_norm_bound(SparseMatrix.from_scipy(sp.csr_array(dense), dtype=torch.float64))
    size = np.abs(dense)
    assert np.linalg.norm(dense, 2) <= bound * (1 + 1e-12)
    assert bound <= np.sqrt(size.sum(0).max() * size.sum(1).max()) * (1 + 1e-12)


@settings(max_examples=25, deadline=None)
@given(seed=SEEDS, nodes=st.integers(1, 25), weighted=st.booleans())
def test_the_symmetric_operator_has_norm_one(seed: int, nodes: int, weighted: bool) -> None:
    bound = operator_norm_bound(adjacency(seed, nodes, weighted=weighted).operator)
    assert 1 - 1e-6 <= bound <= 1 + 1e-6


@settings(max_examples=15, deadline=None)
@given(seed=SEEDS, nodes=st.integers(2, 25))
def test_directed_operators_and_walks_are_bounded_tightly(seed: int, nodes: int) -> None:
    directed = adjacency(seed, nodes, directed=True).operator
    walk = random_walk(adjacency(seed, nodes).operator)
    for matrix in (directed, walk):
        exact = np.linalg.norm(matrix.csr().to_dense().double().numpy(), 2)
        assert exact * (1 - 1e-7) <= operator_norm_bound(matrix) <= exact * 1.3


def test_the_bound_survives_bad_values() -> None:
    empty = SparseMatrix.from_scipy(sp.csr_array((3, 3)))
    assert operator_norm_bound(empty) == 0.0 and stochastic_norm_bound(empty) == 0.0
    zeros = SparseMatrix(torch.tensor([0, 1]), torch.tensor([0]), torch.zeros(1), (1, 1))
    assert operator_norm_bound(zeros) == 0.0
    broken = SparseMatrix(torch.tensor([0, 1]), torch.tensor([0]), torch.tensor([float("nan")]), (1, 1))
    assert operator_norm_bound(broken) == float("inf")
    tiny = SparseMatrix.from_scipy(sp.csr_array(np.diag([1.0, 1e-200])), dtype=torch.float64)
    assert operator_norm_bound(tiny) == pytest.approx(1.0)


@settings(max_examples=25, deadline=None)
@given(seed=SEEDS, nodes=st.integers(1, 15))
def test_stochastic_matrices_are_bounded_by_their_structure(seed: int, nodes: int) -> None:
    structure = adjacency(seed, nodes, directed=True).operator
    rng = np.random.default_rng(seed)
    dense = (structure.csr().to_dense().numpy() > 0) * rng.exponential(size=(nodes, nodes)) ** 6
    dense /= dense.sum(1, keepdims=True)
    assert np.linalg.norm(dense, 2) <= stochastic_norm_bound(structure) * (1 + 1e-9)


def test_a_star_attains_the_stochastic_bound() -> None:
    """All listen to the hub alone: one column of ones, norm √N."""
    hub = np.eye(5, dtype=np.float32)
    hub[:, 0] = 1
    assert stochastic_norm_bound(SparseMatrix.from_scipy(sp.csr_array(hub))) == pytest.approx(5**0.5)


@settings(max_examples=25, deadline=None)
@given(seed=SEEDS, rows=st.integers(1, 8), columns=st.integers(1, 8), bound=st.floats(0.01, 10))
def test_limiting_keeps_the_direction_and_the_bound(seed: int, rows: int, columns: int, bound: float) -> None:
    weight = torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    limited, norm = limit_spectral_norm(weight, bound), spectral_norm_bound(weight)
    assert spectral_norm_bound(limited) <= bound * (1 + 1e-9) or norm <= bound
    torch.testing.assert_close(limited, weight * min(1.0, bound / norm))


def test_limiting_is_differentiable_also_at_zero() -> None:
    weight = torch.randn(3, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64).requires_grad_()
    for bound in (0.1, 100.0):
        assert torch.autograd.gradcheck(lambda w, bound=bound: limit_spectral_norm(w, bound), (weight,))
    zero = torch.zeros(3, 3, requires_grad=True)
    limit_spectral_norm(zero, 1.0).sum().backward()
    assert zero.grad is not None and torch.isfinite(zero.grad).all()


def test_norms_of_weights_are_singular_values() -> None:
    assert spectral_norm_bound(torch.diag(torch.tensor([1.0, -3.0, 2.0]))) == pytest.approx(3.0)
    assert spectral_norm_bound(torch.zeros(0, 3)) == 0.0


@settings(max_examples=15, deadline=None)
@given(seed=SEEDS, nodes=st.integers(1, 12), weighted=st.booleans())
def test_random_walk_is_read_from_the_symmetric_operator(seed: int, nodes: int, weighted: bool) -> None:
    graph = adjacency(seed, nodes, weighted=weighted)
    looped = graph.matrix.toarray() + np.eye(nodes)
    walk = random_walk(graph.operator)
    np.testing.assert_allclose(walk.csr().to_dense().numpy(), looped / looped.sum(1, keepdims=True), atol=1e-6)
    again = random_walk(walk)
    np.testing.assert_array_equal(again.values.numpy(), walk.values.numpy())
    assert random_walk(graph.operator) is walk  # kept


@pytest.mark.parametrize("directed", [False, True])
def test_scaled_plus_identity(directed: bool) -> None:
    operator = adjacency(0, 9, directed=directed).operator
    folded = scaled_plus_identity(operator, 0.3, -2.0)
    dense = operator.csr().to_dense().numpy()
    expected = (0.3 * dense - 2 * np.eye(9)).astype(np.float32)
    np.testing.assert_allclose(folded.csr().to_dense().numpy(), expected, atol=1e-6)
    np.testing.assert_allclose(folded.csr_transposed().to_dense().numpy(), expected.T, atol=1e-6)
    assert (
        scaled_plus_identity(operator, 0.3, -2.0) is folded and scaled_plus_identity(operator, 0.3, -1.0) is not folded
    )


def test_operators_are_forgotten_with_their_graph() -> None:
    import gc
    import weakref

    from graphsde.nn import attention as edge_space
    from graphsde.nn import operators

    operator = adjacency(0, 6).operator
    drift = GraphHeatDrift(2, attention="linear", generator=torch.Generator().manual_seed(0))
    drift.bind(operator, torch.zeros(6, 1, 2))
    scaled_plus_identity(operator, 1.0, 1.0)
    sizes, gone = (len(operators._KEPT), len(edge_space._KEPT)), weakref.ref(operator)
    del operator
    gc.collect()
    assert gone() is None
    assert len(operators._KEPT) < sizes[0] and len(edge_space._KEPT) < sizes[1]


def test_smoothing_scale_of_nothing_is_zero() -> None:
    assert smoothing_scale(SparseMatrix.from_scipy(sp.csr_array((3, 3)))) == 0.0


MODULES = [
    *(f"drift.{name}" for name in ("gcn", "gat", "graph_heat", "reaction", "second_order")),
    *(f"diffusion.{name}" for name in ("independent", "structured")),
    "prior",
    "lipschitz",
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_run(name: str) -> None:
    module = importlib.import_module(f"graphsde.sde.{name}")
    results = doctest.testmod(module)
    assert results.attempted > 0 and results.failed == 0
