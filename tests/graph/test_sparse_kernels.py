"""Single precision takes another kernel than double precision: both are held to the dense product."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from graphsde.graph import sparse
from graphsde.graph.sparse import SparseMatrix


@settings(max_examples=60, deadline=None)
@given(
    rows=st.integers(1, 20),
    columns=st.integers(1, 20),
    width=st.integers(0, 33),
    density=st.sampled_from([0.0, 0.05, 0.5, 1.0]),
    seed=st.integers(0, 99),
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_products_and_their_gradients(
    dtype: torch.dtype, rows: int, columns: int, width: int, density: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    matrix = sp.random_array((rows, columns), density=density, rng=rng, format="csr")
    sparse, dense = SparseMatrix.from_scipy(matrix, dtype=dtype), torch.from_numpy(matrix.toarray())
    right = torch.from_numpy(rng.standard_normal((columns, width))).to(dtype).requires_grad_()
    grad = torch.from_numpy(rng.standard_normal((width, rows))).to(dtype).t()  # not contiguous
    product = sparse @ right
    product.backward(grad)
    assert product.dtype == dtype and right.grad is not None
    torch.testing.assert_close(product.double(), dense @ right.double(), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(right.grad.double(), dense.T @ grad.double(), rtol=1e-5, atol=1e-5)


def test_a_vector_can_be_multiplied() -> None:
    matrix = sp.random_array((6, 4), density=0.5, rng=np.random.default_rng(0), format="csr")
    vector = torch.arange(4, dtype=torch.float32)
    expected = torch.from_numpy(matrix.toarray()).float() @ vector
    torch.testing.assert_close(SparseMatrix.from_scipy(matrix) @ vector, expected)


@pytest.mark.parametrize("width", [1, 7, 64])
def test_bits_do_not_depend_on_threads_or_neighbours(width: int) -> None:
    rng = np.random.default_rng(1)
    matrix = SparseMatrix.from_scipy(sp.random_array((3000, 500), density=0.02, rng=rng, format="csr"))
    dense = torch.from_numpy(rng.standard_normal((500, width)).astype(np.float32))
    before = torch.get_num_threads()
    try:
        results = []
        for threads in (1, 2):
            torch.set_num_threads(threads)
            results.append(matrix @ dense)
    finally:
        torch.set_num_threads(before)
    assert torch.equal(*results)
    twice = matrix @ torch.cat([dense, dense], dim=1)
    assert torch.equal(twice[:, :width], results[0]) and torch.equal(twice[:, width:], results[0])


def test_infinite_and_missing_numbers_stay_in_their_rows() -> None:
    matrix = SparseMatrix.from_scipy(sp.csr_array(np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 2.0]])))
    product = matrix @ torch.tensor([[1.0], [torch.inf]])
    assert product.flatten().tolist() == [1.0, torch.inf, torch.inf]
    assert torch.isnan(matrix @ torch.tensor([[1.0], [torch.nan]])).flatten().tolist() == [False, True, True]


@pytest.mark.parametrize("width", [1, 3, 16])
def test_large_results_are_made_in_blocks_with_the_same_bits(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    rng = np.random.default_rng(width)
    matrix = SparseMatrix.from_scipy(sp.random_array((101, 60), density=0.1, rng=rng, format="csr"))
    dense = torch.from_numpy(rng.normal(size=(60, width)).astype(np.float32))
    whole = matrix.times(dense)
    room = torch.empty(101, width)
    assert matrix.times(dense, room) is room and torch.equal(room, whole)
    monkeypatch.setattr(sparse, "LARGE_BYTES", 0)
    monkeypatch.setattr(sparse, "BLOCK_BYTES", 4 * width * 7)
    assert torch.equal(matrix.times(dense), whole)
