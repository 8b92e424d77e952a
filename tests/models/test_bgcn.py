"""Beta–Bernoulli graph DropConnect: masks on edges, layers against dense algebra, the loss term by term."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

import graphsde as gs
from graphsde.base.errors import BadUsage
from graphsde.graph.graph import Graph
from graphsde.graph.sparse import SparseMatrix
from graphsde.models.bgcn import BGCN, BGCNModule, DropConnectConv, EdgeMasks, edge_masks
from graphsde.models.neural import Inputs
from graphsde.nn.keyed_masks import KeyedMasks
from graphsde.sde.brownian import node_keys

from support import needs_real_data


def stream(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def keyed(graph: Graph, sample: int = 0) -> KeyedMasks:
    return KeyedMasks(0, sample, node_keys(graph.node_ids))


def dense_masked(edges: EdgeMasks, masks: torch.Tensor) -> torch.Tensor:
    """Z_b ∘ Â of every block, read off from products with the identity.  # [B, N, N]"""
    nodes = edges.adjacency.shape[0]
    identity = torch.eye(nodes)[:, None, :].expand(nodes, edges.blocks, nodes)
    return edges.product(masks, identity.contiguous()).transpose(0, 1)


@pytest.mark.parametrize("blocks_of_features", [1, 2, 3])
@pytest.mark.parametrize("source", ["training", "prediction"])
def test_shared_masks_are_symmetric_and_one_per_edge_and_block(
    blocks: Graph, blocks_of_features: int, source: str
) -> None:
    operator = blocks.adjacency.operator
    edges = edge_masks(operator, blocks_of_features, shared=True)
    uniforms = edges.uniforms(stream() if source == "training" else keyed(blocks))
    assert uniforms.shape == (blocks.num_edges // 2 + blocks.num_nodes, blocks_of_features)
    masked = dense_masked(edges, uniforms)
    ratio = masked / operator.csr().to_dense().clamp_min(1e-9)
    torch.testing.assert_close(ratio, ratio.transpose(1, 2))
    torch.testing.assert_close(ratio[0][ratio[0] > 0].sort().values.unique(), uniforms[:, 0].sort().values.unique())
    if blocks_of_features > 1:
        assert not torch.allclose(ratio[0], ratio[1])
    assert float(uniforms.mean()) == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize("source", ["training", "prediction"])
def test_each_direction_has_masks_of_its_own_as_the_authors_have_it(blocks: Graph, source: str) -> None:
    operator = blocks.adjacency.operator
    assert BGCN().settings.masks == "directions" and BGCN().settings.dropout == 0
    edges = edge_masks(operator, 2, shared=False)
    uniforms = edges.uniforms(stream() if source == "training" else keyed(blocks))
    assert uniforms.shape == (blocks.num_edges + blocks.num_nodes, 2)
    ratio = dense_masked(edges, uniforms)[0] / operator.csr().to_dense().clamp_min(1e-9)
    off = (operator.csr().to_dense() > 0) & ~torch.eye(blocks.num_nodes, dtype=torch.bool)
    assert bool((ratio != ratio.T)[off].all())
    torch.testing.assert_close(ratio[ratio > 0].sort().values, uniforms[uniforms[:, 0] > 0, 0].sort().values)
    for masks, symmetric in (("directions", False), ("edges", True)):
        conv = DropConnectConv(8, 5, 2, BGCN(masks=masks).settings, stream())
        assert conv.shared == symmetric


def test_the_two_directions_of_a_directed_edge_have_masks_of_their_own() -> None:
    edges = np.array([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 0]])
    graph = gs.from_arrays(np.ones((4, 2), dtype=np.float32), edges, directed=True)
    masks = edge_masks(graph.adjacency.operator, 1, shared=True)
    for source in (stream(), keyed(graph)):
        uniforms = masks.uniforms(source)
        assert len(uniforms) == 6 + 4
        ratio = dense_masked(masks, uniforms)[0] / graph.adjacency.operator.csr().to_dense().clamp_min(1e-9)
        assert ratio[0, 1] != ratio[1, 0] and ratio[1, 2] != ratio[2, 1]


