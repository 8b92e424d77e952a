"""LGNSDE trained by batches of nodes and by clusters, beside the whole graph."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch

import graphsde as gs
from graphsde.base.errors import BadUsage
from graphsde.base.interrupt import Interrupted, InterruptGuard
from graphsde.graph.build import from_arrays
from graphsde.graph.graph import Graph
from graphsde.graph.sparse import SparseMatrix
from graphsde.metrics.evaluation import evaluate
from graphsde.models.lgnsde import batched
from graphsde.models.lgnsde.batched import ClusterLearner, NodeBatchLearner, rows_of
from graphsde.models.lgnsde.learner import LGNSDELearner
from graphsde.nn.callbacks import Callback, EpochRecord
from graphsde.nn.checkpoint import Checkpoint
from graphsde.nn.encoding import FeatureEncoder
from graphsde.nn.training import Training

from support import needs_real_data

# without randomness, so that batches and the whole graph must say the same
STILL: dict[str, Any] = {
    "race": False, "feature_dropout": 0.0, "encoder_dropout": 0.0, "decoder_dropout": 0.0, "node_dropout": 0.0,
    "latent_dropout": 0.0, "epochs": 6, "consistency": {"kind": "none"}, "noise_by": "marginals", "preset": "auto",
}  # fmt: skip
FILTER = {"name": "graph-filter", "options": {"kappas": [0.9], "learn": False, "residual": "none"}}
HEAT = {"name": "graph-heat", "options": {"teleport": 0.2, "source_operator": "smoothing"}}
MEMBERS: dict[str, dict[str, Any]] = {
    "logits": {"drift": FILTER},
    "linear encoder": {"drift": FILTER, "encoder": "linear"},
    "several filters": {
        "drift": {"name": "graph-filter", "options": {"kappas": [0.5, 0.9, -0.5, 0.0, 0.5]}},
        "state": "wide", "hidden": 8, "ego": True,
    },
    "heat": {"drift": HEAT, "horizon": 4, "steps": 4},
    "noise": {"drift": FILTER, "sigma": 0.3, "sigma_is": "absolute"},
}  # fmt: skip


def learner_of(graph: Graph, **settings: Any) -> LGNSDELearner:
    learner = gs.LGNSDE(**STILL | settings).learner(graph)
    assert isinstance(learner, LGNSDELearner)
    return learner


def gradients(learner: LGNSDELearner, loss: torch.Tensor) -> dict[str, torch.Tensor]:
    loss.backward()
    return {name: p.grad for name, p in learner.module.named_parameters() if p.grad is not None}


@pytest.mark.parametrize("name", MEMBERS)
def test_a_batch_with_all_neighbours_has_the_gradient_of_the_whole_graph(name: str, blocks: Graph) -> None:
    whole = learner_of(blocks, **MEMBERS[name])
    batches = learner_of(blocks, **MEMBERS[name], way="batched", neighbours=blocks.num_nodes)
    assert isinstance(batches, NodeBatchLearner)
    losses = list(batches.losses(1))
    expected = whole.loss(1)
    assert len(losses) == 1 and losses[0].item() == pytest.approx(expected.item(), rel=1e-5)
    ours, theirs = gradients(batches, losses[0]), gradients(whole, expected)
    assert ours.keys() == theirs.keys() and len(ours) >= 2
    for parameter, grad in theirs.items():
        scale = float(grad.abs().max())
        assert scale > 0 and float((ours[parameter] - grad).abs().max()) < 1e-4 * scale, parameter
    assert torch.allclose(batches.validation_logits(), whole.validation_logits(), atol=1e-5)


def test_few_neighbours_make_a_difference(blocks: Graph) -> None:
    few, all_of_them = (
        learner_of(blocks, drift=FILTER, way="batched", neighbours=count) for count in (2, blocks.num_nodes)
    )
    assert not torch.allclose(few.validation_logits(), all_of_them.validation_logits(), atol=1e-3)
    (note,) = few.notes()  # type: ignore[attr-defined]
    assert "at most 2 neighbours" in note and "%" in note


def test_an_epoch_has_a_step_for_every_batch_and_every_training_node_once(blocks: Graph) -> None:
    learner = learner_of(blocks, drift=FILTER, way="batched", neighbours=8, batch=5)
    seen: list[np.ndarray] = []
    real = learner._loss  # type: ignore[attr-defined]
    learner._loss = lambda epoch, step, batch: seen.append(batch) or real(epoch, step, batch)  # type: ignore[attr-defined]
    training = Training(learner, learner.settings)
    training.advance()
    assert [len(batch) for batch in seen] == [4, 4, 4]  # 12 training nodes
    assert sorted(np.concatenate(seen).tolist()) == list(range(len(learner.train)))
    assert {float(state["step"]) for state in training.optimizer.state.values()} == {3.0}
    first, seen[:] = np.concatenate(seen), []
    training.advance()
    assert not np.array_equal(first, np.concatenate(seen))


def test_of_many_training_nodes_an_epoch_takes_some_and_several_epochs_take_all(
    blocks: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batched, "MOST_STEPS", 2)
    monkeypatch.setattr(batched, "MOST_TRAINED", 9)
    monkeypatch.setattr(batched, "MOST_VALIDATED", 4)
    learner = learner_of(blocks, drift=FILTER, way="batched", neighbours=8, batch=3)
    assert isinstance(learner, NodeBatchLearner) and blocks.labels is not None
    assert len(learner.used) == 9 and len(learner.val) == len(learner.val_labels) == 4
    assert np.array_equal(learner.val_labels.numpy(), blocks.labels[learner.val.numpy()])
    assert "9 of 12 training nodes are used" in learner.notes()[1]
    assert learner.validation_logits().shape[0] == 4
    seen: list[np.ndarray] = []
    monkeypatch.setattr(learner, "_loss", lambda epoch, step, batch: seen.append(batch))
    for epoch in (1, 2, 3):
        assert len(list(learner.losses(epoch))) == 2
    for three in (seen[:3], seen[3:]):
        assert sorted(np.concatenate(three).tolist()) == list(range(9))
    # a node of a batch is trained on with its own label
    monkeypatch.undo()
    logits: list[torch.Tensor] = []
    monkeypatch.setattr(batched, "path_likelihood", lambda found, labels, *_: logits.append(labels) or found.sum())
    learner._loss(1, 0, np.array([8, 0]))
    nodes = learner.train.numpy()[learner.used[[8, 0]]]
    assert np.array_equal(logits[0].numpy(), blocks.labels[nodes])
    assert np.array_equal(learner.nodes[learner.at_train[[8, 0]]], nodes)


class Stop(Callback):
    def __init__(self, guard: InterruptGuard, epoch: int) -> None:
        self.guard, self.epoch = guard, epoch

    def on_epoch(self, record: EpochRecord) -> None:
        if record.epoch == self.epoch:
            self.guard.received = 15


BUSY = {
    "race": False, "epochs": 9, "evaluate_every": 1, "sigma": 0.2, "noise_by": "marginals", "preset": "auto",
    "consistency": {"kind": "confident", "weight": 1.0, "by_evidence": True, "begin": 2, "warmup": 2},
    "drift": FILTER, "horizon": 10, "steps": 10,
}  # fmt: skip


@pytest.mark.parametrize("how", [{"neighbours": 6, "batch": 5}, {"parts": 5, "batch": 12}], ids=["nodes", "clusters"])
def test_a_fit_is_the_same_twice_and_when_it_is_resumed(how: dict[str, int], blocks: Graph, tmp_path: Path) -> None:
    def fit(**more: Any) -> gs.LGNSDE:
        return gs.LGNSDE(**BUSY, way="batched", **how).fit(blocks, **more)

    whole, again = fit(), fit()
    guard, path = InterruptGuard(), tmp_path / "checkpoint.safetensors"
    with pytest.raises(Interrupted):
        fit(callbacks=[Stop(guard, 4)], checkpoint=Checkpoint(path), interrupt=guard)
    resumed = fit(checkpoint=Checkpoint(path))
    assert [one.loss for one in resumed.history] == [one.loss for one in whole.history]
    for name, tensor in whole.state()[0].items():
        assert torch.equal(tensor, again.state()[0][name]) and torch.equal(tensor, resumed.state()[0][name]), name
    assert np.array_equal(whole.predict(blocks, samples=4).probs, resumed.predict(blocks, samples=4).probs)


def ring(nodes: int) -> Graph:
    rng = np.random.default_rng(0)
    edges = np.stack([np.arange(nodes), np.roll(np.arange(nodes), -1)])
    roles = np.arange(nodes)
    return from_arrays(
        rng.normal(size=(nodes, 5)), edges, labels=roles % 2, class_names=["a", "b"],
        train_mask=roles < 12, val_mask=(roles >= 12) & (roles < 20), test_mask=roles >= 20, name="ring",
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["none", "confident"])
def test_a_step_encodes_as_many_nodes_on_a_large_graph_as_on_a_small_one(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoded: list[int] = []
    real = FeatureEncoder.transform

    def counted(self: FeatureEncoder, graph: Graph) -> Any:
        encoded.append(int(graph.features.shape[0]))
        return real(self, graph)

    most, peak = {}, {}
    for nodes in (10_000, 40_000):
        given = STILL | {"consistency": {"kind": kind, "begin": 1}}
        learner = gs.LGNSDE(
            **given, drift=FILTER, horizon=5, steps=5, way="batched", neighbours=11, batch=4
        ).learner(ring(nodes))  # fmt: skip
        monkeypatch.setattr(FeatureEncoder, "transform", counted)
        encoded.clear()
        tracemalloc.start()  # of numpy's arrays
        for loss in learner.losses(3):  # type: ignore[attr-defined]
            loss.backward()
        assert learner.validate(3) is not None
        most[nodes], peak[nodes] = max(encoded), tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        monkeypatch.setattr(FeatureEncoder, "transform", real)
        others = batched.FEWEST_OTHERS + 8 if kind != "none" else 0
        assert most[nodes] <= 11 * (12 + others) + 2 * batched.BACKGROUND
    assert most[40_000] < 1.1 * most[10_000] and peak[40_000] < 1.1 * peak[10_000]


def test_features_may_lie_in_a_file(blocks: Graph, tmp_path: Path) -> None:
    np.save(tmp_path / "features.npy", blocks.features)
    mapped = blocks.with_features(np.load(tmp_path / "features.npy", mmap_mode="r"))
    one, other = (learner_of(g, drift=FILTER, way="batched", neighbours=8) for g in (blocks, mapped))
    assert torch.equal(one.loss(1), other.loss(1))


def test_predictions_by_rows_with_all_neighbours_are_those_of_the_walk(blocks: Graph) -> None:
    for sigma in (0.3, 0.0):
        found = []
        for how in ("walk", "rows"):
            given: dict[str, Any] = BUSY | {"sigma": sigma, "sigma_is": "absolute", "predict_by": how}
            model = gs.LGNSDE(**given, way="batched", neighbours=30).fit(blocks)
            found.append(torch.from_numpy(model.predict(blocks, samples=4).logits))
        assert torch.allclose(*found, atol=1e-4)
    with_few = gs.LGNSDE(**BUSY | {"sigma": 0.0}, way="batched", neighbours=2, predict_by="rows").fit(blocks)
    assert not torch.allclose(torch.from_numpy(with_few.predict(blocks).logits), found[0], atol=1e-3)


@pytest.mark.parametrize(
    "given",
    [
        {"drift": {"name": "graph-filter", "options": {"kappas": [0.9], "learn": True}}},
        {"drift": {"name": "graph-filter", "options": {"kappas": [0.9], "residual": "gcn"}}},
        {"preset": "paper", "noise_by": "paths"},
        {"drift": FILTER, "horizon": 5.0, "steps": 10},
        {"drift": FILTER, "encoder": "gcn"},
    ],
    ids=["learned", "rest", "paper", "half steps", "gcn encoder"],
)
def test_what_is_no_fixed_filter_goes_by_clusters_or_is_refused(given: dict[str, Any], blocks: Graph) -> None:
    assert isinstance(learner_of(blocks, **given, way="batched"), ClusterLearner)
    with pytest.raises(BadUsage, match=r"not possible.*leave out neighbours"):
        learner_of(blocks, **given, way="batched", neighbours=8)


def test_settings_that_contradict_each_other_are_refused(blocks: Graph) -> None:
    with pytest.raises(BadUsage, match="leave out parts or neighbours"):
        learner_of(blocks, drift=FILTER, way="batched", neighbours=8, parts=4)
    with pytest.raises(BadUsage, match="importance-weighted bound"):
        learner_of(blocks, drift=FILTER, way="batched", objective="importance")
    assert type(learner_of(blocks, drift=FILTER)) is LGNSDELearner
    assert type(learner_of(blocks, drift=FILTER, way="full")) is LGNSDELearner


def test_clusters_together_are_the_whole_graph(blocks: Graph) -> None:
    for given in ({"preset": "paper", "noise_by": "paths"}, {"drift": FILTER}):
        whole, clusters = (learner_of(blocks, **given, **how) for how in ({}, {"way": "batched", "parts": 4}))
        assert isinstance(clusters, ClusterLearner)
        (loss,) = clusters.losses(1)
        assert loss.item() == pytest.approx(whole.loss(1).item(), rel=1e-6)


def test_a_step_sees_the_operator_of_the_graph_among_its_nodes(blocks: Graph) -> None:
    learner = learner_of(blocks, drift=FILTER, way="batched", parts=5, batch=12)
    assert isinstance(learner, ClusterLearner)
    nodes = np.array([1, 4, 7, 20, 21])
    part = learner.among(nodes)
    seen = part.inputs.adjacency
    dense = sp.csr_array((seen.values, seen.col, seen.crow), shape=seen.shape).toarray()
    links = (blocks.adjacency.normalized.toarray() > 0).astype(float)[np.ix_(nodes, nodes)]
    roots = np.sqrt(links.sum(1))
    assert np.allclose(dense, links / np.outer(roots, roots), rtol=1e-6)
    assert torch.equal(part.inputs.features, learner.inputs.features[nodes])
    trained = nodes[np.asarray(blocks.train_mask)[nodes]]
    assert np.array_equal(nodes[part.train.numpy()], trained)
    assert blocks.labels is not None and np.array_equal(part.train_labels.numpy(), blocks.labels[trained])


def test_every_epoch_groups_all_clusters_anew(blocks: Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    learner = learner_of(blocks, drift=FILTER, way="batched", parts=5, batch=12)
    assert isinstance(learner, ClusterLearner)
    seen: list[np.ndarray] = []
    real = learner.among
    monkeypatch.setattr(learner, "among", lambda nodes: seen.append(nodes) or real(nodes))
    epochs = []
    for epoch in (1, 2, 3):
        seen.clear()
        assert len(list(learner.losses(epoch))) == 3
        assert sorted(np.concatenate(seen).tolist()) == list(range(blocks.num_nodes))
        epochs.append({tuple(nodes.tolist()) for nodes in seen})
    assert epochs[0] != epochs[1] or epochs[1] != epochs[2]
    assert "5 clusters, 2 a step, 3 steps an epoch" in learner.notes()[0]


def test_validation_goes_group_by_group_where_the_whole_would_be_too_large(
    blocks: Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = {"drift": {"name": "graph-filter", "options": {"kappas": [0.0], "learn": False}}, "way": "batched"}
    alone, together = ({**own, "parts": 5, "batch": 12}, {"drift": FILTER, "way": "batched", "parts": 5, "batch": 12})
    for given, same in ((alone, True), (together, False)):
        learner = learner_of(blocks, **given)
        whole = learner.validation_logits()
        monkeypatch.setattr(batched, "VALIDATED_AT_ONCE", 1)
        pieces = learner.validation_logits()
        # nodes that hear nobody are the same in a group as in the whole graph, in the same order
        assert whole.shape == pieces.shape and torch.allclose(whole, pieces, atol=1e-6) == same
        learner.measure_signal()
        assert torch.equal(learner.validation_logits(), whole)  # a temperature is for whole predictions
        monkeypatch.undo()


def test_rows_of_sparse_features() -> None:
    dense = np.random.default_rng(0).random((9, 6)).astype(np.float32) * (np.random.default_rng(1).random((9, 6)) < 0.4)
    features, rows = SparseMatrix.from_scipy(sp.csr_array(dense)), torch.tensor([7, 0, 3])
    found = rows_of(features, rows)
    assert isinstance(found, SparseMatrix) and torch.equal(found.csr().to_dense(), torch.from_numpy(dense)[rows])


@needs_real_data
def test_batches_learn_cora() -> None:
    graph = gs.load("cora")
    accuracy = {}
    for name, how in {"whole": {}, "nodes": {"neighbours": 32}, "clusters": {"parts": 16, "batch": 700}}.items():
        given: dict[str, Any] = {**how, "way": "batched"} if how else {}
        model = gs.LGNSDE(race=False, epochs=60, seed=0, **given).fit(graph)
        accuracy[name] = evaluate(model.predict(graph), graph)["accuracy"]
    assert accuracy["whole"] > 0.8
    assert accuracy["nodes"] > accuracy["whole"] - 0.05 and accuracy["clusters"] > accuracy["whole"] - 0.06


def test_a_race_goes_by_batches_too(blocks: Graph) -> None:
    model = gs.LGNSDE(way="batched", batch=8, epochs=60, patience=10).fit(blocks)
    assert len(model.standings) > 2 and model.predict(blocks).probs.shape[1:] == (30, 3)
