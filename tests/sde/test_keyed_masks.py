"""Masks belong to nodes and edges, not to positions."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import torch

from graphsde.graph.sparse import SparseMatrix
from graphsde.nn.keyed_masks import KeyedMasks
from graphsde.nn.layers import dropout
from graphsde.sde.brownian import node_keys

IDS = np.arange(200)


def masks(ids: np.ndarray = IDS, seed: int = 0, sample: int = 0) -> KeyedMasks:
    return KeyedMasks(seed, sample, node_keys(ids))


def ring(order: np.ndarray) -> SparseMatrix:
    n = len(order)
    dense = np.zeros((n, n))
    for i in range(n):
        dense[i, (i + 1) % n] = dense[(i + 1) % n, i] = 1
    return SparseMatrix.from_scipy(sp.csr_array(dense[np.ix_(order, order)]))


def test_uniforms_are_uniform() -> None:
    drawn = masks(np.arange(2000)).rows(50).numpy().ravel()
    assert drawn.min() >= 0 and drawn.max() < 1
    counts = np.histogram(drawn, bins=20, range=(0, 1))[0]
    chi = ((counts - drawn.size / 20) ** 2 / (drawn.size / 20)).sum()
    assert chi < 60  # 19 degrees of freedom
    table = masks(np.arange(2000)).rows(50).numpy()
    assert abs(np.corrcoef(table[:-1].ravel(), table[1:].ravel())[0, 1]) < 0.02
    assert abs(np.corrcoef(table[:, :-1].ravel(), table[:, 1:].ravel())[0, 1]) < 0.02


def test_layers_samples_and_seeds_differ() -> None:
    one = masks()
    first, second = one.rows(4), one.rows(4)
    others = [second, masks(sample=1).rows(4), masks(seed=1).rows(4)]
    assert all(float((first == other).float().mean()) < 0.01 for other in others)
    assert torch.equal(first, masks().rows(4))


def test_order_of_nodes_permutes_masks() -> None:
    order = np.random.default_rng(0).permutation(200)
    assert torch.equal(masks(IDS[order]).rows(3), masks().rows(3)[torch.from_numpy(order)])


def test_entries_are_the_rows_at_their_columns() -> None:
    matrix = SparseMatrix.from_scipy(sp.random_array((200, 7), density=0.3, format="csr", rng=0))
    rows = np.repeat(IDS, np.diff(matrix.crow.numpy()))
    assert torch.equal(masks().entries(matrix), masks().rows(7)[rows, matrix.col])


def test_edges_follow_their_nodes() -> None:
    order = np.random.default_rng(1).permutation(200)
    plain, moved = ring(IDS), ring(order)
    for symmetric in (False, True):
        one = SparseMatrix(plain.crow, plain.col, masks().edges(plain, symmetric=symmetric)[:, 0], plain.shape)
        two = SparseMatrix(
            moved.crow, moved.col, masks(IDS[order]).edges(moved, symmetric=symmetric)[:, 0], moved.shape
        )
        dense = one.csr().to_dense()
        assert torch.equal(dense[np.ix_(order, order)], two.csr().to_dense())
        assert torch.equal(dense, dense.T) == symmetric


def test_dropout_with_keyed_masks_keeps_the_mean() -> None:
    x = torch.ones(2000, 20)
    kept = dropout(x, 0.3, masks(np.arange(2000)))
    assert isinstance(kept, torch.Tensor)
    assert abs(float(kept.mean()) - 1) < 0.02
    assert set(kept.unique().tolist()) == {0.0, float(torch.tensor(1 / 0.7))}