@pytest.mark.parametrize("outputs", [2, 9])
@pytest.mark.parametrize("parts", [1, 2, 4])
def test_a_layer_equals_dense_algebra_with_its_gradients(blocks: Graph, outputs: int, parts: int) -> None:
    conv = DropConnectConv(8, outputs, parts, BGCN().settings, stream()).double()
    operator = blocks.adjacency.operator.to(torch.float64)
    edges = EdgeMasks(operator, parts, shared=True)
    masks = edges.uniforms(stream(1)).double().requires_grad_()
    x = torch.randn(30, 8, generator=stream(2), dtype=torch.float64, requires_grad=True)

    rows, columns = torch.meshgrid(torch.arange(30), torch.arange(30), indexing="ij")
    of_pair = torch.zeros(30, 30, dtype=torch.int64)
    upper = (operator.csr().to_dense() != 0) & (columns >= rows)
    of_pair[upper] = torch.arange(int(upper.sum()))
    of_pair = torch.where(columns >= rows, of_pair, of_pair.T)
    expected = conv.bias + sum(
        (masks[of_pair, b] * operator.csr().to_dense())
        @ x[:, b * 8 // parts : (b + 1) * 8 // parts]
        @ conv.weight[b * 8 // parts : (b + 1) * 8 // parts]
        for b in range(parts)
    )
    result = conv.convolve(x, edges, masks)
    torch.testing.assert_close(result, expected)
    wanted = (x, masks, conv.weight)
    ours = torch.autograd.grad(result.square().sum(), wanted)
    theirs = torch.autograd.grad(expected.square().sum(), wanted)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other)


def module_of(graph: Graph, **settings: Any) -> tuple[BGCNModule, Inputs]:
    model = BGCN(**{"hidden": 8, "layers": 3, **settings})
    module = model.build(8, graph.num_classes, stream())
    assert isinstance(module, BGCNModule)
    return module, Inputs(torch.tensor(graph.features), graph.adjacency.operator)


def test_with_every_edge_kept_it_is_a_plain_gcn(blocks: Graph) -> None:
    module, inputs = module_of(blocks)
    for conv in module.layers():
        conv.rate.raw_a.data.fill_(1e12)
    h = inputs.features
    for layer, conv in enumerate(module.layers()):
        h = torch.relu(h) if layer else h
        h = inputs.adjacency @ (h @ conv.weight) + conv.bias
    for randomness in (stream(), keyed(blocks), None):
        torch.testing.assert_close(module(inputs, randomness).logits, h, atol=1e-4, rtol=1e-4)


def test_sparse_and_dense_features_give_the_same(blocks: Graph) -> None:
    import scipy.sparse as sp

    module, inputs = module_of(blocks)
    sparse = Inputs(SparseMatrix.from_scipy(sp.csr_array(blocks.features)), inputs.adjacency)
    for one, other in [(stream(), stream()), (keyed(blocks), keyed(blocks)), (None, None)]:
        torch.testing.assert_close(module(inputs, one).logits, module(sparse, other).logits)


def test_a_sample_has_its_own_rates_and_masks(blocks: Graph) -> None:
    module, inputs = module_of(blocks)
    first, keeps = module.heard(inputs, keyed(blocks, 0))
    second, others = module.heard(inputs, keyed(blocks, 1))
    assert keeps.shape == (3,) and len(set(keeps.tolist())) == 3
    assert not torch.equal(keeps, others) and not torch.allclose(first.logits, second.logits)
    torch.testing.assert_close(module(inputs, keyed(blocks, 0)).logits, first.logits, rtol=0, atol=0)


def test_a_pass_draws_rate_and_masks_from_its_randomness(blocks: Graph) -> None:
    conv = DropConnectConv(8, 5, 2, BGCN().settings, stream())
    operator, x = blocks.adjacency.operator, torch.tensor(blocks.features)
    for draw in (lambda: stream(3), lambda: keyed(blocks, 3)):
        found, keep = conv(x, operator, draw())
        again = draw()
        one = again.scalars(1) if isinstance(again, KeyedMasks) else torch.rand(1, generator=again)
        edges = edge_masks(operator, 2, shared=False)
        assert float(keep.detach()) == pytest.approx(float(conv.rate.log_keep(one[0]).exp().detach()))
        odds = torch.logit(keep) + torch.logit(edges.uniforms(again))
        torch.testing.assert_close(found, conv.convolve(x, edges, torch.sigmoid(odds / 0.67)))


class Largest(TorchDispatchMode):
    """The size of the largest tensor that any operation made."""

    def __init__(self) -> None:
        super().__init__()
        self.numel = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, tuple | list) else [result]:
            if isinstance(tensor, torch.Tensor) and tensor.layout == torch.strided:
                self.numel = max(self.numel, tensor.numel())
        return result


