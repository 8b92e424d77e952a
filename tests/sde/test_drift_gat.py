"""The attention drift against PyG's layers, and the edge algebra beneath it against dense matrices."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from graphsde.base.errors import BadUsage
from graphsde.graph.graph import Graph
from graphsde.graph.sparse import SparseMatrix
from graphsde.nn.attention import EdgeSpace, edge_space
from graphsde.sde.drift import GATDrift


def stream(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize(("layers", "heads"), [(1, 1), (1, 4), (2, 2), (3, 4)])
def test_equals_a_stack_of_pyg_attention_layers(blocks: Graph, layers: int, heads: int) -> None:
    nn = pytest.importorskip("torch_geometric.nn")
    width, t = 8, 0.7
    drift = GATDrift(width, layers=layers, heads=heads, generator=stream())
    assert drift.time_weight is not None
    h = torch.randn(blocks.num_nodes, 3, width, generator=stream(1)) * 2
    edges = torch.from_numpy(blocks.adjacency.edge_index())
    expected = []
    for path in range(3):
        x = torch.cat([h[:, path], torch.full((blocks.num_nodes, 1), t)], dim=1)
        for layer in range(layers):
            conv = nn.GATConv(width + (layer == 0), width // heads, heads=heads)
            weight = drift.weights[layer]
            with torch.no_grad():
                torch.nn.init.normal_(drift.biases[layer], generator=stream(layer))
                conv.lin.weight.copy_((torch.cat([weight, drift.time_weight[None]]) if layer == 0 else weight).T)
                conv.att_src.copy_(drift.senders[layer][None])
                conv.att_dst.copy_(drift.receivers[layer][None])
                conv.bias.copy_(drift.biases[layer])
            x = conv(x, edges)
            if layer < layers - 1:
                x = torch.nn.functional.softplus(x)
        expected.append(x)
    value = drift.bind(blocks.adjacency.operator, h)(t, h)
    torch.testing.assert_close(value, torch.stack(expected, 1), atol=1e-5, rtol=1e-5)


def test_large_logits_do_not_overflow(blocks: Graph) -> None:
    drift = GATDrift(4, layers=1, heads=2, generator=stream())
    h = 1e4 * torch.randn(blocks.num_nodes, 1, 4, generator=stream(1))
    assert torch.isfinite(drift.bind(blocks.adjacency.operator, h)(0.0, h)).all()


def test_attention_follows_the_direction_of_edges() -> None:
    """Node 0 hears from 1 and itself, node 1 only from itself: moving 0 leaves 1 alone."""
    structure = SparseMatrix.from_scipy(sp.csr_array(np.array([[1.0, 1.0], [0.0, 1.0]])))
    drift = GATDrift(2, layers=1, heads=1, generator=stream())
    h = torch.randn(2, 1, 2, generator=stream(1))
    moved = h.clone()
    moved[0] += 1
    bound = drift.bind(structure, h)
    assert torch.equal(bound(0.0, moved)[1], bound(0.0, h)[1])
    moved = h.clone()
    moved[1] += 1
    assert not torch.allclose(bound(0.0, moved)[0], bound(0.0, h)[0])


@pytest.mark.parametrize("heads", [0, 3, 5])
def test_heads_must_divide_the_width(heads: int) -> None:
    with pytest.raises(BadUsage, match="heads"):
        GATDrift(4, heads=heads, generator=stream())


def random_structure(seed: int, nodes: int, density: float) -> SparseMatrix:
    """Unsymmetric, and some rows and columns may be empty."""
    rng = np.random.default_rng(seed)
    dense = rng.random((nodes, nodes)) < density
    return SparseMatrix.from_scipy(sp.csr_array(dense.astype(float)), dtype=torch.float64)


def dense_copies(space: EdgeSpace, weights: torch.Tensor) -> torch.Tensor:
    dense = torch.zeros(space.size, space.size, dtype=weights.dtype)
    dense[space.row, space.col] = weights
    return dense


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6), nodes=st.integers(1, 7), copies=st.integers(1, 4), density=st.floats(0.0, 1.0))
def test_edge_space_equals_dense_algebra(seed: int, nodes: int, copies: int, density: float) -> None:
    structure = random_structure(seed, nodes, density)
    space = EdgeSpace(structure, copies)
    pattern = np.kron(structure.csr().to_dense().numpy(), np.eye(copies))
    entries = torch.randn(space.col.shape[0], generator=stream(seed), dtype=torch.float64).requires_grad_()
    x = torch.randn(space.size, 3, generator=stream(seed + 1), dtype=torch.float64).requires_grad_()
    y = torch.randn(space.size, 3, generator=stream(seed + 2), dtype=torch.float64).requires_grad_()
    assert np.array_equal(dense_copies(space, torch.ones_like(entries).detach()).numpy(), pattern)
    torch.testing.assert_close(space.product(entries, x), dense_copies(space, entries) @ x)
    torch.testing.assert_close(space.dot(y, x), (y @ x.T)[space.row, space.col])

    weight = torch.randn(space.size, 3, generator=stream(seed + 3), dtype=torch.float64)
    ours = torch.autograd.grad((space.product(entries, x) * weight).sum(), (entries, x))
    theirs = torch.autograd.grad(((dense_copies(space, entries) @ x) * weight).sum(), (entries, x))
    torch.testing.assert_close(ours, theirs)


def test_edge_space_can_be_differentiated_twice() -> None:
    space = EdgeSpace(random_structure(3, 5, 0.5), 2)
    entries = torch.randn(space.col.shape[0], generator=stream(), dtype=torch.float64).requires_grad_()
    x = torch.randn(space.size, 2, generator=stream(1), dtype=torch.float64).requires_grad_()

    def value(entries: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return space.product(torch.tanh(entries * space.dot(x, x)), x)

    assert torch.autograd.gradgradcheck(value, (entries, x))


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6), nodes=st.integers(1, 6), heads=st.integers(1, 3), paths=st.integers(1, 3))
def test_mean_over_heads(seed: int, nodes: int, heads: int, paths: int) -> None:
    structure = random_structure(seed, nodes, 0.6)
    wide, narrow = EdgeSpace(structure, paths * heads), EdgeSpace(structure, paths)
    entries = torch.randn(wide.col.shape[0], generator=stream(seed), dtype=torch.float64)
    blocks = dense_copies(wide, entries).view(nodes, paths, heads, nodes, paths, heads)
    expected = torch.einsum("ispjsp->isjp", blocks)  # the same path and head at both ends
    mean = dense_copies(narrow, wide.mean_of_copies(entries, heads)).view(nodes, paths, nodes, paths)
    torch.testing.assert_close(torch.einsum("isjs->isj", mean), expected.mean(-1))


def test_softmax_rows_sum_to_one_and_empty_rows_are_left_out() -> None:
    structure = random_structure(1, 6, 0.1)
    space = edge_space(structure, 2)
    weights = space.softmax(torch.randn(space.col.shape[0], generator=stream(), dtype=torch.float64) * 50)
    totals = dense_copies(space, weights).sum(1)
    empty = torch.diff(space.crow) == 0
    assert bool(empty.any())
    torch.testing.assert_close(totals, (~empty).double())
    assert edge_space(structure, 2) is space  # kept for the next solve
