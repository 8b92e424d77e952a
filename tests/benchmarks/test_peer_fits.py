"""Peers compute what they are said to compute, and are trained as ours are."""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import graphsde as gs
from graphsde.datasets.splits import default_split, make_split
from graphsde.datasets.synthetic import synthetic
from graphsde.graph.sparse import SparseMatrix
from graphsde.sde.brownian import node_keys

pytest.importorskip("torchsde", reason="torchsde, the peer, is not installed")
pytest.importorskip("torch_geometric", reason="torch_geometric, the peer, is not installed")
BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
Script = Callable[[str], ModuleType]


@pytest.fixture
def graph() -> gs.Graph:
    whole = synthetic(80, classes=3, features=12, degree=6.0)
    return make_split(whole, default_split(whole)).apply(whole)


class Told:
    """A network whose validation NLL follows a list; its one parameter counts epochs."""

    def __init__(self, nll: list[float]) -> None:
        self.nll, self.epoch, self.weight = nll, 0, torch.nn.Parameter(torch.zeros(1))

    def loss(self, epoch: int) -> Tensor:
        self.epoch = epoch
        self.weight.data.fill_(epoch)
        return 0 * self.weight.sum()

    def validation_probs(self) -> Tensor:
        return torch.tensor([[np.exp(-self.nll[self.epoch - 1])]])

    def parameter_groups(self) -> list[dict[str, Any]]:
        return [{"params": [self.weight]}]

    def state_dict(self) -> dict[str, Tensor]:
        return {"weight": self.weight.data}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        self.weight.data.copy_(state["weight"])


def test_training_stops_and_goes_back_as_in_the_library(script: Script) -> None:
    fit = script("_fit")
    network = Told([3.0, 1.0, 2.0, 2.0, 2.0, 0.5])
    epochs = fit.train(network, fit.Schedule(epochs=6, patience=2, lr=0.1), torch.tensor([0]))
    assert epochs == 4 and float(network.weight) == 2.0
    network = Told([3.0, 1.0, 2.0, 2.0, 2.0, 0.5])
    epochs = fit.train(network, fit.Schedule(epochs=6, patience=9, lr=0.1, every=2), torch.tensor([0]))
    assert epochs == 6 and float(network.weight) == 6.0


def test_accuracy_is_that_of_test_nodes(script: Script, graph: gs.Graph) -> None:
    assert graph.labels is not None and graph.test_mask is not None
    probs = np.eye(3)[graph.labels]
    assert script("_fit").test_accuracy(graph, probs) == 1.0
    first = np.flatnonzero(graph.test_mask)[0]
    probs[first] = np.roll(probs[first], 1)
    expected = 1 - 1 / graph.test_mask.sum()
    assert script("_fit").test_accuracy(graph, probs) == pytest.approx(expected, abs=1e-4)


def test_pyg_is_the_same_network_in_every_layout(script: Script, graph: gs.Graph) -> None:
    module = script("_pyg_networks")
    learner = gs.GCN(hidden=5).learner(graph)
    dense = learner.inputs.features
    assert isinstance(dense, Tensor)
    edges = torch.from_numpy(np.array(graph.adjacency.edge_index()))
    options = {"width": 5, "dropout": 0.5, "weight_decay": 0.0}
    adjacency = learner.inputs.adjacency
    for layout in itertools.product(module.FEATURE_LAYOUTS, module.GRAPH_LAYOUTS):
        network = module.PyGNetwork("gcn", learner, edges, 3, layout=layout, **options)
        first, second = network.first, network.second
        hidden = torch.relu(adjacency @ (dense @ first.lin.weight.t()) + first.bias)
        logits = adjacency @ (hidden @ second.lin.weight.t()) + second.bias
        torch.testing.assert_close(network.probs(), torch.softmax(logits, -1), atol=1e-5, rtol=1e-4)
        network.loss(1).backward()
        assert first.lin.weight.grad is not None and bool(first.lin.weight.grad.isfinite().all())


