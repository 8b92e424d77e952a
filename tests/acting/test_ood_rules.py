"""The two rules for OOD nodes: a group by Benjamini–Hochberg, a node by a threshold from validation nodes."""

from __future__ import annotations

import json

import numpy as np
import pytest

from graphsde.acting.guarantee import per_node_guarantee
from graphsde.acting.ood import flag_per_node, ood_p_values
from graphsde.base.errors import BadInput, BadUsage
from graphsde.graph.build import from_arrays
from graphsde.graph.graph import Graph
from graphsde.prediction import ClassPrediction
from graphsde.uncertainty.binomial import clopper_pearson_interval
from graphsde.uncertainty.multiple_testing import benjamini_hochberg, conformal_p_values


def population(strange: int, seed: int = 0, nodes: int = 1500) -> tuple[Graph, ClassPrediction]:
    """Nodes from 900 on are unlabelled, the first ``strange`` of them with an entropy beyond all others'."""
    rng, role = np.random.default_rng(seed), np.arange(nodes)
    doubt = rng.random(nodes) * 0.8
    doubt[900 : 900 + strange] = 1.0
    graph = from_arrays(
        np.ones((nodes, 1)), np.stack([role, (role + 1) % nodes]),
        labels=[None if node >= 900 else "ab"[node % 2] for node in range(nodes)],
        train_mask=role < 20, val_mask=(role >= 20) & (role < 300), test_mask=(role >= 300) & (role < 900),
    )  # fmt: skip
    probs = np.stack([1 - doubt / 2, doubt / 2], axis=1)
    return graph, ClassPrediction(probs[None], graph.node_ids, graph.class_names, "deterministic")


def test_every_node_has_a_p_value() -> None:
    graph, prediction = population(strange=30)
    found = ood_p_values(prediction, graph, by="entropy")
    test = graph.role("test")
    assert found.p_values[900:930] == pytest.approx(1 / 601) and np.array_equal(found.calibration, test)
    own = found.values[test]
    assert found.p_values[1000] == (1 + (own >= found.values[1000]).sum()) / 601
    assert found.p_values[test] == pytest.approx([(own >= one).mean() for one in own])


def test_a_group_is_flagged_where_it_is_large_enough() -> None:
    for strange, flagged in ((9, 0), (10, 10), (40, 40)):
        graph, prediction = population(strange)
        group = ood_p_values(prediction, graph, by="entropy").fdr(0.1)
        assert (group.smallest, group.among) == (10, 600)  # 600 / (0.1 · 601)
        assert flagged <= group.flagged.sum() <= 1.2 * flagged and group.flagged[900 : 900 + strange].sum() == flagged
        assert json.loads(json.dumps(group.as_dict()))["flagged"] == group.flagged.sum()
    with pytest.raises(BadUsage, match="level"):
        ood_p_values(prediction, graph, by="entropy").fdr(1.0)


def test_the_rule_per_node_keeps_its_rate() -> None:
    rates = []
    for seed in range(60):
        graph, prediction = population(strange=0, seed=seed)
        flag = flag_per_node(prediction, graph, false_alarm=0.1, by="entropy")
        assert np.array_equal(flag.calibration, graph.role("val"))
        flagged, nodes = ood_p_values(prediction, graph, by="entropy").false_alarms(flag)
        assert (flagged, nodes) == (flag.flagged[graph.role("test")].sum(), 600)
        rates.append(flagged / nodes)
    assert np.mean(rates) == pytest.approx(0.1, abs=4 * np.std(rates) / np.sqrt(60))
    assert per_node_guarantee(0.1).name == "per-node"
    usual = flag_per_node(prediction, graph, by="entropy")
    assert usual.false_alarm == 0.05 and np.array_equal(
        usual.flagged, flag_per_node(prediction, graph, false_alarm=0.05, by="entropy").flagged
    )
    few = graph.with_masks(**{**graph.masks, "val": np.arange(1500) == 20})
    with pytest.raises(BadInput, match="1 validation nodes are too few"):
        flag_per_node(prediction, few, by="entropy")
    none = graph.with_masks(**{role: mask for role, mask in graph.masks.items() if role != "val"})
    with pytest.raises(BadUsage, match="no labelled validation nodes"):
        flag_per_node(prediction, none, by="entropy")


def test_the_false_discovery_rate_is_kept_in_simulation() -> None:
    """1,000 draws of 199 calibration nodes and 40 nodes to judge, of which 8 are moved by two deviations."""
    rng, shares, clean = np.random.default_rng(1), [], 0
    for _ in range(1000):
        calibration, nodes = rng.normal(size=799), rng.normal(size=40)
        clean += bool(benjamini_hochberg(conformal_p_values(nodes, calibration), 0.1).any())
        nodes[:8] += 3.0
        flagged = benjamini_hochberg(conformal_p_values(nodes, calibration), 0.1)
        shares.append(flagged[8:].sum() / max(1, flagged.sum()))
    assert np.mean(shares) <= 0.08 + 4 * np.std(shares) / np.sqrt(1000)
    assert clopper_pearson_interval(clean, 1000, 0.001)[0] <= 0.1