def test_memory_grows_with_the_edges_not_with_pairs_of_nodes() -> None:
    nodes = 3000
    ring = np.stack([np.arange(nodes), (np.arange(nodes) + 1) % nodes])
    features = np.random.default_rng(0).normal(size=(nodes, 8)).astype(np.float32)
    graph = gs.from_arrays(features, ring)
    module = BGCN(hidden=8, layers=3).build(8, 3, stream())
    inputs = Inputs(torch.tensor(graph.features), graph.adjacency.operator)
    with Largest() as largest:
        module(inputs, stream()).logits.sum().backward()
        module(inputs, keyed(graph))
    # three entries a row, two blocks, eight columns
    assert 3 * nodes <= largest.numel <= 8 * nodes


def learner_of(graph: Graph, **settings: Any) -> Any:
    return BGCN(**{"hidden": 8, "layers": 3, **settings}).learner(graph)


def test_the_loss_is_likelihood_kl_and_penalty(blocks: Graph) -> None:
    bare = learner_of(blocks, kl_weight=0, penalty=0)
    outputs, keeps = bare.module.heard(bare.inputs, learner_of(blocks).dropout)
    plain = bare.loss(1)
    torch.testing.assert_close(plain, functional.cross_entropy(outputs.logits[bare.train], bare.train_labels))

    kl = float(bare.module.kl().detach())
    for epoch, share in [(1, 0.05), (10, 0.5), (20, 1.0), (500, 1.0)]:
        warm = learner_of(blocks, kl_weight=3.0, penalty=0).loss(epoch)
        assert float((warm - plain).detach()) == pytest.approx(3.0 * share * kl, abs=1e-5)

    sizes = [float((c.weight**2).sum().detach() + (c.bias**2).sum().detach()) for c in bare.module.layers()]
    expected = sum(0.1 * (1 - float(keep.detach())) * size for keep, size in zip(keeps, sizes, strict=True))
    decayed = learner_of(blocks, kl_weight=0, penalty=0.1).loss(1)
    assert float((decayed - plain).detach()) == pytest.approx(expected, rel=1e-4)


def test_the_rates_are_learned_and_the_kl_pulls_them_to_the_prior(blocks: Graph) -> None:
    settings = {"hidden": 8, "layers": 2, "epochs": 150, "early_stop": False, "lr": 0.05}
    pulled = BGCN(**settings, kl_weight=100.0).fit(blocks)
    free = BGCN(**settings, kl_weight=0.0, penalty=0.0).fit(blocks)
    assert isinstance(pulled.module, BGCNModule) and isinstance(free.module, BGCNModule)
    assert float(pulled.module.kl().detach()) < 0.01
    assert float(free.module.kl().detach()) > 0.1
    accuracy = gs.evaluate(free.predict(blocks, samples=10), blocks)["accuracy"]
    assert accuracy > 0.8


def test_blocks_must_divide_the_width() -> None:
    with pytest.raises(BadUsage, match="divisor of hidden=10"):
        BGCN(hidden=10, blocks=4)


@pytest.mark.slow
@needs_real_data
@pytest.mark.parametrize(("name", "accuracy"), [("cora", 0.805), ("citeseer", 0.695)])
def test_the_documented_levels(name: str, accuracy: float) -> None:
    whole = gs.load(name)
    graph = gs.make_split(whole, "planetoid").apply(whole)
    reached = [gs.evaluate(BGCN(seed=s).fit(graph).predict(graph), graph)["accuracy"] for s in range(3)]
    assert np.mean(reached) > accuracy