def test_appnp_is_the_library_s(script: Script, graph: gs.Graph) -> None:
    learner = gs.APPNP(hidden=5).learner(graph)
    edges = torch.from_numpy(np.array(graph.adjacency.edge_index()))
    network = script("_pyg_networks").PyGNetwork(
        "appnp", learner, edges, 3, width=5, dropout=0.5, weight_decay=0.0, layout=("csr", "edges")
    )
    ours: Any = learner.module
    for name in ("first", "second"):
        getattr(ours, name).weight.data.copy_(getattr(network, name).weight.t())
        getattr(ours, name).bias.data.copy_(getattr(network, name).bias)
    ours.eval()
    expected = torch.softmax(ours(learner.inputs).logits, -1)
    torch.testing.assert_close(network.probs(), expected, atol=1e-5, rtol=1e-4)


def test_dropout_of_sparse_features_keeps_the_mean(script: Script) -> None:
    dropped = script("_pyg_networks").dropped
    dense = torch.ones(300, 100)
    torch.manual_seed(0)
    for x in (dense, dense.to_sparse_coo().coalesce(), dense.to_sparse_csr()):
        found = dropped(x, 0.5)
        assert found.layout == x.layout
        values = found.to_dense()
        assert set(values.unique().tolist()) == {0.0, 2.0}
        assert float(values.mean()) == pytest.approx(1.0, abs=0.03)


def test_diffrax_and_torchsde_have_the_same_drift(script: Script, graph: gs.Graph) -> None:
    pytest.importorskip("diffrax", reason="diffrax, an optional peer, is not installed")
    latent, peer = script("_latent_peers"), script("_diffrax_peer")
    assert peer.missing() is None
    learner = gs.LGNSDE(**latent.latent_settings()).learner(graph)
    edges = torch.from_numpy(np.array(graph.adjacency.edge_index()))
    task = latent.task_of(learner, edges, node_keys(graph.node_ids), 3)
    assert isinstance(task.features, SparseMatrix)
    other = latent.FittedSDE(task, learner.val, width=4, steps=2)
    jax = peer.DiffraxSDE(task, learner.val.numpy(), learner.val_labels.numpy(), width=4, steps=2)
    for name in ("first", "second"):
        jax.params[name] = getattr(other, name).lin.weight.detach().t().numpy()
        jax.params[f"{name}.bias"] = getattr(other, name).bias.detach().numpy()
    h = torch.randn(80, 4, generator=torch.Generator().manual_seed(0))
    expected = other.drift(torch.tensor(0.3), h).detach().numpy()
    np.testing.assert_allclose(np.asarray(jax._drift(jax.params, 0.3, h.numpy())), expected, atol=1e-5)


@pytest.mark.slow
def test_peers_are_fitted_and_named() -> None:
    command = [sys.executable, BENCHMARKS / "peers.py", "--quick", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    plain = found["plain"]["synthetic:200"]
    assert set(plain) == {"gcn", "appnp"} and all(one["speedup"] > 0 for one in plain.values())
    latent = found["latent"]["synthetic:200"]
    assert "torchsde" in latent["speedup"] and ("diffrax" in latent["speedup"]) != ("diffrax" in latent["left_out"])
    default = found["default"]["synthetic:200"]
    assert default["ours"]["epochs"] == default["pyg"]["epochs"] == 4
    assert default["fit_over_gcn"] > 0 and found["machine"]["cpu"]


def test_a_stopped_run_goes_on_and_a_part_can_be_measured_anew(
    script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    peers = script("peers")
    measured: list[str] = []

    def part(name: str, *rest: Any) -> dict[str, Any]:
        measured.append(name)
        if measured.count("pubmed") == 1 and name == "pubmed":
            raise KeyboardInterrupt
        return {"times": len(measured)}

    for name in ("default_over_gcn", "plain_networks", "latent_sde"):
        monkeypatch.setattr(peers, name, part)
    given = argparse.Namespace(out=tmp_path, quick=False, no_kernels=True, only="")
    with pytest.raises(KeyboardInterrupt):
        peers.measure(given)
    found = peers.measure(given)
    assert measured == ["cora", "pubmed", "pubmed", "computers", "cora", "cora"]
    assert found["complete"] and found["default"]["cora"] == {"times": 1}
    report = {"quick": False, "machine": script("_machine").machine()}
    script("_report").keep("peers-no-kernels", {**found, **report}, given)
    again = peers.measure(argparse.Namespace(**{**vars(given), "only": "latent"}))
    assert again["latent"]["cora"] == {"times": 7} and again["default"] == found["default"]
