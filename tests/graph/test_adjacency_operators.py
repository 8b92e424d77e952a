"""The propagation matrix against PyG, and the operators in torch against dense algebra."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from torch.autograd import gradcheck, gradgradcheck

from graphsde.graph.adjacency import Adjacency
from graphsde.graph.build import from_arrays
from graphsde.graph.sparse import SparseMatrix, spmm, spmm_transposed

NODES = 25


def random_adjacency(*, directed: bool, weighted: bool) -> Adjacency:
    rng = np.random.default_rng(5)
    edges = rng.integers(0, NODES - 3, (2, 70))  # the last three nodes stay isolated
    weights = rng.uniform(0.1, 3.0, 70) if weighted else None
    options = {"directed": directed, "duplicates": "first"}
    return from_arrays(np.ones((NODES, 1)), edges, weights=weights, **options).adjacency


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_normalisation_equals_gcn_norm(directed: bool, weighted: bool) -> None:
    norm = pytest.importorskip("torch_geometric.nn.conv.gcn_conv")
    adjacency = random_adjacency(directed=directed, weighted=weighted)
    assert adjacency.isolated.sum() >= 3
    edge_index = torch.from_numpy(adjacency.edge_index())
    weight = torch.from_numpy(adjacency.matrix.data.astype(np.float64))
    index, values = norm.gcn_norm(edge_index, weight, NODES, add_self_loops=True, dtype=torch.float64)
    # PyG sends from row 0 to row 1, so that the receiving node is the row of the operator
    oracle = sp.coo_array((values.numpy(), (index[1].numpy(), index[0].numpy())), shape=(NODES, NODES)).toarray()
    assert np.abs(adjacency.normalized.toarray() - oracle).max() < 1e-6
    hidden = torch.randn(NODES, 4, generator=torch.Generator().manual_seed(0))
    product = adjacency.operator @ hidden
    assert torch.allclose(product, torch.from_numpy(oracle).float() @ hidden, atol=1e-5)


def test_the_random_walk_sums_to_one_or_zero() -> None:
    adjacency = random_adjacency(directed=True, weighted=True)
    sums = adjacency.random_walk.sum(axis=1)
    assert np.allclose(sums, (adjacency.degree > 0).astype(float), atol=1e-6)


def random_matrix(rows: int = 6, columns: int = 4) -> sp.csr_array:
    return sp.random_array((rows, columns), density=0.4, rng=np.random.default_rng(2), format="csr")


@pytest.mark.parametrize("symmetric", [False, True])
def test_gradients_of_products_twice(symmetric: bool) -> None:
    values = random_matrix(5, 5) if symmetric else random_matrix()
    values = sp.csr_array(values + values.T) if symmetric else values
    matrix = SparseMatrix.from_scipy(values, symmetric=symmetric, dtype=torch.float64)
    generator = torch.Generator().manual_seed(1)
    for product, size in ((spmm, values.shape[1]), (spmm_transposed, values.shape[0])):
        dense = torch.randn(size, 3, dtype=torch.float64, generator=generator, requires_grad=True)
        assert gradcheck(lambda x, f=product: f(matrix, x).sin(), (dense,))
        assert gradgradcheck(lambda x, f=product: f(matrix, x).sin(), (dense,))


def test_other_values_on_the_same_structure() -> None:
    values = random_matrix()
    matrix = SparseMatrix.from_scipy(values, dtype=torch.float64)
    doubled = matrix.with_values(torch.arange(matrix.nnz, dtype=torch.float64) - 3)
    other = values.copy()
    other.data = np.arange(values.nnz) - 3.0
    dense = torch.from_numpy(other.toarray())
    right, left = torch.randn(4, 2, dtype=torch.float64), torch.randn(6, 2, dtype=torch.float64)
    assert torch.allclose(doubled @ right, dense @ right)
    assert torch.allclose(spmm_transposed(doubled, left), dense.T @ left)
    assert torch.equal(doubled.csr_transposed().to_dense(), dense.T)
    assert torch.allclose(matrix @ right, torch.from_numpy(values.toarray()) @ right)  # the first is unchanged


def test_read_only_arrays_make_a_tensor_without_a_warning(recwarn: pytest.WarningsRecorder) -> None:
    graph = from_arrays(random_matrix(), [[0], [1]])
    SparseMatrix.from_scipy(graph.features)
    assert not [one for one in recwarn.list if "writable" in str(one.message)]
