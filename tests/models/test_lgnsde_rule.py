"""Which members suit a graph: by what can be measured before a fit, never by a test label or a name."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import graphsde as gs
from graphsde.graph.graph import Graph
from graphsde.models.lgnsde.rule import (
    MANY_LABELS,
    OWN,
    OWN_MANY,
    SMOOTH,
    SMOOTH_MANY,
    UNSURE,
    choose,
    labels_per_class,
)

from support import block_graph


def ring(labels: list[int]) -> Graph:
    """Nodes in a circle; every second trains, the rest validates."""
    n = len(labels)
    edges = np.stack([np.arange(n), np.roll(np.arange(n), -1)])
    features = np.random.default_rng(0).normal(size=(n, 5)).astype(np.float32)
    graph = gs.from_arrays(features, edges, labels=labels)
    train = np.arange(n) % 2 == 0
    return graph.with_masks(split="given", train=train, val=~train, test=np.zeros(n, dtype=bool))


def test_neighbours_that_agree_want_a_smooth_member() -> None:
    found = choose(ring([0] * 30 + [1] * 30))
    assert found.members == SMOOTH and "neighbours agree" in found.why


def test_neighbours_that_disagree_want_one_that_can_do_without_them() -> None:
    found = choose(ring([0, 1] * 30))
    assert found.members == OWN and "-1.00" in found.why


def test_too_few_edges_to_tell_take_both_kinds() -> None:
    found = choose(ring([0, 1] * 4))
    assert found.members == UNSURE and "too few" in found.why
    assert set(UNSURE) & set(SMOOTH) and set(UNSURE) & set(OWN) - set(SMOOTH)


def test_many_labels_allow_more_freedom() -> None:
    many = ring([0] * 2 * MANY_LABELS + [1] * 2 * MANY_LABELS)
    assert labels_per_class(many) >= MANY_LABELS and choose(many).members == SMOOTH_MANY
    assert choose(ring([0, 1] * 2 * MANY_LABELS)).members == OWN_MANY


def test_no_test_label_and_no_name_is_read() -> None:
    graph = block_graph(per_class=40)
    assert graph.labels is not None and graph.test_mask is not None
    labels = graph.labels.copy()
    labels[graph.test_mask] = np.random.default_rng(1).permutation(labels[graph.test_mask])
    scrambled = graph.with_labels(labels, graph.class_names)
    assert choose(graph) == choose(scrambled) == choose(dataclasses.replace(graph, name="cora", benchmark="cora"))


def test_the_default_is_the_rule_and_a_race_and_no_race_is_the_rule_alone(blocks: Graph) -> None:
    model = gs.LGNSDE()
    model.resolve(blocks)
    assert model.settings.race and [one.name for one in model.candidates(blocks)] == list(choose(blocks).members)
    plain = gs.LGNSDE(race=False, epochs=3).fit(blocks)
    assert not plain.standings and plain.settings.horizon == 10.0


def test_no_member_takes_settings_of_another() -> None:
    graph = ring([0, 1] * 30)
    model = gs.LGNSDE()
    model.resolve(graph)
    by_name = {one.name: one for one in model.candidates(graph)}
    far = model.as_candidate(by_name["far"])
    far.resolve(graph)
    assert far.settings.state == "logits" and not far.settings.decay_all and far.settings.lr == 0.02
    assert far.settings.consistency.kind == "confident"


def test_numbers_keep_their_recipe() -> None:
    graph = gs.synthetic_regression(80)
    model = gs.LGNSDE(epochs=2)
    model.resolve(graph)
    assert not model.settings.race and model.settings.drift.name == "graph-heat"
    assert model.candidates(graph) == []


@pytest.mark.parametrize("setting", [{"drift": "graph-heat"}, {"hidden": 16}, {"kl_weight": 0.1}])
def test_whoever_gives_a_part_gets_no_race(setting: dict[str, object]) -> None:
    assert gs.LGNSDE(**setting).settings.preset == "universal"  # type: ignore[arg-type]
