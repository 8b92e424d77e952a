"""Predict then propagate against PyG and against the closed form of personalised PageRank."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import graphsde as gs
from graphsde.graph.graph import Graph
from graphsde.models.appnp import APPNP, APPNPModule, APPNPSettings, personalised_pagerank
from graphsde.models.neural import Inputs


@pytest.mark.parametrize(("steps", "teleport"), [(10, 0.1), (3, 0.4), (0, 0.1)])
def test_propagation_and_its_gradient_equal_pyg(blocks: Graph, steps: int, teleport: float) -> None:
    pyg = pytest.importorskip("torch_geometric.nn")
    edges = torch.from_numpy(blocks.adjacency.edge_index())
    ours = torch.tensor(blocks.features, requires_grad=True)
    theirs = torch.tensor(blocks.features, requires_grad=True)
    result = personalised_pagerank(ours, blocks.adjacency.operator, teleport, steps)
    expected = pyg.APPNP(K=steps, alpha=teleport)(theirs, edges)
    torch.testing.assert_close(result, expected, atol=1e-5, rtol=1e-5)
    result.square().sum().backward()
    expected.square().sum().backward()
    torch.testing.assert_close(ours.grad, theirs.grad, atol=1e-4, rtol=1e-4)


def test_many_steps_reach_the_closed_form(blocks: Graph) -> None:
    start, teleport = torch.tensor(blocks.features), 0.2
    spread = np.eye(blocks.num_nodes) - (1 - teleport) * blocks.adjacency.normalized.toarray()
    expected = teleport * np.linalg.solve(spread, blocks.features)
    result = personalised_pagerank(start, blocks.adjacency.operator, teleport, 200)
    np.testing.assert_allclose(result.numpy(), expected, atol=1e-4)


@pytest.mark.parametrize(("steps", "teleport"), [(0, 0.1), (7, 1.0)])
def test_without_propagation_it_is_the_perceptron(blocks: Graph, steps: int, teleport: float) -> None:
    settings = APPNPSettings(hidden=5, steps=steps, teleport=teleport)
    module = APPNPModule(8, 3, settings, torch.Generator().manual_seed(0))
    x = torch.tensor(blocks.features)
    expected = torch.relu(x @ module.first.weight) @ module.second.weight
    torch.testing.assert_close(module(Inputs(x, blocks.adjacency.operator)).logits, expected)


def test_it_learns_and_decays_the_first_layer_only(blocks: Graph) -> None:
    model = APPNP(hidden=8, epochs=60).fit(blocks)
    assert gs.evaluate(model.predict(blocks), blocks)["accuracy"] > 0.8
    groups = model.parameter_groups(model.module)
    assert [group["weight_decay"] for group in groups] == [5e-3, 0.0]
    assert groups[0]["params"][0] is model.module.first.weight
