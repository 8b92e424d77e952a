"""`decide` under each guarantee: who is accepted, what is said, figures that no calibration node has a part in."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import numpy as np
import pytest

import graphsde as gs
from graphsde.acting.decide import ClassDecisions
from graphsde.base.errors import BadUsage
from graphsde.graph.build import from_arrays
from graphsde.graph.graph import Graph
from graphsde.prediction import ClassPrediction


def population(seed: int = 0, nodes: int = 2400) -> tuple[Graph, ClassPrediction]:
    """A node of doubt u is wrong with probability ``0.2 · u``; the last 400 have no label and no role."""
    rng, role = np.random.default_rng(seed), np.arange(nodes)
    doubt = rng.random(nodes)
    wrong = rng.random(nodes) < 0.2 * doubt
    graph = from_arrays(
        np.ones((nodes, 1)), np.stack([role, (role + 1) % nodes]),
        labels=[None if node >= nodes - 400 else ("wrong" if wrong[node] else "right") for node in range(nodes)],
        class_names=["right", "wrong"], train_mask=role < 100, val_mask=(role >= 100) & (role < 600),
        test_mask=(role >= 600) & (role < nodes - 400),
    )  # fmt: skip
    probs = np.stack([1 - doubt / 2, doubt / 2], axis=1)
    return graph, ClassPrediction(probs[None], graph.node_ids, graph.class_names, "deterministic")


def decided(guarantee: str, max_error: float = 0.12) -> tuple[Graph, ClassDecisions]:
    graph, prediction = population()
    found = gs.decide(prediction, graph, max_error=max_error, guarantee=guarantee, ood_by="entropy")  # type: ignore[arg-type]
    assert isinstance(found, ClassDecisions)
    return graph, found


def test_certified_takes_the_stricter_limit_and_judges_by_cross_fitting() -> None:
    graph, found = decided("certified")
    assert found.frontier is not None and found.abstention.max_error == 0.10
    assert np.array_equal(found.abstention.calibration, graph.role("test"))
    assert np.array_equal(found.actions == "accept", found.frontier.accepted(0.12))
    summary = json.loads(json.dumps(found.summary()))
    test = summary["test"]
    assert test["cross_fitted"] and test["nodes"] == 1400 == graph.role("test").sum()
    assert test["error"] == test["wrong"] / test["accepted"] <= 0.1
    assert 0.88 < test["set_coverage"] < 0.99 and summary["max_error"] == 0.10
    assert summary["frontier"]["rungs"][0]["status"] == "certified" and "together" in summary["guarantee"]


def test_cross_fitted_figures_are_of_two_rules_that_saw_the_other_half() -> None:
    graph, found = decided("certified")
    assert found.again is not None
    half = graph.role("test") & (np.arange(graph.num_nodes) % 2 == 0)
    other = found.again(half)
    assert np.array_equal(other.abstention.calibration, half)
    assert isinstance(other, ClassDecisions) and np.array_equal(other.conformal.calibration, half)
    assert other.summary()["test"]["nodes"] == (graph.role("test") & ~half).sum()
    assert "cross_fitted" not in other.summary()["test"]


def test_no_figure_is_of_a_node_that_was_calibrated_on() -> None:
    graph, found = decided("certified")
    seen: list[tuple[np.ndarray, np.ndarray]] = []

    class Watched:
        def __init__(self, calibration: np.ndarray) -> None:
            self.calibration = calibration

        def _realised(self, judged: np.ndarray) -> dict[str, Any]:
            seen.append((self.calibration, judged))
            return {"nodes": int(judged.sum()), "accepted": 10, "wrong": len(seen), "coverage": 0.5}

    watched = dataclasses.replace(found, again=Watched)  # type: ignore[arg-type]
    assert watched.summary()["test"] == {
        "nodes": 1400, "accepted": 20, "wrong": 3, "coverage": 0.5, "error": 0.15, "cross_fitted": True
    }  # fmt: skip
    assert len(seen) == 2 and not any((fitted & judged).any() for fitted, judged in seen)
    assert np.array_equal(seen[0][1] | seen[1][1], graph.role("test"))


def test_expected_decides_on_nodes_that_nobody_has_used() -> None:
    _, found = decided("expected", 0.05)
    assert found.selection is not None and found.selection.decided.sum() == 400
    accept = found.actions == "accept"
    assert accept.any() and not (accept & ~found.selection.decided).any()
    summary = json.loads(json.dumps(found.summary()))
    assert summary["guarantee"].startswith("On average") and summary["test"]["cross_fitted"]
    reasons = found.reasons()
    aside = (found.actions == "review") & (found.abstention.values <= found.abstention.threshold)
    assert aside.any() and all("not one of the nodes decided on" in reason for reason in reasons[aside])
    assert all("within" in reason for reason in reasons[accept])


def test_nothing_within_reach_is_said() -> None:
    _, found = decided("certified", 0.005)
    assert not (found.actions == "accept").any() and "every node is for review" in found.abstention.guarantee
    assert found.abstention.threshold is None and found.summary()["upper_bound"] is None


def test_without_a_name_it_is_the_rule_for_one_limit() -> None:
    graph, prediction = population()
    plain, named = (gs.decide(prediction, graph, max_error=0.1, ood_by="entropy", **how)  # type: ignore[arg-type]
                    for how in ({}, {"guarantee": "learn-then-test", "size": 500}))  # fmt: skip
    assert np.array_equal(plain.actions, named.actions) and plain.abstention.calibration.sum() == 500
    assert plain.frontier is None and "cross_fitted" not in plain.summary()["test"]
    with pytest.raises(BadUsage, match="no guarantee named"):
        gs.decide(prediction, graph, guarantee="sure")  # type: ignore[arg-type]


@pytest.mark.parametrize("guarantee", ["certified", "expected"])
def test_numbers_have_the_same_guarantees(guarantee: str) -> None:
    rng, nodes = np.random.default_rng(1), 1500
    spread, role = rng.uniform(0.5, 2.0, nodes), np.arange(nodes) % 4
    values = [None if role[node] == 3 else spread[node] * rng.normal() for node in range(nodes)]
    graph = from_arrays(
        np.ones((nodes, 1)), [[0], [1]], labels=values,
        target="regression", train_mask=role == 0, val_mask=role == 1, test_mask=role == 2,
    )  # fmt: skip
    prediction = gs.RegressionPrediction(np.zeros((1, nodes)), (spread**2)[None], graph.node_ids, "deterministic")
    found = gs.decide(prediction, graph, tolerance=2.0, max_error=0.2, guarantee=guarantee)  # type: ignore[arg-type]
    assert (found.actions == "accept").any()
    test = found.summary()["test"]
    assert test["cross_fitted"] and test["nodes"] == 375 and 0.83 < test["interval_coverage"] < 0.97
