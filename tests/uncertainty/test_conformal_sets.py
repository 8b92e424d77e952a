"""Conformal sets: the quantile, the scores by hand, and coverage within its theoretical interval."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphsde as gs
from graphsde.base.errors import BadInput, BadUsage
from graphsde.graph.build import from_arrays
from graphsde.graph.graph import Graph
from graphsde.prediction import ClassPrediction, Prediction
from graphsde.uncertainty.conformal import CONFORMAL_SCORES, Case, conformalize, summarise_sets
from graphsde.uncertainty.conformal.intervals import conformal_quantile, nodes_for_level

from support import needs_real_data

SCORES = ("thr", "aps", "raps", "daps")


def guesses(nodes: int, classes: int, seed: int, sharpness: float = 2.0) -> tuple[Graph, Prediction]:
    """Nodes whose classes are drawn from the very probabilities that the prediction gives them, on a ring."""
    rng = np.random.default_rng(seed)
    logits = sharpness * rng.normal(size=(nodes, classes))
    probs = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    labels = (probs.cumsum(axis=1) < rng.random(nodes)[:, None]).sum(axis=1)
    graph = from_arrays(
        np.ones((nodes, 1)),
        np.stack([np.arange(nodes), (np.arange(nodes) + 1) % nodes]),
        labels=labels,
        class_names=[f"class {c}" for c in range(classes)],
        train_mask=np.arange(nodes) == 0,
        name="ring",
    )
    return graph, ClassPrediction(probs[None], graph.node_ids, graph.class_names, "deterministic")


def path_case() -> Case:
    """Three nodes in a row, two classes, no chance."""
    graph = from_arrays(np.ones((3, 1)), np.array([[0, 1], [1, 2]]), labels=np.array([0, 0, 1]), class_names=["a", "b"])
    return Case(np.array([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8]]), np.zeros(3), graph)


@given(st.lists(st.floats(-5, 5, allow_nan=False), min_size=1, max_size=60), st.floats(0.02, 0.98))
@settings(max_examples=60, deadline=None)
def test_the_quantile_is_the_smallest_score_with_enough_others_at_or_below_it(
    scores: list[float], level: float
) -> None:
    values = np.array(scores)
    needed = (len(values) + 1) * level - 1e-9
    enough = [value for value in np.sort(values) if np.sum(values <= value) >= needed]
    if enough:
        assert conformal_quantile(values, level) == enough[0]
    else:
        assert len(values) < nodes_for_level(level)
        with pytest.raises(BadInput, match=f"{nodes_for_level(level)} are needed") as caught:
            conformal_quantile(values, level)
        assert caught.value.code == "E-CAL-SMALL"


def test_the_quantile_agrees_with_numpy() -> None:
    scores = np.random.default_rng(0).random(137)
    # the 125th of 137; half a place less keeps rounding from choosing the next one
    expected = np.quantile(scores, (np.ceil(138 * 0.9) - 0.5) / 137, method="inverted_cdf")
    assert conformal_quantile(scores, 0.9) == expected


def test_scores_by_hand() -> None:
    case = path_case()
    by = {name: CONFORMAL_SCORES.get(name)(case) for name in ("thr", "aps")}
    assert np.allclose(by["thr"], [[0.1, 0.9], [0.4, 0.6], [0.8, 0.2]])
    assert np.allclose(by["aps"], [[0.9, 1.0], [0.6, 1.0], [1.0, 0.8]])
    half = dataclasses.replace(case, uniform=np.full(3, 0.5))
    assert np.allclose(CONFORMAL_SCORES.get("aps")(half), [[0.45, 0.95], [0.3, 0.8], [0.9, 0.4]])
    penalised = CONFORMAL_SCORES.get("raps")(case, penalty=0.1, free=1)
    assert np.allclose(penalised, [[0.9, 1.1], [0.6, 1.1], [1.1, 0.8]])


def test_daps_on_a_path_by_hand() -> None:
    diffused = CONFORMAL_SCORES.get("daps")(path_case(), share=0.5)
    # the ends hear the middle; the middle hears the mean of the ends
    assert np.allclose(diffused[:, 0], [0.5 * 0.9 + 0.5 * 0.6, 0.5 * 0.6 + 0.5 * 0.95, 0.5 * 1.0 + 0.5 * 0.6])
    assert np.allclose(diffused[:, 1], [1.0, 0.5 * 1.0 + 0.5 * 0.9, 0.5 * 0.8 + 0.5 * 1.0])
    assert np.allclose(CONFORMAL_SCORES.get("daps")(path_case(), share=0.0), CONFORMAL_SCORES.get("aps")(path_case()))


@pytest.mark.parametrize("by", SCORES)
def test_coverage_is_within_its_theoretical_interval(by: str) -> None:
    n, level, draws = 99, 0.9, 150
    graph, prediction = guesses(700, 4, seed=1)
    assert graph.labels is not None
    rng = np.random.default_rng(2)
    covered = []
    for draw in range(draws):
        chosen = rng.permutation(np.arange(1, 700))
        conformal = conformalize(prediction, graph, confidence_level=level, by=by, seed=draw, calibration=chosen[:n])
        sets = conformal.predict_set(prediction)[chosen[n:]]
        covered.append(summarise_sets(sets, graph.labels[chosen[n:]])["coverage"])
    mean, error = np.mean(covered), np.std(covered) / np.sqrt(draws)
    assert level - 4 * error <= mean <= level + 1 / (n + 1) + 4 * error


def test_without_chance_aps_covers_too_much() -> None:
    """What the uniform is for: the plain sum is above the level for every node that is sure."""
    graph, prediction = guesses(4000, 4, seed=3)
    assert graph.labels is not None
    case = Case(prediction.mean, np.zeros(4000), graph)
    own = CONFORMAL_SCORES.get("aps")(case)[np.arange(4000), graph.labels]
    assert np.mean(own <= 0.9) < 0.89
    fair = dataclasses.replace(case, uniform=np.random.default_rng(4).random(4000))
    own = CONFORMAL_SCORES.get("aps")(fair)[np.arange(4000), graph.labels]
    assert abs(np.mean(own <= 0.9) - 0.9) < 0.02


def test_every_class_is_covered_when_asked_for() -> None:
    graph, prediction = guesses(6000, 3, seed=5)
    assert graph.labels is not None
    # a model that hardly believes in one class covers it badly, unless it has a quantile of its own
    skewed = prediction.probs * np.array([1.0, 1.0, 0.2])
    prediction = dataclasses.replace(prediction, probs=skewed / skewed.sum(axis=-1, keepdims=True))
    calibration, rest = np.arange(1, 2000), np.arange(2000, 6000)
    worst = {}
    for per_class in (False, True):
        sets = conformalize(prediction, graph, calibration=calibration, class_conditional=per_class).predict_set(
            prediction
        )
        worst[per_class] = summarise_sets(sets[rest], graph.labels[rest])["worst_class_coverage"]
    assert worst[False] < 0.87 < worst[True]


def test_too_few_nodes_are_refused_with_the_number_needed() -> None:
    graph, prediction = guesses(100, 3, seed=0)
    with pytest.raises(BadInput, match=r"8 calibration nodes are too few.*: 9 are needed") as caught:
        conformalize(prediction, graph, calibration=np.arange(1, 9))
    assert caught.value.code == "E-CAL-SMALL"
    conformalize(prediction, graph, calibration=np.arange(1, 10))
    with pytest.raises(BadInput, match="of class 'class"):
        conformalize(prediction, graph, calibration=np.arange(1, 13), class_conditional=True)


def test_sets_follow_the_ids_and_empty_ones_can_be_filled() -> None:
    graph, prediction = guesses(60, 3, seed=7)
    conformal = conformalize(prediction, graph, calibration=np.arange(1, 31), by="aps")
    sets = conformal.predict_set(prediction)
    order = np.random.default_rng(0).permutation(60)
    turned = conformal.predict_set(prediction.subset(order), graph.subgraph(order))
    assert np.array_equal(turned, sets[order])
    filled = conformal.predict_set(prediction, never_empty=True)
    empty = ~sets.any(axis=1)
    assert empty.any() and filled.any(axis=1).all()
    assert np.array_equal(filled[~empty], sets[~empty]) and filled[empty, prediction.index[empty]].all()


def test_nodes_that_trained_the_model_can_not_calibrate(blocks: Graph) -> None:
    prediction = gs.LabelPropagation().fit(blocks).predict(blocks)
    with pytest.raises(BadUsage, match="train nodes") as caught:
        conformalize(prediction, blocks, calibration=np.arange(20))
    assert caught.value.code == "E-CAL-USED"
    with pytest.raises(BadInput, match="too few"):
        conformalize(prediction, blocks)  # its own three calibration nodes


@pytest.mark.parametrize("wrong", [0.0, 1.0, 1.5, True, float("nan")])
def test_levels_outside_of_0_and_1_are_refused(wrong: float) -> None:
    graph, prediction = guesses(60, 3, seed=7)
    with pytest.raises(BadUsage, match="confidence_level"):
        conformalize(prediction, graph, confidence_level=wrong)
    with pytest.raises(BadUsage, match="no option"):
        conformalize(prediction, graph, by="thr", share=0.5)


@pytest.mark.slow
@needs_real_data
def test_coverage_over_100_independently_trained_splits() -> None:
    whole = gs.load("cora")
    covered: dict[str, list[float]] = {by: [] for by in SCORES}
    for seed in range(100):
        graph = gs.make_split(whole, "shchur", seed=seed).apply(whole)
        prediction = gs.GCN(seed=seed, epochs=60).fit(graph).predict(graph)
        assert graph.labels is not None and graph.test_mask is not None
        for by in SCORES:
            conformal = conformalize(prediction, graph, by=by, seed=seed)
            assert conformal.calibration.sum() == 500
            test = graph.test_mask & ~conformal.calibration
            sets = conformal.predict_set(prediction)[test]
            covered[by].append(summarise_sets(sets, graph.labels[test])["coverage"])
    for by, values in covered.items():
        assert 0.894 <= np.mean(values) <= 0.908, f"{by}: {np.mean(values):.4f}"


def ladder(chances: list[float]) -> tuple[Graph, Prediction]:
    """Nodes of the class ``a``, to which the prediction gives these chances; the first trains."""
    first = np.array(chances)
    graph = from_arrays(
        np.ones((len(first), 1)),
        np.stack([np.arange(len(first)), (np.arange(len(first)) + 1) % len(first)]),
        labels=np.zeros(len(first), dtype=np.int64),
        class_names=["a", "b"],
        train_mask=np.arange(len(first)) == 0,
    )
    probs = np.stack([first, 1 - first], axis=1)[None]
    return graph, ClassPrediction(probs, graph.node_ids, graph.class_names, "deterministic")


def test_a_class_exactly_at_the_quantile_is_in_the_set() -> None:
    """Nine calibration nodes with the scores 1 − p = ⅛ … ⅝ (in sixteenths 2 … 10): at 90 % the quantile is the ninth,
    ⅝, and the node that it comes from has its class in the set; the tenth, with 11/16, has not."""
    sixteenths = np.array([8, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11])
    graph, prediction = ladder(list(1 - sixteenths / 16))
    found = conformalize(prediction, graph, confidence_level=0.9, by="thr", calibration=np.arange(1, 10))
    assert found.quantiles.tolist() == [0.625, 0.625]
    sets = found.predict_set(prediction)
    assert sets[9].tolist() == [True, True]  # ⅝ and ⅜, both at most ⅝
    assert sets[10].tolist() == [False, True] and sets[1].tolist() == [True, False]


def test_sizes_of_sets_by_hand() -> None:
    """Of four sets one is empty, two have one class and one has two; the truth is in the last three."""
    sets = np.array([[False, False], [True, False], [False, True], [True, True]])
    found = summarise_sets(sets, np.array([0, 0, 1, 1]))
    assert (found["coverage"], found["mean_size"], found["singletons"], found["empty"]) == (0.75, 1.0, 0.5, 0.25)
    assert np.isnan(found["worst_size_coverage"]) and found["n"] == 4


@pytest.mark.parametrize("wrong", [[5, 11], [-1, 5], [5.0, 6.0]])
def test_calibration_nodes_that_are_no_nodes_are_refused(wrong: list[float]) -> None:
    graph, prediction = ladder([0.5] * 11)
    with pytest.raises(BadInput, match="E-LEN") as caught:
        conformalize(prediction, graph, confidence_level=0.5, by="thr", calibration=np.array(wrong))
    assert "0 to 10" in str(caught.value)
    conformalize(prediction, graph, confidence_level=0.5, by="thr", calibration=np.array([5, 10]))
