"""The normalised GCN against PyG's convolutions around torch's own batch norm."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch

import graphsde as gs
from graphsde.graph.graph import Graph
from graphsde.models.gcn import GCN, GCNModule, GCNSettings
from graphsde.models.neural import Inputs


def inputs_of(graph: Graph) -> Inputs:
    return Inputs(torch.tensor(np.asarray(graph.features)), graph.adjacency.operator)


@pytest.mark.parametrize("training", [True, False])
def test_normalised_gcn_equals_a_stack_of_pyg_layers(blocks: Graph, training: bool) -> None:
    pyg = pytest.importorskip("torch_geometric.nn")
    settings = GCNSettings(hidden=6, batch_norm=True, dropout=0.0)
    ours = GCNModule(8, 3, settings, torch.Generator().manual_seed(0))
    first, norm, second = pyg.GCNConv(8, 6), torch.nn.BatchNorm1d(6), pyg.GCNConv(6, 3)
    with torch.no_grad():
        for conv, own in ((first, ours.first), (second, ours.second)):
            conv.lin.weight.copy_(own.weight.T)
            conv.bias.copy_(own.bias)
        for mine, theirs in zip((ours.norm.weight, ours.norm.bias), (norm.weight, norm.bias), strict=True):
            mine += torch.linspace(-0.5, 0.5, 6)
            theirs.copy_(mine)
        for owner in (ours.norm, norm):  # statistics that are neither those of the batch nor the initial ones
            owner.running_mean.copy_(torch.linspace(-1, 1, 6))
            owner.running_var.copy_(torch.linspace(0.5, 2, 6))
    for module in (ours, norm):
        module.train(training)
    x, edges = torch.tensor(np.asarray(blocks.features)), torch.from_numpy(blocks.adjacency.edge_index())
    expected = second(torch.relu(norm(first(x, edges))), edges)
    outputs = ours(inputs_of(blocks))
    torch.testing.assert_close(outputs.logits, expected, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(ours.norm.running_var, norm.running_var)
    expected.square().sum().backward()
    outputs.logits.square().sum().backward()
    torch.testing.assert_close(ours.first.weight.grad, first.lin.weight.grad.T, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(ours.norm.weight.grad, norm.weight.grad, atol=1e-4, rtol=1e-4)


def test_prediction_uses_the_statistics_of_training(blocks: Graph) -> None:
    model = GCN(hidden=6, epochs=30, batch_norm=True, dropout=0.0).fit(blocks)
    # statistics of the nodes at hand would let a node's answer depend on a stranger's features
    one = gs.from_arrays(np.asarray(blocks.features)[:2], np.zeros((2, 0), dtype=int))
    two = gs.from_arrays(np.asarray(blocks.features)[[0, 5]], np.zeros((2, 0), dtype=int))
    np.testing.assert_allclose(model.predict(one).probs[0, 0], model.predict(two).probs[0, 0], atol=1e-6)


def test_statistics_of_the_best_epoch_are_kept_and_saved(blocks: Graph, tmp_path: Path) -> None:
    model = GCN(hidden=6, epochs=40, batch_norm=True, lr=0.5).fit(blocks)
    assert model.best_epoch is not None and model.best_epoch < 40
    assert int(model.module.norm.num_batches_tracked) == model.best_epoch
    model.save(tmp_path)
    loaded = gs.load_model(tmp_path)
    np.testing.assert_array_equal(loaded.predict(blocks).probs, model.predict(blocks).probs)


@pytest.mark.parametrize(("everything", "decays"), [(False, [0.1, 0.0]), (True, [0.1, 0.1])])
def test_decay_reaches_the_first_layer_or_everything(everything: bool, decays: list[float]) -> None:
    model = GCN(hidden=4, batch_norm=True, weight_decay=0.1, decay_all=everything)
    module = model.build(5, 3, torch.Generator().manual_seed(0))
    groups = model.parameter_groups(module)
    assert [group["weight_decay"] for group in groups] == decays
    assert {id(p) for p in groups[0]["params"]} == {id(p) for p in module.first.parameters()}
    listed = [id(p) for group in groups for p in group["params"]]
    assert sorted(listed) == sorted(id(p) for p in module.parameters())


def test_the_users_settings_win_over_those_of_the_graph(blocks: Graph) -> None:
    photo = dataclasses.replace(blocks, benchmark="photo")
    model = GCN(hidden=3, epochs=1).fit(photo)
    assert model.settings.hidden == 3 and model.settings.scaling == "none"
    assert GCN(epochs=1).fit(blocks).settings.hidden == 16
