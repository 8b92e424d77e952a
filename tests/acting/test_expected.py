"""Conformal selection and conformal risk control: closed forms, the guarantee by simulation, whole graphs."""

from __future__ import annotations

import json

import numpy as np
import pytest

import graphsde as gs
from graphsde.acting.expected import control_risk, risk_controlling_bound, select, selection_p_values
from graphsde.acting.ood import flag_per_node
from graphsde.base.errors import BadUsage
from graphsde.graph.build import from_arrays
from graphsde.graph.graph import Graph
from graphsde.prediction import ClassPrediction
from graphsde.uncertainty.multiple_testing import benjamini_hochberg

DRAWS = 1000


def draw(rng: np.random.Generator, nodes: int) -> tuple[np.ndarray, np.ndarray]:
    doubt = rng.random(nodes)
    return doubt, rng.random(nodes) < 0.6 * doubt


def test_p_values_are_counts() -> None:
    rng = np.random.default_rng(0)
    (values, wrong), nodes = draw(rng, 50), rng.random(20)
    values[:10] = values[10:20]  # ties
    nodes[:5] = values[:5]
    found = selection_p_values(nodes, values, wrong)
    assert found == pytest.approx([(1 + sum(w and v <= one for v, w in zip(values, wrong, strict=True))) / 51
                                   for one in nodes])  # fmt: skip


def mean_error_among_accepted(limit: float, level: float, seed: int) -> tuple[float, float, float]:
    """Mean share of wrong ones among accepted nodes, its standard error, mean share accepted."""
    rng, shares, accepted = np.random.default_rng(seed), [], []
    for _ in range(DRAWS):
        (values, wrong), (nodes, truth) = draw(rng, 200), draw(rng, 100)
        chosen = benjamini_hochberg(selection_p_values(nodes, values, wrong), level)
        shares.append(truth[chosen].sum() / max(1, chosen.sum()))
        accepted.append(chosen.mean())
    return float(np.mean(shares)), float(np.std(shares) / np.sqrt(DRAWS)), float(np.mean(accepted))


@pytest.mark.parametrize("limit", [0.05, 0.1, 0.2])
def test_on_average_no_more_than_the_limit_is_wrong(limit: float) -> None:
    mean, error, accepted = mean_error_among_accepted(limit, limit, seed=1)
    assert mean <= limit + 3.3 * error and mean > 0.5 * limit and accepted > 0.05
    careless, error, _ = mean_error_among_accepted(limit, 1.6 * limit, seed=1)
    assert careless > limit + 3.3 * error  # a weaker level would be found out


def test_risk_control_keeps_the_share_of_all_nodes() -> None:
    rng, shares, careless = np.random.default_rng(2), [], []
    for _ in range(DRAWS):
        (values, wrong), (nodes, truth) = draw(rng, 99), draw(rng, 200)
        shares.append((truth & (nodes < risk_controlling_bound(values, wrong, 0.1))).mean())
        careless.append((truth & (nodes < risk_controlling_bound(values, wrong, 0.125))).mean())
    error = np.std(shares) / np.sqrt(DRAWS)
    assert 0.09 < np.mean(shares) <= 0.1 + 3.3 * error < np.mean(careless)


def test_the_bound_of_risk_control_is_the_first_error_too_many() -> None:
    values, wrong = np.arange(9.0), np.ones(9, dtype=bool)
    assert risk_controlling_bound(values, wrong, 0.05) == -np.inf  # not even one node may be wrong
    assert risk_controlling_bound(values, wrong, 0.1) == 0.0
    assert risk_controlling_bound(values, wrong, 0.3) == 2.0
    assert risk_controlling_bound(values, ~wrong, 0.1) == np.inf


def population(seed: int = 3, nodes: int = 1500) -> tuple[Graph, ClassPrediction]:
    rng = np.random.default_rng(seed)
    (doubt, wrong), role = draw(rng, nodes), np.arange(nodes)
    graph = from_arrays(
        np.ones((nodes, 1)), np.stack([role, (role + 1) % nodes]), labels=wrong.astype(np.int64),
        class_names=["right", "wrong"], train_mask=role < 20, val_mask=(role >= 20) & (role < 300),
        test_mask=(role >= 300) & (role < 900),
    )  # fmt: skip
    probs = np.stack([1 - doubt / 2, doubt / 2], axis=1)
    return graph, ClassPrediction(probs[None], graph.node_ids, graph.class_names, "deterministic")


def test_nodes_that_nobody_has_used_are_decided_on() -> None:
    graph, prediction = population()
    found = select(prediction, graph, max_error=0.1)
    assert np.array_equal(found.calibration, graph.test_mask) and found.decided.sum() == 600
    assert not (found.accepted & ~found.decided).any() and found.accepted.any()
    assert np.array_equal(np.isnan(found.p_values), ~found.decided)
    below = found.values <= found.threshold
    assert np.array_equal(found.accepted, below & found.decided)
    assert found.accepted_calibration == (below & found.calibration).sum()
    assert found.wrong_calibration == (below & found.calibration & (graph.labels == 1)).sum()
    told = json.loads(json.dumps(found.as_dict()))
    assert told["guarantee"]["rests_on"] and told["accepted"] == found.accepted.sum() > 1
    assert told["decided"] == found.decided.sum() and told["calibration"]["nodes"] == found.calibration.sum()


def test_where_all_others_are_test_nodes_half_of_them_are_decided_on() -> None:
    graph = gs.load("digits")
    prediction = gs.LabelPropagation().fit(graph).predict(graph)
    found = select(prediction, graph, max_error=0.1)
    test = int(graph.role("test").sum())
    assert found.calibration.sum() == test // 2 and found.decided.sum() == test - test // 2
    wrong = prediction.index != graph.labels
    assert wrong[found.accepted].mean() <= 0.1 and found.accepted_share > 0.9


def test_flagged_nodes_are_left_out() -> None:
    graph, prediction = population()
    flag = flag_per_node(prediction, graph, false_alarm=0.3, by="entropy")
    for found in (
        select(prediction, graph, max_error=0.2, ood=flag),
        control_risk(prediction, graph, max_share=0.2, ood=flag),
    ):
        assert found.accepted.any() and not (found.accepted & flag.flagged).any()


def test_used_nodes_are_not_decided_on() -> None:
    graph, prediction = population()
    chosen = select(prediction, graph, max_error=0.2, nodes=np.arange(1000, 1200))
    assert np.flatnonzero(chosen.decided).tolist() == list(range(1000, 1200))
    with pytest.raises(BadUsage, match="E-CAL-USED"):
        select(prediction, graph, nodes=np.arange(850, 950))
    with pytest.raises(BadUsage, match="max_error"):
        select(prediction, graph, max_error=1.5)
