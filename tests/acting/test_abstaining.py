"""Accept or review: exact bounds, the guarantee by simulation, what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import graphsde as gs
from graphsde.acting.abstain import AbstentionCurve, abstain
from graphsde.acting.decide import decide
from graphsde.acting.ood import OODFlag, flag_ood
from graphsde.base.errors import BadInput, BadUsage
from graphsde.bench.tasks import TASKS
from graphsde.datasets.splits.calibration import calibration_nodes
from graphsde.datasets.synthetic import synthetic
from graphsde.graph.build import from_arrays
from graphsde.graph.graph import Graph
from graphsde.prediction import ClassPrediction, Prediction
from graphsde.uncertainty.binomial import clopper_pearson_upper, nodes_to_certify
from graphsde.uncertainty.scores import score


def population(nodes: int, seed: int, risk: float = 0.3) -> tuple[Graph, Prediction]:
    """Two classes; a node of doubt u is wrong with probability ``risk · u``, whatever its edges."""
    rng = np.random.default_rng(seed)
    doubt = rng.random(nodes)
    wrong = rng.random(nodes) < risk * doubt
    probs = np.stack([1 - doubt / 2, doubt / 2], axis=1)  # the first class, always
    graph = from_arrays(
        np.ones((nodes, 1)),
        np.stack([np.arange(nodes), (np.arange(nodes) + 1) % nodes]),
        labels=wrong.astype(np.int64),
        class_names=["right", "wrong"],
        train_mask=np.arange(nodes) < 2,
        val_mask=(np.arange(nodes) >= 2) & (np.arange(nodes) < 200),
        name="population",
    )
    return graph, ClassPrediction(probs[None], graph.node_ids, graph.class_names, "deterministic")


def test_clopper_pearson_is_where_the_binomial_tail_is_delta() -> None:
    for wrong, nodes in ((0, 10), (1, 10), (3, 59), (40, 100), (9, 10)):
        bound = float(clopper_pearson_upper(wrong, nodes, 0.05))
        assert stats.binom.cdf(wrong, nodes, bound) == pytest.approx(0.05, abs=1e-9)
        exact = stats.binomtest(wrong, nodes).proportion_ci(0.90, method="exact").high
        assert bound == pytest.approx(exact, abs=1e-9)
    assert clopper_pearson_upper(np.array([0, 5]), np.array([0, 5]), 0.1).tolist() == [1.0, 1.0]


@pytest.mark.parametrize(("errors", "expected"), [(0, 59), (1, 93), (2, 124)])
def test_nodes_needed_are_the_fewest(errors: int, expected: int) -> None:
    assert nodes_to_certify(0.05, 0.05, errors) == expected
    assert clopper_pearson_upper(errors, expected, 0.05) <= 0.05 < clopper_pearson_upper(errors, expected - 1, 0.05)


def test_the_guarantee_holds_in_simulation() -> None:
    """The true risk of the chosen rule, known here, is above max_error in at most a share delta of the draws."""
    rng = np.random.default_rng(0)
    broken, accepted_something, draws = 0, 0, 300
    graph, prediction = population(3000, seed=1, risk=0.24)
    doubt = 2 * (1 - prediction.confidence)
    for _ in range(draws):
        calibration = rng.permutation(np.arange(200, 3000))[:300]
        found = abstain(prediction, graph, max_error=0.1, delta=0.1, calibration=calibration)
        if found.threshold is not None:
            accepted_something += 1
            risk = 0.24 * doubt[found.accepted].mean()
            broken += bool(risk > 0.1)
            assert found.upper_bound <= 0.1
    # 4 standard errors above delta
    assert broken / draws <= 0.1 + 4 * np.sqrt(0.1 * 0.9 / draws)
    assert accepted_something / draws > 0.8 and broken > 0


def test_the_guarantee_holds_after_flagging_with_the_same_nodes() -> None:
    rng = np.random.default_rng(3)
    graph, prediction = population(3000, seed=2, risk=0.24)
    doubt = 2 * (1 - prediction.confidence)
    broken = 0
    for _ in range(200):
        calibration = rng.permutation(np.arange(200, 3000))[:300]
        flag = flag_ood(prediction, graph, false_alarm=0.3, by="entropy", calibration=calibration)
        found = abstain(prediction, graph, max_error=0.1, delta=0.1, calibration=calibration, ood=flag)
        assert not (found.accepted & flag.flagged).any()
        broken += bool(found.accepted.any() and 0.24 * doubt[found.accepted].mean() > 0.1)
    assert broken / 200 <= 0.1 + 4 * np.sqrt(0.1 * 0.9 / 200)


def test_the_curve_is_a_count_of_calibration_nodes() -> None:
    graph, prediction = population(1000, seed=4)
    calibration = np.arange(200, 600)
    found = abstain(prediction, graph, max_error=0.2, calibration=calibration)
    curve = found.curve
    wrong = prediction.index != graph.labels
    for step in (0, 30, 60, len(curve.thresholds) - 1):
        inside = found.values[calibration] <= curve.thresholds[step]
        assert curve.accepted[step] == inside.sum()
        assert curve.errors[step] == wrong[calibration][inside].sum()
        assert curve.coverages[step] == pytest.approx((found.values[found.decided] <= curve.thresholds[step]).mean())
    assert np.all(np.diff(curve.thresholds) > 0) and curve.coverages[-1] == 1.0
    assert np.array_equal(found.accepted, found.values <= found.threshold)
    assert not curve.certified[: curve.start].any()
    last = int(np.flatnonzero(curve.certified)[-1])
    assert found.threshold == curve.thresholds[last] and found.upper_bound == curve.upper_bounds[last]
    assert last == len(curve.thresholds) - 1 or curve.upper_bounds[last + 1] > 0.2
    assert np.nanmax(np.abs(curve.calibration_errors - curve.errors / np.maximum(curve.accepted, 1))) == 0
    assert found.decided.sum() == 1000 - 200 - 400


def test_the_sequence_ends_at_the_first_failure() -> None:
    """Errors stand together in the middle: looser thresholds would pass again, and must not be reached."""
    graph, prediction = population(2000, seed=10)
    doubt = 2 * (1 - prediction.confidence)
    labels = ((doubt > 0.3) & (doubt < 0.42)).astype(np.int64)
    graph = graph.with_labels(labels)
    found = abstain(prediction, graph, max_error=0.18, calibration=np.arange(200, 1200))
    assert found.curve.upper_bounds[-1] <= 0.18 < found.curve.upper_bounds.max()
    assert 0.25 < doubt[found.accepted].max() < 0.42
    assert np.array_equal(np.diff(np.flatnonzero(found.curve.certified)), np.ones(found.curve.certified.sum() - 1))


def test_the_sequence_does_not_depend_on_labels_of_calibration_nodes() -> None:
    graph, prediction = population(1000, seed=5)
    calibration = np.arange(200, 600)
    other = population(1000, seed=6)[0]
    assert graph.labels is not None and other.labels is not None
    mixed = graph.labels.copy()
    mixed[calibration] = other.labels[calibration]
    changed = from_arrays(
        np.ones((1000, 1)), np.array([[0], [1]]), labels=mixed, class_names=["right", "wrong"],
        train_mask=graph.train_mask, val_mask=graph.val_mask,
    )  # fmt: skip
    one, two = (abstain(prediction, g, max_error=0.1, calibration=calibration).curve for g in (graph, changed))
    assert one.start == two.start and np.array_equal(one.thresholds, two.thresholds)
    assert not np.array_equal(one.errors, two.errors)


def test_too_few_calibration_nodes_are_refused_with_the_number_needed() -> None:
    graph, prediction = population(1000, seed=7)
    with pytest.raises(BadInput, match=r"58 calibration nodes are too few.*: 59 are needed") as caught:
        abstain(prediction, graph, calibration=np.arange(200, 258))
    assert caught.value.code == "E-CAL-SMALL"
    abstain(prediction, graph, calibration=np.arange(200, 259))
    with pytest.raises(BadUsage, match="val nodes"):
        abstain(prediction, graph, calibration=np.arange(150, 400))
    with pytest.raises(BadUsage, match="max_error"):
        abstain(prediction, graph, max_error=0.0)


def test_where_nothing_can_be_shown_nothing_is_accepted() -> None:
    graph, prediction = population(1000, seed=8, risk=1.0)
    found = abstain(prediction, graph, max_error=0.005, calibration=np.arange(200, 900))
    assert found.threshold is None and not found.accepted.any() and found.coverage == 0.0
    assert found.guaranteed_error is None and "every node needs review" in found.guarantee


def test_calibration_nodes_come_from_where_nothing_was_learned(blocks: Graph) -> None:
    own = calibration_nodes(blocks)
    assert own.origin == "mask" and np.array_equal(own.mask, blocks.calibration_mask)
    masks = {role: mask for role, mask in blocks.masks.items() if role != "calibration"}
    spare = calibration_nodes(blocks.with_masks(**masks), size=2)
    assert spare.origin == "spare" and spare.mask.sum() == 2
    assert not any((spare.mask & mask).any() for mask in masks.values())
    full = {**masks, "test": blocks.masks["test"] | blocks.masks["calibration"]}
    tested = calibration_nodes(blocks.with_masks(**full), size=500, seed=3)
    assert tested.origin == "test" and tested.mask.sum() == full["test"].sum() // 2
    assert np.array_equal(tested.mask, calibration_nodes(blocks.with_masks(**full), seed=3).mask)


def test_false_alarms_are_as_rare_as_stated() -> None:
    graph, prediction = population(3000, seed=9)
    rng = np.random.default_rng(0)
    rates = []
    for _ in range(100):
        chosen = rng.permutation(np.arange(200, 3000))
        flag = flag_ood(prediction, graph, by="entropy", calibration=chosen[:99], false_alarm=0.1)
        rates.append(flag.flagged[chosen[99:]].mean())
        assert flag.calibration_rate <= 0.1
    assert np.mean(rates) == pytest.approx(0.1, abs=4 * np.std(rates) / 10)


def test_decisions_are_one_action_each_with_a_reason() -> None:
    graph = gs.load("digits")
    model = gs.GCN(epochs=40, hidden=16).fit(graph)
    found = decide(model.predict(graph), graph, max_error=0.05, false_alarm=0.1)
    accept, ood = found.actions == "accept", found.actions == "ood"
    assert np.array_equal(accept, found.abstention.accepted) and np.array_equal(ood, found.ood.flagged)
    columns = found.columns()
    uncertainty = ["total", "aleatoric", "epistemic", "ood_score", "ood_p_value", "ood_group", "prediction_set"]
    assert list(columns) == ["id", "split", "label", "confidence", *uncertainty, "action", "reason"]
    assert all(len(column) == graph.num_nodes for column in columns.values())
    assert all("above" in reason for reason in columns["reason"][ood])
    assert all("within" in reason for reason in columns["reason"][accept])
    summary = found.summary()
    assert sum(summary["actions"].values()) == graph.num_nodes
    assert graph.test_mask is not None and graph.labels is not None
    assert summary["test"]["cross_fitted"] and summary["test"]["nodes"] == graph.test_mask.sum()
    assert summary["test"]["error"] == summary["test"]["wrong"] / summary["test"]["accepted"] <= 0.05


@pytest.mark.parametrize(("name", "metric"), [("decide", "kept"), ("conformal", "coverage[daps]")])
def test_the_guarantees_can_be_measured_for_many_models(name: str, metric: str) -> None:
    task = TASKS.get(name)(split="given", calibrator="temperature")
    whole = gs.load("digits")
    found = task.measure(gs.LabelPropagation, task.prepare(whole, 0), 0).metrics
    assert 0.85 < found[metric] <= 1.0 and found["accuracy"] > 0.9
    assert set(task.headline) <= set(found)


def test_thresholds_never_come_from_the_nodes_they_are_tested_on() -> None:
    graph = synthetic(600, classes=3)
    role = np.arange(600) % 3
    graph = graph.with_masks(split=None, train=role == 0, val=role == 1, calibration=role == 2)
    prediction = gs.LabelPropagation().fit(graph).predict(graph)
    found = gs.abstain(prediction, graph, max_error=0.3)
    outside = score("margin", prediction)[role != 2]
    last = found.curve.thresholds[-1]  # accepts every node
    assert set(found.curve.thresholds[:-1]) <= set(outside) and np.array_equal(found.decided, role != 2)
    assert last == score("margin", prediction).max()
    everyone = graph.with_masks(split=None, calibration=np.ones(600, dtype=bool))
    made_elsewhere = prediction.known_to_be_of(everyone)  # otherwise the nodes of the fit are refused first
    with pytest.raises(BadUsage, match="all nodes are calibration nodes"):
        gs.abstain(made_elsewhere, everyone, max_error=0.3)


def flagged_at(calibration: int, *, tied: int = 1, wrong: tuple[int, ...] = ()) -> tuple[Graph, Prediction, OODFlag]:
    """Calibration nodes 2, 3, … whose OOD score is their number; the threshold is that of the last one, which as many
    as ``tied`` share. All answers are right but those of ``wrong``."""
    nodes = calibration + 12
    labels = np.isin(np.arange(nodes), wrong).astype(np.int64)
    graph = from_arrays(
        np.ones((nodes, 1)),
        np.stack([np.arange(nodes), (np.arange(nodes) + 1) % nodes]),
        labels=labels,
        class_names=["right", "wrong"],
        train_mask=np.arange(nodes) < 2,
    )
    probs = np.tile([0.9, 0.1], (nodes, 1))[None]
    prediction = ClassPrediction(probs, graph.node_ids, graph.class_names, "deterministic")
    last = calibration + 1
    values = np.minimum(np.arange(nodes, dtype=np.float64), last)
    values[last - tied + 1 : last + 1] = last
    flag = OODFlag(
        "given", values, float(last), 0.05, values > last, 0.0, np.isin(np.arange(nodes), np.arange(2, last))
    )
    return graph, prediction, flag


def test_the_node_at_the_ood_threshold_is_set_aside() -> None:
    """59 nodes without an error are what 5 % takes at 95 %. The threshold was read from one of the calibration nodes,
    which then tells nothing new: of 60 there are 59 left, just enough, and of 59 only 58."""
    graph, prediction, flag = flagged_at(60)
    calibration = np.arange(2, 62)
    found = abstain(prediction, graph, by=np.zeros(72), ood=flag, calibration=calibration)
    assert found.curve.accepted.tolist() == [59] and found.curve.errors.tolist() == [0]
    assert found.upper_bound == pytest.approx(1 - 0.05 ** (1 / 59), rel=1e-12)
    assert found.accepted[61] and found.calibration.sum() == 60
    graph, prediction, flag = flagged_at(59)
    with pytest.raises(BadInput, match="E-CAL-SMALL") as caught:
        abstain(prediction, graph, by=np.zeros(71), ood=flag, calibration=np.arange(2, 61))
    assert "58" in str(caught.value) and "59" in str(caught.value)
    # without a flag nothing was read from any of them
    assert abstain(prediction, graph, by=np.zeros(71), calibration=np.arange(2, 61)).curve.accepted.tolist() == [59]


def test_of_several_at_the_threshold_one_that_is_right_is_set_aside() -> None:
    """Three of 100 share the threshold, one of them wrong: 99 are judged and the error stays among them."""
    graph, prediction, flag = flagged_at(100, tied=3, wrong=(99,))
    found = abstain(prediction, graph, by=np.zeros(112), ood=flag, calibration=np.arange(2, 102))
    assert found.curve.accepted.tolist() == [99] and found.curve.errors.tolist() == [1]
    # where all of them are wrong, one of those goes
    graph, prediction, flag = flagged_at(200, tied=2, wrong=(200, 201))
    found = abstain(prediction, graph, by=np.zeros(212), ood=flag, calibration=np.arange(2, 202))
    assert found.curve.accepted.tolist() == [199] and found.curve.errors.tolist() == [1]


def test_thresholds_by_hand() -> None:
    """Of 300 nodes to decide on, with doubts 400 to 699, every third is a threshold: 402, 405, … (or the next, where
    .07 · 300 is a little more than 21). The last one accepts every node, a calibration node of doubt 5000 too."""
    graph, prediction = population(700, seed=1, risk=0.01)
    doubt = np.arange(700.0)
    doubt[250] = 5000.0
    found = abstain(prediction, graph, by=doubt, calibration=np.arange(200, 400))
    third = np.arange(402, 699, 3)
    assert len(found.curve.thresholds) == 100 and found.curve.thresholds[-1] == 5000
    assert set(found.curve.thresholds[:-1] - third) <= {0.0, 1.0}
    assert found.curve.accepted.tolist() == [199] * 99 + [200]
    assert found.curve.coverages[:-1] == pytest.approx((found.curve.thresholds[:-1] - 399) / 300, abs=1e-12)


def test_a_bound_that_is_exactly_the_limit_is_kept() -> None:
    """60 nodes without an error show 1 − .05^(1/60) and no less: asked for just that, all are accepted."""
    graph, prediction, _ = flagged_at(60)
    limit = float(clopper_pearson_upper(0, 60, 0.05))
    assert limit == pytest.approx(1 - 0.05 ** (1 / 60), rel=1e-12)
    found = abstain(prediction, graph, max_error=limit, by=np.zeros(72), calibration=np.arange(2, 62))
    assert found.upper_bound == limit and found.accepted.all()


def test_where_a_threshold_accepts_nobody_there_is_no_error_rate() -> None:
    accepted, errors = np.array([0, 4]), np.array([0, 1])
    curve = AbstentionCurve(np.arange(2.0), accepted / 4, accepted, errors, np.ones(2), np.zeros(2, dtype=bool), 0)
    with np.errstate(all="raise"):
        rates = curve.calibration_errors
    assert np.isnan(rates[0]) and rates[1] == 0.25
