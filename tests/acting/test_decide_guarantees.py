"""`decide` under each guarantee: who is accepted, what is said, figures that no calibration node has a part in."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import numpy as np
import pytest

import graphsde as gs
from graphsde.acting.decision_words import describe
from graphsde.acting.decisions import ClassDecisions
from graphsde.acting.ladder import LADDER
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
    options: dict[str, Any] = {"guarantee": guarantee, "ood_by": "entropy", "ladder": LADDER}
    found = gs.decide(prediction, graph, max_error=max_error, **options)
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
            self.calibration, self.sets = calibration, found.sets

        def _realised(self, judged: np.ndarray) -> dict[str, Any]:
            seen.append((self.calibration, judged))
            return {"nodes": int(judged.sum()), "accepted": 10, "wrong": len(seen), "coverage": 0.5}

    watched = dataclasses.replace(found, again=Watched, conformal=None)  # type: ignore[arg-type]
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
    assert not (found.actions == "accept").any() and "every node needs review" in found.abstention.guarantee
    assert found.abstention.threshold is None and found.summary()["upper_bound"] is None


def test_certified_is_the_default() -> None:
    graph, prediction = population()
    plain, named = (gs.decide(prediction, graph, max_error=0.1, ood_by="entropy", **how)  # type: ignore[arg-type]
                    for how in ({}, {"guarantee": "certified"}))  # fmt: skip
    assert np.array_equal(plain.actions, named.actions) and plain.abstention.stated == plain.frontier.guarantee
    for wrong in ("sure", "learn-then-test"):
        with pytest.raises(BadUsage, match="unknown guarantee"):
            gs.decide(prediction, graph, guarantee=wrong)  # type: ignore[arg-type]
    for option in ({"ood_rule": "all"}, {"sets": "node"}, {"max_error": 1.5}, {"false_alarm": 0.0}):
        with pytest.raises(BadUsage):
            gs.decide(prediction, graph, ood_by="entropy", **option)  # type: ignore[arg-type]


def test_calibration_nodes_of_the_split_are_used_where_there_are_any() -> None:
    graph, prediction = population()
    role = np.arange(graph.num_nodes)
    masks = dict(graph.masks) | {"test": (role >= 1600) & (role < 2000), "calibration": (role >= 600) & (role < 1600)}
    split = graph.with_masks(split=None, **masks)
    found = gs.decide(prediction, split, max_error=0.12, ood_by="entropy")
    assert np.array_equal(found.abstention.calibration, split.role("calibration"))
    test = found.summary()["test"]
    assert test["nodes"] == 400 and "cross_fitted" not in test


def test_accepted_and_wrong_bounds_the_share_of_all_nodes() -> None:
    _, found = decided("accepted-and-wrong", 0.05)
    assert found.selection is not None
    wrong, nodes = found.selection.wrong_calibration, found.selection.calibration.sum()
    assert (1 + wrong) / (nodes + 1) <= 0.05 and found.summary()["stated"]["name"] == "accepted-and-wrong"
    assert found.summary()["test"]["cross_fitted"] and found.frontier.certified


def few(labels: int, seed: int = 0) -> tuple[Graph, ClassPrediction]:
    """So many labels, 60/15/25, of 2,400 nodes."""
    graph, prediction = population(seed)
    role, parts = np.arange(graph.num_nodes), np.floor(labels * np.array([0.6, 0.75, 1.0])).astype(int)
    known = np.where(role < labels, graph.labels, -1)
    masks = {"train": role < parts[0], "val": (role >= parts[0]) & (role < parts[1]),
             "test": (role >= parts[1]) & (role < parts[2])}  # fmt: skip
    return graph.with_labels(known, graph.class_names).with_masks(split=None, **masks), prediction


@pytest.mark.parametrize("guarantee", ["certified", "expected", "accepted-and-wrong"])
@pytest.mark.parametrize("labels", [3, 8, 30, 120])
def test_few_labels_are_no_error(labels: int, guarantee: str) -> None:
    graph, prediction = few(labels)
    found = gs.decide(prediction, graph, max_error=0.02, guarantee=guarantee, ood_by="entropy")  # type: ignore[arg-type]
    summary = json.loads(json.dumps(found.summary(), allow_nan=False))
    assert not (found.actions == "accept").any() and len(found.review()) >= 2400 - labels - 1
    way = summary["way_out"]
    assert way["outlook"] and all(limit > 0.02 for limit in way["certified"])
    assert summary["notes"] or labels > 100  # what could not be done is said
    from graphsde.acting.decision_words import describe

    words = describe(found)
    assert not words.anything and words.accepted[0].startswith("Nothing can be accepted at a limit of 2%")


def test_without_calibration_or_validation_labels_there_is_a_plan() -> None:
    graph, prediction = few(120)
    for role in ("test", "val"):
        less = graph.with_masks(split=None, **{name: mask for name, mask in graph.masks.items() if name != role})
        if role == "test":
            less = less.with_labels(np.where(graph.role("test"), -1, graph.labels), graph.class_names)
        found = gs.decide(prediction, less, max_error=0.05, ood_by="entropy")
        assert not (found.actions == "accept").any()
        assert found.summary()["way_out"]["outlook"] and found.frontier.rungs[0].status != "not tested"
    assert few(120)[0].role("test").any()


def test_the_list_fdr_stands_beside_and_takes_nothing_out() -> None:
    graph, prediction = population()
    flag, group = (gs.decide(prediction, graph, max_error=0.12, ood_by="entropy", ood_rule=rule)  # type: ignore[arg-type]
                   for rule in ("per-node", "fdr"))  # fmt: skip
    assert isinstance(flag, ClassDecisions) and isinstance(group, ClassDecisions)
    assert np.array_equal(flag.actions == "accept", group.actions == "accept")
    assert np.array_equal(flag.actions == "ood", flag.ood.flagged)
    assert np.array_equal(group.actions == "ood", group.group.flagged & ~group.abstention.accepted)
    assert np.array_equal(flag.ood.calibration, graph.role("val"))
    told = json.loads(json.dumps(flag.summary()))["ood"]
    assert told["fdr"]["smallest"] == 3 and told["rule"] == "per-node" and told["flagged"] == flag.ood.flagged.sum()


@pytest.mark.parametrize("kind", ["marginal", "class", "degree"])
def test_sets_of_each_kind_and_who_they_cover(kind: str) -> None:
    graph, prediction = population()
    found = gs.decide(prediction, graph, ood_by="entropy", sets=kind)  # type: ignore[arg-type]
    told = found.summary()["sets"]
    assert told["kind"] == kind
    rows = told["coverage"]
    assert rows[0]["nodes"] == 1400 and {row["kind"] for row in rows} == {"all", "class", "degree"}
    if kind == "class":
        assert min(row["coverage"] for row in rows if row["kind"] == "class") > 0.82
    # cross-fitted: a node is judged by sets that it has no part in
    assert isinstance(found, ClassDecisions) and found.again is not None
    assert found.coverage() == rows


def test_testing_again_with_labels_that_came_later() -> None:
    graph, prediction = population()
    assert graph.labels is not None
    rng = np.random.default_rng(3)
    later = rng.permutation(np.arange(2000, 2400))[:300]
    doubt = 2 * prediction.mean[:, 1]
    truth = graph.labels.copy()
    truth[later] = rng.random(300) < 0.2 * doubt[later]
    grown = graph.with_labels(truth, graph.class_names)
    first = gs.decide(prediction, graph, max_error=0.12, ood_by="entropy", anytime=True)
    again = gs.decide(prediction, grown, max_error=0.12, ood_by="entropy", further=later)
    assert [one.threshold for one in first.frontier.rungs] == [one.threshold for one in again.frontier.rungs]
    assert (
        again.abstention.calibration.sum() == 1700 and "300 nodes labelled since" in again.abstention.calibration_source
    )
    assert {one.limit for one in first.frontier.certified} <= {one.limit for one in again.frontier.certified}
    assert "however often" in again.frontier.guarantee.meaning
    assert not np.isin(again.review().nodes, later).any()
    with pytest.raises(BadUsage, match="have a role"):
        gs.decide(prediction, grown, ood_by="entropy", further=np.array([700]))


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


def test_decisions_print_what_holds() -> None:
    graph, prediction = population()
    found = gs.decide(prediction, graph, max_error=0.2)
    text, words = str(found), describe(found)
    assert text.splitlines()[1].split()[:3] == ["limit", "status", "accepted"]
    assert all(row["limit"] in text and row["status"] in text for row in words.frontier)
    assert words.guarantee in text and words.rests_on in text
    counts = ", ".join(f"{one} {int((found.actions == one).sum()):,}" for one in found.choices)
    assert repr(found) == f"ClassDecisions({graph.num_nodes:,} nodes: {counts}; limit 0.2)"
    held = ", ".join(f"{one.limit:g}" for one in found.frontier.certified)
    assert repr(found.frontier).startswith(f"Frontier(certified: {held}; delta 0.05, ")


@pytest.mark.parametrize("options", [{}, {"ood_rule": "fdr"}])
def test_another_limit_of_the_same_decisions_is_what_deciding_anew_gives(options: dict[str, Any]) -> None:
    graph, prediction = population()
    options |= {"ladder": LADDER}  # by default the limit asked for is one of the tested
    first = gs.decide(prediction, graph, max_error=0.12, ood_by="entropy", **options)
    for limit in (0.3, 0.075, 0.004):
        anew, again = gs.decide(prediction, graph, max_error=limit, ood_by="entropy", **options), first.at(limit)
        assert np.array_equal(again.actions, anew.actions) and again.max_error == limit
        assert json.dumps(again.summary()) == json.dumps(anew.summary()) and str(again) == str(anew)
    assert not np.array_equal(first.at(0.3).actions, first.at(0.004).actions)
    assert np.array_equal(first.actions, first.at(0.3).at(0.12).actions)


def test_a_guarantee_for_one_limit_has_no_other() -> None:
    _, found = decided("expected")
    with pytest.raises(BadUsage, match="chosen beforehand"):
        found.at(0.05)
