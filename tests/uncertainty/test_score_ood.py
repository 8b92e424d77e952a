"""The score ``ood``: its formula, its references, the surrogates that weigh it, and where it is the default."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import graphsde as gs
from graphsde.acting.ood import flag_ood
from graphsde.acting.shifted import detect_shift
from graphsde.base.errors import BadUsage
from graphsde.datasets.shifts import SHIFTS
from graphsde.datasets.splits import make_split
from graphsde.graph.build import from_arrays
from graphsde.graph.graph import Graph
from graphsde.nn.encoding import FeatureEncoder
from graphsde.prediction import ClassPrediction
from graphsde.testing.scores import check_score
from graphsde.uncertainty.evidence import Evidence
from graphsde.uncertainty.mismatch import feature_mismatch
from graphsde.uncertainty.scores import SCORES, available_scores, propagate, score
from graphsde.uncertainty.scores.ood import ALLOWANCES, TOLERANCE, Choice, _choose, choices
from graphsde.uncertainty.scores.registry import default_score
from graphsde.uncertainty.surrogates import mix_features, surrogates_of

from support import block_graph, needs_real_data


def prediction_of(graph: Graph, seed: int = 0, samples: int = 3) -> ClassPrediction:
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(samples, graph.num_nodes, 3)) + 2 * np.eye(3)[graph.labels]
    probs = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    return ClassPrediction(probs, graph.node_ids, graph.class_names, "samples", logits=logits)


def surprise(values: np.ndarray, graph: Graph) -> np.ndarray:
    spread = propagate(values, graph)
    held_out = spread[graph.val_mask]
    return np.array([-np.log((1 + sum(held_out >= x)) / (len(held_out) + 1)) for x in spread])


def neighbours_apart(graph: Graph) -> np.ndarray:
    x = (graph.features - graph.features.mean(0)) / graph.features.std(0)
    found = np.zeros(graph.num_nodes)
    for i in range(graph.num_nodes):
        if len(around := graph.adjacency.neighbours(i)):
            mean = x[around].mean(0)
            found[i] = 1 - x[i] @ mean / np.linalg.norm(x[i]) / np.linalg.norm(mean)
    return found


@pytest.mark.parametrize("allowance", [np.inf, 0.5, 0.0])
def test_against_the_formula(allowance: float) -> None:
    graph = block_graph()
    prediction = prediction_of(graph)
    energy = -np.log(np.exp(prediction.logits.mean(0)).sum(-1))
    parts = surprise(energy, graph) + surprise(Evidence.fit(graph).values, graph)
    expected = propagate(parts + np.maximum(surprise(neighbours_apart(graph), graph) - allowance, 0), graph)
    np.testing.assert_allclose(score("ood", prediction, graph, allowance=allowance), expected, atol=1e-9)
    if allowance == np.inf:
        two = score("ood", prediction, graph, parts=("energy", "evidence"))
        np.testing.assert_allclose(two, expected, atol=1e-9)
        np.testing.assert_allclose(
            score("ood", prediction, graph, parts=["energy"]), propagate(surprise(energy, graph), graph), atol=1e-9
        )


def test_mismatch_of_features_by_hand_and_where_there_is_nothing_to_compare() -> None:
    graph = block_graph()
    encoder = FeatureEncoder.fit(graph)
    np.testing.assert_allclose(feature_mismatch(graph, encoder), neighbours_apart(graph), atol=1e-5)
    import scipy.sparse as sp

    words = from_arrays(
        sp.csr_array(np.array([[4.0, 0, 0], [1, 1, 0], [0, 0, 0], [0, 3, 3]])), np.array([[0, 1], [1, 2]])
    )
    # node 3 has no neighbours and node 2 no words: nothing is said of either
    found = feature_mismatch(words, FeatureEncoder.fit(words, "row"))
    np.testing.assert_allclose(found, [1 - np.sqrt(0.5), 1 - np.sqrt(0.5), 0, 0], atol=1e-6)


def test_keeps_the_contract_of_scores() -> None:
    assert check_score("ood") and check_score("ood", alone=True) and list(SCORES)[-1] == "ood"


def test_a_copy_with_nothing_shifted_and_one_with_everything() -> None:
    graph = block_graph(per_class=30)
    model = gs.GCN(epochs=40, hidden=8).fit(graph)
    clean = model.predict(graph)
    own = score("ood", clean, graph)
    copy = dataclasses.replace(graph)
    assert np.array_equal(score("ood", model.predict(copy), copy, reference=(clean, graph)), own)
    # references are of the clean graph: its own validation nodes, shifted as all others, would hide the shift
    shifted = SHIFTS.get("interpolate-features")(graph, seed=0)
    moved = model.predict(shifted)
    referred = score("ood", moved, shifted, reference=(clean, graph))
    assert referred.mean() > own.mean() + 0.5 and referred.mean() > score("ood", moved, shifted).mean()
    found = detect_shift(model, graph, "interpolate-features", ["ood"])["scores"]["ood"]
    assert found["ood_auroc"] == found["ood_auroc_propagated"] > 0.7
    # a graph that nobody labelled is fine, if there is one to refer to
    bare = dataclasses.replace(shifted.without_target(), masks={})
    np.testing.assert_allclose(score("ood", moved, bare, reference=(clean, graph)), referred, rtol=1e-12)


def test_calibration_and_test_nodes_are_treated_alike() -> None:
    graph = block_graph(per_class=40)
    prediction = prediction_of(graph)
    roles = dict(graph.masks)
    roles["calibration"], roles["test"] = roles["test"], roles["calibration"]
    swapped = graph.with_masks(**roles)
    assert np.array_equal(score("ood", prediction, graph), score("ood", prediction, swapped))
    none = {name: roles[name] for name in ("train", "val")}
    assert np.array_equal(score("ood", prediction, graph), score("ood", prediction, graph.with_masks(**none)))


def test_labels_of_others_and_roles_of_ood_nodes_are_not_read() -> None:
    graph = block_graph()
    prediction = prediction_of(graph)
    own = score("ood", prediction, graph)
    labels = np.where(graph.train_mask, graph.labels, (graph.labels + 1) % 3)
    marked = graph.with_masks(**graph.masks, ood=graph.test_mask & (np.arange(30) % 2 == 0)).with_labels(labels)
    assert np.array_equal(score("ood", prediction, marked), own)


def test_mixed_copies_are_made_of_training_and_validation_nodes() -> None:
    graph = block_graph()
    val = np.flatnonzero(graph.val_mask)
    mixed = mix_features(graph, val)
    known = graph.train_mask | graph.val_mask
    assert np.isclose(mixed.features, graph.features).all(1).mean() < 0.2  # a node may be mixed with itself alone
    hull = np.linalg.lstsq(graph.features[known].T, mixed.features[val].T, rcond=None)[1]
    assert hull.size == 0 or hull.max() < 1e-6
    strange = graph.features.copy()
    strange[~known] = 1e3
    assert np.array_equal(mix_features(graph.with_features(strange), val).features, mixed.features)
    assert np.array_equal(mix_features(graph, val).features, mixed.features)


def test_surrogates_of_unknown_classes_look_less_familiar_and_mixed_ones_fit_their_neighbours_less() -> None:
    graph = block_graph(per_class=40)
    made, evidence = surrogates_of(graph), Evidence.fit(graph)
    val = graph.val_mask
    assert made.unknown_evidence[val].mean() > evidence.values[val].mean() + 0.5
    assert made.mixed_mismatch[val].mean() > feature_mismatch(graph, evidence.encoder)[val].mean() + 0.1
    assert surrogates_of(graph) is made


def test_the_allowance_is_chosen_by_the_rule() -> None:
    for seed in range(3):
        graph = block_graph(per_class=30, seed=seed)
        prediction = prediction_of(graph)
        compared = choices(prediction, graph)
        assert tuple(one.allowance for one in compared) == ALLOWANCES
        allowed = [one for one in compared if one.unknown >= compared[0].unknown - TOLERANCE]
        best = max(allowed, key=lambda one: one.mixed).allowance
        assert np.array_equal(score("ood", prediction, graph), score("ood", prediction, graph, allowance=best))


def test_features_may_not_dilute_the_detection_of_unknown_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    def chosen(*table: tuple[float, float]) -> float:
        rows = [Choice(a, *figures) for a, figures in zip((np.inf, 2.0, 1.0, 0.0), table, strict=True)]
        monkeypatch.setattr("graphsde.uncertainty.scores.ood._compare", lambda *_: rows)
        return _choose({}, {}, block_graph(), np.array([0]), False).allowance

    assert chosen((0.5, 0.9), (0.6, 0.896), (0.7, 0.89), (0.8, 0.88)) == 2.0
    assert chosen((0.5, 0.9), (0.6, 0.9), (0.7, 0.9), (0.8, 0.9)) == 0.0
    assert chosen((0.5, 0.9), (0.6, 0.8), (0.7, 0.8), (0.8, 0.8)) == np.inf
    assert chosen((0.5, 0.9), (0.5, 0.9), (0.5, 0.9), (0.5, 0.9)) == np.inf  # no gain, no part
    monkeypatch.setattr("graphsde.uncertainty.scores.ood._compare", lambda *_: [])
    assert _choose({}, {}, block_graph(), np.array([0]), False).allowance == 2.0


def test_one_class_to_compare_with() -> None:
    graph = block_graph()
    graph = graph.with_labels(np.where(graph.train_mask, 0, graph.labels))
    prediction = prediction_of(graph)
    assert choices(prediction, graph) == []
    assert np.array_equal(score("ood", prediction, graph), score("ood", prediction, graph, allowance=2.0))


def test_what_is_missing_is_named_and_the_default_falls_back() -> None:
    graph = block_graph()
    prediction = prediction_of(graph)
    roles = {name: mask for name, mask in graph.masks.items() if name != "val"}
    without = dataclasses.replace(prediction, logits=None)
    for given, where, words in (
        (without, graph, "logits"),
        (prediction, graph.with_masks(**roles), "validation nodes"),
        (prediction, graph.with_masks(test=graph.test_mask), "training nodes"),
    ):
        with pytest.raises(BadUsage, match=words) as caught:
            score("ood", given, where)
        assert caught.value.code == "E-SCORE" and caught.value.fix
        assert "ood" not in available_scores(given, where) and default_score(given, where) == "entropy"
    assert default_score(prediction, graph) == "ood" and default_score(prediction) == "entropy"
    for parts in ((), ("energy", "magic"), "energy"):
        with pytest.raises(BadUsage, match="parts"):
            score("ood", prediction, graph, parts=parts)
    numbers = gs.load("diabetes")
    assert default_score(gs.GCN(epochs=2).fit(numbers).predict(numbers), numbers) == "total"


def test_flags_and_decisions_go_by_it() -> None:
    graph = block_graph(per_class=100)
    prediction = prediction_of(graph)
    flag = flag_ood(prediction, graph, false_alarm=0.2)
    assert flag.by == "ood" and np.array_equal(flag.values, score("ood", prediction, graph))
    assert flag.flagged[graph.test_mask].mean() < 0.35
    assert flag_ood(dataclasses.replace(prediction, logits=None), graph).by == "entropy+propagated"
    found = gs.decide(prediction, graph, max_error=0.3)
    assert found.summary()["ood"]["score"] == "ood"
    asked = gs.decide(prediction, graph, max_error=0.3, ood_by="entropy")
    assert asked.summary()["ood"]["score"] == "entropy"


def test_evaluate_tells_its_figures_beside_those_of_entropy() -> None:
    graph = block_graph(per_class=40)
    known = graph.labels != 2
    roles = {name: mask & known for name, mask in graph.masks.items() if name != "test"}
    graph = graph.with_masks(**roles, test=graph.test_mask & known, ood=~known)
    prediction = gs.GCN(epochs=30, hidden=8).fit(graph).predict(graph)
    found = gs.evaluate(prediction, graph)
    values = score("ood", prediction.untempered(), graph)
    expected = gs.evaluate(prediction, graph, scores=["ood"])["scores"]["ood"]
    assert found["ood_default_auroc"] == expected["ood_auroc"] and found["ood_default_fpr95"] == expected["ood_fpr95"]
    assert values[graph.ood_mask].mean() > values[graph.test_mask].mean()
    assert "ood_default_auroc" not in gs.evaluate(prediction_of(block_graph()), block_graph())  # nothing is OOD
    bare = dataclasses.replace(prediction, logits=None)
    assert "ood_default_auroc" not in gs.evaluate(bare, graph)


@needs_real_data
def test_classes_left_out_of_cora_with_a_plain_gcn() -> None:
    graph = gs.load("cora")
    graph = make_split(graph, "label-leave-out", seed=0).apply(graph)
    found = gs.evaluate(gs.GCN(epochs=100).fit(graph).predict(graph), graph)
    assert found["ood_default_auroc"] > 0.92 and found["ood_default_auroc"] > found["ood_auroc"] + 0.03
