"""Graph attention against PyG's layer and against closed forms."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp
import torch

import graphsde as gs
from graphsde.graph.graph import Graph
from graphsde.graph.sparse import SparseMatrix
from graphsde.models.gat import GAT, GATModule, GATSettings, GraphAttention
from graphsde.models.neural import Inputs
from graphsde.nn.keyed_masks import KeyedMasks
from graphsde.sde.brownian import node_keys


def attention(heads: int, width: int, *, average: bool, rate: float = 0.0, inputs: int = 8) -> GraphAttention:
    layer = GraphAttention(inputs, heads, width, torch.Generator().manual_seed(0), rate=rate, average=average)
    with torch.no_grad():
        layer.bias += torch.linspace(-1, 1, layer.bias.numel())
    return layer


@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("heads", [1, 3])
@pytest.mark.parametrize("sparse", [False, True])
def test_layer_and_its_gradients_equal_pyg(blocks: Graph, heads: int, average: bool, sparse: bool) -> None:
    pyg = pytest.importorskip("torch_geometric.nn")
    ours = attention(heads, 4, average=average)
    theirs = pyg.GATConv(8, 4, heads=heads, concat=not average)
    with torch.no_grad():
        theirs.lin.weight.copy_(ours.weight.T)
        theirs.att_src.copy_(ours.sender[None])
        theirs.att_dst.copy_(ours.receiver[None])
        theirs.bias.copy_(ours.bias)
    x = blocks.features * (np.abs(blocks.features) > 1)
    dense = torch.tensor(x, requires_grad=True)
    own = SparseMatrix.from_scipy(sp.csr_array(x)) if sparse else torch.tensor(x, requires_grad=True)
    result = ours(own, blocks.adjacency.operator)
    expected = theirs(dense, torch.from_numpy(blocks.adjacency.edge_index()))
    torch.testing.assert_close(result, expected, atol=1e-5, rtol=1e-5)
    weigh = torch.linspace(-1, 1, result.numel()).view(result.shape)
    (result * weigh).square().sum().backward()
    (expected * weigh).square().sum().backward()
    for mine, other in (
        (ours.weight.grad, theirs.lin.weight.grad.T),
        (ours.sender.grad, theirs.att_src.grad[0]),
        (ours.receiver.grad, theirs.att_dst.grad[0]),
        (ours.bias.grad, theirs.bias.grad),
    ):
        torch.testing.assert_close(mine, other, atol=1e-4, rtol=1e-4)
    if not sparse:
        torch.testing.assert_close(own.grad, dense.grad, atol=1e-4, rtol=1e-4)


def test_two_layers_equal_pyg(blocks: Graph) -> None:
    pyg = pytest.importorskip("torch_geometric.nn")
    settings = GATSettings(heads=2, head_width=3, output_heads=2)
    ours = GATModule(8, 3, settings, torch.Generator().manual_seed(1))
    first, second = pyg.GATConv(8, 3, heads=2), pyg.GATConv(6, 3, heads=2, concat=False)
    with torch.no_grad():
        for conv, own in ((first, ours.first), (second, ours.second)):
            conv.lin.weight.copy_(own.weight.T)
            conv.att_src.copy_(own.sender[None])
            conv.att_dst.copy_(own.receiver[None])
    x, edges = torch.tensor(blocks.features), torch.from_numpy(blocks.adjacency.edge_index())
    expected = second(torch.nn.functional.elu(first(x, edges)), edges)
    outputs = ours(Inputs(x, blocks.adjacency.operator))
    torch.testing.assert_close(outputs.logits, expected, atol=1e-5, rtol=1e-5)


def test_a_directed_edge_is_heard_by_its_end_only() -> None:
    graph = gs.from_arrays(np.eye(3, dtype=np.float32), np.array([[0], [1]]), directed=True)
    layer = attention(1, 2, average=False, inputs=3)
    before = layer(torch.eye(3), graph.adjacency.operator)
    moved = torch.eye(3)
    moved[0] += 1
    changed = (layer(moved, graph.adjacency.operator) - before).abs().sum(1) > 1e-6
    assert changed.tolist() == [True, True, False]


def test_without_attention_vectors_it_is_the_mean_of_the_neighbourhood(blocks: Graph) -> None:
    layer = attention(2, 3, average=False)
    with torch.no_grad():
        layer.sender.zero_()
        layer.receiver.zero_()
    x = torch.tensor(blocks.features)
    looped = blocks.adjacency.matrix.toarray() + np.eye(blocks.num_nodes)
    mean = torch.tensor((looped / looped.sum(1, keepdims=True)).astype(np.float32))
    expected = mean @ x @ layer.weight + layer.bias
    torch.testing.assert_close(layer(x, blocks.adjacency.operator), expected, atol=1e-5, rtol=1e-5)


def test_attention_dropout_keeps_the_mean_and_spares_prediction(blocks: Graph) -> None:
    layer = attention(2, 3, average=False, rate=0.5)
    x, operator = torch.tensor(blocks.features), blocks.adjacency.operator
    with torch.no_grad():
        mean = layer(x, operator)
        generator = torch.Generator().manual_seed(3)
        draws = torch.stack([layer(x, operator, generator) for _ in range(500)])
        keys = node_keys(blocks.node_ids)
        keyed = torch.stack([layer(x, operator, KeyedMasks(0, sample, keys)) for sample in range(500)])
        assert torch.equal(mean, layer(x, operator))
    for drawn in (draws, keyed):
        error = (drawn.mean(0) - mean) / (drawn.std(0) / 500**0.5)
        assert float(drawn.std(0).min()) > 0 and float(error.abs().max()) < 5
    torch.testing.assert_close(draws.std(0), keyed.std(0), rtol=0.25, atol=0.05)


def test_keyed_attention_masks_belong_to_edges_and_heads(blocks: Graph) -> None:
    settings = GATSettings(heads=3, head_width=2, output_heads=2, dropout=0.3, attention_dropout=0.5)
    module = GATModule(8, 3, settings, torch.Generator().manual_seed(0))
    order = np.random.default_rng(0).permutation(blocks.num_nodes)
    turned = blocks.subgraph(order)

    def sample(graph: Graph) -> np.ndarray:
        masks = KeyedMasks(5, 2, node_keys(graph.node_ids))
        return module(Inputs(torch.tensor(graph.features), graph.adjacency.operator), masks).logits.detach().numpy()

    np.testing.assert_allclose(sample(turned), sample(blocks)[order], atol=1e-5)


def test_keyed_attention_masks_drop_whole_entries_of_the_right_edges() -> None:
    """With equal attention, what a node hears is the share of its edges that the masks keep."""
    edges = np.array([[0, 0, 0, 1], [1, 2, 3, 2]])
    graph = gs.from_arrays(np.ones((5, 1), dtype=np.float32), edges)
    layer = attention(2, 1, average=False, rate=0.5, inputs=1)
    with torch.no_grad():
        layer.sender.zero_()
        layer.receiver.zero_()
        layer.bias.zero_()
        layer.weight.fill_(1.0)
    keys, operator = node_keys(graph.node_ids), graph.adjacency.operator
    heard = layer(torch.ones(5, 1), operator, KeyedMasks(0, 0, keys)).detach()
    kept = (KeyedMasks(0, 0, keys).edges(operator, 2) >= 0.5).float()
    for node in range(5):
        own = slice(int(operator.crow[node]), int(operator.crow[node + 1]))
        torch.testing.assert_close(heard[node], kept[own].mean(0) * 2)


def test_it_learns_and_pubmed_has_settings_of_its_own(blocks: Graph) -> None:
    model = GAT(heads=2, head_width=4, epochs=60).fit(blocks)
    assert gs.evaluate(model.predict(blocks), blocks)["accuracy"] > 0.8
    pubmed = dataclasses.replace(blocks, benchmark="pubmed")
    assert GAT(epochs=1, heads=1, head_width=2, output_heads=1).fit(pubmed).settings.output_heads == 1
    settings = GAT(epochs=1, heads=1, head_width=2).fit(pubmed).settings
    assert (settings.output_heads, settings.lr, settings.weight_decay) == (8, 0.01, 1e-3)
