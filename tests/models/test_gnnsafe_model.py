"""GNNSafe++: its loss by hand, the OOD nodes it chooses, and what training with them does."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

import graphsde as gs
from graphsde.base.errors import BadUsage
from graphsde.datasets.shifts import interpolate_features
from graphsde.graph.graph import Graph
from graphsde.models.gcn import GCN
from graphsde.models.gnnsafe import GNNSafe, GNNSafeLearner, energies, energy_penalty, exposure_of, neighbour_mean
from graphsde.uncertainty.scores import propagate, score


def exposed(graph: Graph, *nodes: int) -> Graph:
    mask = np.isin(np.arange(graph.num_nodes), nodes)
    roles = {name: role & ~mask for name, role in graph.masks.items()}
    return graph.with_masks(**roles, exposure=mask)


def learner_of(graph: Graph, **settings: Any) -> GNNSafeLearner:
    learner = GNNSafe(hidden=5, **settings).learner(graph)
    assert isinstance(learner, GNNSafeLearner)
    return learner


def test_energies_and_penalty_by_hand() -> None:
    logits = torch.tensor([[1.0, 1.0], [3.0, 1.0]]).log()
    torch.testing.assert_close(energies(logits), -torch.log(torch.tensor([2.0, 4.0])))
    inside, outside = torch.tensor([-6.0, -4.0, -2.0]), torch.tensor([-3.0, 0.5])
    # margins -5 and -1: training nodes are 0, 1 and 3 too high, OOD ones 2 too low and fine
    assert float(energy_penalty(inside, outside, -5.0, -1.0)) == pytest.approx((0 + 1 + 9) / 3 + (4 + 0) / 2)


def test_energies_are_spread_as_the_score_spreads_them() -> None:
    graph = gs.from_arrays(np.eye(5, dtype=np.float32), np.array([[0, 1, 0], [1, 2, 2]]))  # nodes 3 and 4 are alone
    values = np.array([1.0, -2.0, 5.0, 7.0, 0.0])
    walk = neighbour_mean(graph)
    spread = torch.tensor(values, dtype=torch.float32)
    for _ in range(2):
        spread = 0.5 * (spread + (walk @ spread[:, None])[:, 0])
    np.testing.assert_allclose(spread.numpy(), propagate(values, graph, alpha=0.5, steps=2), atol=1e-6)


@pytest.mark.parametrize("rounds", [0, 2])
def test_loss_on_exposed_nodes_by_hand(blocks: Graph, rounds: int) -> None:
    graph = exposed(blocks, 6, 17, 28)
    learner = learner_of(graph, propagate=rounds)
    loss = float(learner.loss(1).detach())
    learner.module.train()
    logits = learner.module(learner.inputs).logits.detach()
    energy = propagate(energies(logits).double().numpy(), graph, steps=rounds)
    train, ood = energy[graph.train_mask], energy[[6, 17, 28]]
    penalty = np.mean(np.maximum(train + 5, 0) ** 2) + np.mean(np.maximum(-4 - ood, 0) ** 2)
    expected = functional.cross_entropy(logits[learner.train], learner.train_labels) + 1.0 * penalty
    assert loss == pytest.approx(float(expected), rel=1e-5)


@pytest.mark.parametrize("kind", ["features", "structure"])
def test_loss_on_a_shifted_copy_by_hand(blocks: Graph, kind: str) -> None:
    learner = learner_of(blocks, exposure=kind, margin_out=3.0, energy_weight=0.5, propagate=0)
    assert learner.ood is not None and len(learner.ood_rows) == blocks.num_nodes
    same_features = torch.equal(learner.ood.features, learner.inputs.features)
    same_edges = torch.equal(learner.ood.adjacency.col, learner.inputs.adjacency.col)
    assert (same_features, same_edges) == ((False, True) if kind == "features" else (True, False))
    loss = float(learner.loss(1).detach())
    learner.module.train()
    logits = learner.module(learner.inputs).logits.detach()
    outside = energies(learner.module(learner.ood).logits.detach())
    penalty = energy_penalty(energies(logits)[learner.train], outside, -5.0, 3.0)
    expected = functional.cross_entropy(logits[learner.train], learner.train_labels) + 0.5 * penalty
    assert loss == pytest.approx(float(expected), rel=1e-5)


def test_the_choice_of_foreign_nodes(blocks: Graph) -> None:
    marked = exposed(blocks, 3)
    assert exposure_of("auto", blocks) == "features" and exposure_of("auto", marked) == "nodes"
    assert exposure_of("structure", marked) == "structure"
    with pytest.raises(BadUsage, match="no OOD nodes"):
        GNNSafe(exposure="nodes").fit(blocks)
    with pytest.raises(BadUsage, match="no OOD nodes"):
        exposure_of("nodes", blocks.with_masks(exposure=np.zeros(blocks.num_nodes, dtype=bool)))


@pytest.mark.parametrize(
    ("name", "settings", "expected"),
    [
        ("cora", {}, ("features", -5.0, -1.0, 0.01)),
        ("photo", {}, ("features", -9.0, -1.0, 1.0)),
        ("photo", {"exposure": "structure"}, ("structure", -9.0, -1.0, 0.1)),
        ("cora", {"margin_in": -7.0}, ("features", -7.0, -1.0, 0.01)),
    ],
)
def test_margins_follow_graph_and_exposure(
    blocks: Graph, name: str, settings: dict[str, Any], expected: tuple[Any, ...]
) -> None:
    rules = learner_of(dataclasses.replace(blocks, benchmark=name), **settings).settings
    assert (rules.exposure, rules.margin_in, rules.margin_out, rules.energy_weight) == expected


def test_margins_of_exposed_nodes(blocks: Graph) -> None:
    rules = learner_of(exposed(blocks, 3)).settings
    assert (rules.exposure, rules.margin_in, rules.margin_out, rules.energy_weight) == ("nodes", -5.0, -4.0, 1.0)


def test_the_copy_is_drawn_from_the_models_seed(blocks: Graph) -> None:
    one, same, other = (learner_of(blocks, seed=seed).ood for seed in (0, 0, 1))
    assert one is not None and same is not None and other is not None
    assert torch.equal(one.features, same.features) and not torch.equal(one.features, other.features)


def test_without_weight_it_is_the_gcn_but_for_the_running_statistics(blocks: Graph) -> None:
    graph = exposed(blocks, 3, 4)
    backbone = {"hidden": 6, "batch_norm": True, "dropout": 0.0, "weight_decay": 0.01, "decay_all": True}
    gcn = GCN(**backbone, epochs=20, patience=200, temperature=False).fit(graph)
    quiet = GNNSafe(hidden=6, epochs=20, energy_weight=0.0).fit(graph)
    np.testing.assert_array_equal(quiet.predict(graph).probs, gcn.predict(graph).probs)


def test_exposure_drives_the_energies_of_a_new_shift_apart(blocks: Graph) -> None:
    shifted = interpolate_features(blocks, seed=99)

    def gap(weight: float) -> float:
        model = GNNSafe(hidden=16, epochs=40, early_stop=False, energy_weight=weight).fit(blocks)
        inside = score("energy", model.predict(blocks), blocks)[blocks.test_mask]
        return float(score("energy", model.predict(shifted), shifted).mean() - inside.mean())

    assert gap(1.0) > gap(0.0) + 1.0
