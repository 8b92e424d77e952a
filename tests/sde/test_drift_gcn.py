"""The graph-convolution drift against PyG's layers, by hand, and under its options."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from graphsde.base.errors import BadUsage, UnknownName
from graphsde.graph.graph import Graph
from graphsde.graph.sparse import SparseMatrix
from graphsde.sde.drift import DRIFTS, GCNDrift


def stream(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def state(graph: Graph, paths: int, width: int, seed: int = 1) -> Tensor:
    return torch.randn(graph.num_nodes, paths, width, generator=stream(seed))


@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("activation", ["softplus", "tanh", "relu"])
def test_equals_a_stack_of_pyg_convolutions(blocks: Graph, layers: int, activation: str) -> None:
    nn = pytest.importorskip("torch_geometric.nn")
    drift = GCNDrift(5, layers=layers, activation=activation, generator=stream())
    h, t = state(blocks, 3, 5), 0.7
    assert drift.time_weight is not None
    edges = torch.from_numpy(blocks.adjacency.edge_index())
    expected = []
    for path in range(3):
        x = torch.cat([h[:, path], torch.full((blocks.num_nodes, 1), t)], dim=1)
        for layer in range(layers):
            conv = nn.GCNConv(6 if layer == 0 else 5, 5)
            weight = drift.weights[layer]
            with torch.no_grad():
                torch.nn.init.normal_(drift.biases[layer], generator=stream(layer))
                conv.lin.weight.copy_((torch.cat([weight, drift.time_weight[None]]) if layer == 0 else weight).T)
                conv.bias.copy_(drift.biases[layer])
            x = conv(x, edges)
            if layer < layers - 1:
                x = {"softplus": torch.nn.functional.softplus, "tanh": torch.tanh, "relu": torch.relu}[activation](x)
        expected.append(x)
    value = drift.bind(blocks.adjacency.operator, h)(t, h)
    torch.testing.assert_close(value, torch.stack(expected, 1), atol=1e-5, rtol=1e-5)


def test_without_time_it_does_not_depend_on_time(blocks: Graph) -> None:
    h = state(blocks, 1, 4)
    timeless = GCNDrift(4, time=False, generator=stream()).bind(blocks.adjacency.operator, h)
    timed = GCNDrift(4, generator=stream()).bind(blocks.adjacency.operator, h)
    assert torch.equal(timeless(0.0, h), timeless(9.0, h))
    assert not torch.equal(timed(0.0, h), timed(9.0, h))


def test_dropout_masks_the_hidden_layer_once_per_path_and_solve(blocks: Graph) -> None:
    """With the last layer set to read the hidden layer itself, dropped entries are seen as what a zero leaves."""
    n, width = blocks.num_nodes, 6
    drift = GCNDrift(width, dropout=0.5, generator=stream())
    h = torch.zeros(n, 4, width)
    bound = drift.bind(blocks.adjacency.operator, h, stream(3))
    mask = bound.masks[0]  # type: ignore[attr-defined]
    assert set(mask.unique().tolist()) == {0.0, 2.0}
    assert abs(float(mask.mean()) - 1.0) < 0.1
    assert not torch.equal(mask[:, 0], mask[:, 1])  # every path has its own
    hidden = torch.nn.functional.softplus(blocks.adjacency.operator @ (h[:, 0] @ drift.weights[0])) * mask[:, 0]
    expected = (blocks.adjacency.operator @ hidden) @ drift.weights[1]
    torch.testing.assert_close(bound(0.0, h)[:, 0], expected)
    assert bound.masks[1] is None  # type: ignore[attr-defined]
    last = GCNDrift(width, dropout=0.5, dropout_last=True, generator=stream())
    dropped = last.bind(blocks.adjacency.operator, h, stream(3))(0.0, h) == 0
    assert 0.3 < float(dropped.float().mean()) < 0.7


def test_without_a_generator_there_is_no_dropout(blocks: Graph) -> None:
    h = state(blocks, 2, 4)
    some, none = (GCNDrift(4, dropout=rate, generator=stream()) for rate in (0.9, 0.0))
    operator = blocks.adjacency.operator
    assert torch.equal(some.bind(operator, h)(0.1, h), none.bind(operator, h)(0.1, h))
    assert torch.equal(none.bind(operator, h, stream(1))(0.1, h), none.bind(operator, h)(0.1, h))


@settings(max_examples=15, deadline=None)
@given(bound=st.floats(0.05, 20.0), layers=st.integers(1, 3), scale=st.floats(0.1, 30.0))
def test_spectral_bound_is_kept_and_only_shrinks(blocks: Graph, bound: float, layers: int, scale: float) -> None:
    drift = GCNDrift(4, layers=layers, spectral_bound=bound, generator=stream())
    with torch.no_grad():
        for weight in drift.weights:
            weight.mul_(scale)
    assert drift.lipschitz(blocks.adjacency.operator) <= bound * (1 + 1e-5)
    share = bound ** (1 / layers)
    for limited, weight in zip(drift.limited_weights(), drift.weights, strict=True):
        norm = float(torch.linalg.matrix_norm(weight.detach(), 2))
        torch.testing.assert_close(limited, weight * min(1.0, share / norm), rtol=1e-4, atol=1e-6)


def test_spectral_bound_lets_gradients_through(blocks: Graph) -> None:
    drift = GCNDrift(4, spectral_bound=0.3, generator=stream())
    h = state(blocks, 1, 4)
    drift.bind(blocks.adjacency.operator, h)(0.0, h).square().sum().backward()
    for weight in drift.weights:
        assert weight.grad is not None and float(weight.grad.abs().max()) > 1e-4
        # along the weight itself nothing changes: its norm is held
        flat = weight.detach()
        assert abs(float((weight.grad * flat).sum())) < 1e-3 * float(weight.grad.norm() * flat.norm())


def test_lipschitz_is_attained_by_a_linear_stack(blocks: Graph) -> None:
    """One layer whose weight is a multiple of the identity on a graph with ‖Â‖ = 1: the bound is the norm."""
    drift = GCNDrift(3, layers=1, generator=stream())
    with torch.no_grad():
        drift.weights[0].copy_(-2.5 * torch.eye(3))
    assert drift.lipschitz(blocks.adjacency.operator) == pytest.approx(2.5, rel=1e-5)
    dense = np.linalg.norm(blocks.adjacency.normalized.toarray(), 2)
    assert dense == pytest.approx(1.0, rel=1e-5)


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_lipschitz_counts_the_operator_once_per_layer(layers: int) -> None:
    """‖2I‖ = 2 and ‖3I‖ = 3: six per layer, attained where relu lets everything pass."""
    double = SparseMatrix.from_scipy(sp.csr_array(2 * np.eye(3)), dtype=torch.float64)
    drift = GCNDrift(2, layers=layers, activation="relu", time=False, generator=stream()).double()
    with torch.no_grad():
        for weight in drift.weights:
            weight.copy_(3 * torch.eye(2))
    assert drift.lipschitz(double) == pytest.approx(6.0**layers)
    h = torch.ones(3, 1, 2, dtype=torch.float64)
    bound = drift.bind(double, h)
    torch.testing.assert_close(bound(0.0, 2 * h) - bound(0.0, h), 6.0**layers * h)


@pytest.mark.parametrize(
    "wrong",
    [{"layers": 0}, {"layers": 4}, {"dropout": 1.0}, {"dropout": float("nan")}, {"spectral_bound": 0.0}, {"width": 0}],
)
def test_wrong_settings_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(BadUsage) as caught:
        GCNDrift(**{"width": 4, **wrong}, generator=stream())  # type: ignore[arg-type]
    assert next(iter(wrong)) in str(caught.value)


def test_an_unknown_activation_is_answered_with_the_known_ones() -> None:
    with pytest.raises(UnknownName, match="softplus"):
        GCNDrift(4, activation="sofplus", generator=stream())


def test_a_state_that_does_not_fit_is_refused(blocks: Graph) -> None:
    drift = GCNDrift(4, generator=stream())
    for shape in ((blocks.num_nodes, 1, 5), (blocks.num_nodes + 1, 1, 4), (blocks.num_nodes, 4)):
        with pytest.raises(BadUsage, match="E-SHAPE"):
            drift.bind(blocks.adjacency.operator, torch.zeros(shape))


def test_the_registry_tells_where_drifts_come_from() -> None:
    assert DRIFTS.names() == ["graph-heat", "gat", "gcn", "reaction", "second-order", "graph-filter"]
    assert all(row["paper"] and row["year"] > 2000 for row in DRIFTS.describe())
    with pytest.raises(UnknownName, match="gcn"):
        DRIFTS.get("gnc")
