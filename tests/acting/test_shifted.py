"""Telling a shifted graph from the clean one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import graphsde as gs
from graphsde import metrics
from graphsde.acting.shifted import detect_shift
from graphsde.base.errors import BadUsage, UnknownName
from graphsde.datasets.shifts import SHIFTS
from graphsde.graph.graph import Graph
from graphsde.uncertainty.scores import propagate, score

from support import block_graph, needs_real_data

EVERY = ["entropy", "energy", "gnnsafe", "odin", "mahalanobis", "gebm"]


@pytest.fixture(scope="module")
def fitted() -> tuple[gs.GCN, Graph]:
    graph = block_graph(per_class=20)
    return gs.GCN(epochs=30, hidden=8, temperature=False).fit(graph), graph


@pytest.mark.parametrize("shift", ["interpolate-features", "rewire-sbm"])
def test_test_nodes_against_all_nodes_of_the_shifted_graph(fitted: tuple[gs.GCN, Graph], shift: str) -> None:
    model, graph = fitted
    found = detect_shift(model, graph, shift, EVERY, seed=3)
    assert (found["shift"], found["seed"], found["n_id"], found["n_ood"]) == (shift, 3, 18, 60)
    assert found["ood_aupr_in_chance"] == pytest.approx(18 / 78) and list(found["scores"]) == EVERY
    shifted = SHIFTS.get(shift)(graph, seed=3)
    clean, moved = model.predict(graph), model.predict(shifted)
    for name in EVERY:
        inside = score(name, clean, graph, model)
        outside = score(name, moved, shifted, model, reference=(clean, graph))
        figures = found["scores"][name]
        expected = metrics.summarise_detection(inside[graph.test_mask], outside)
        plain = [key for key in figures if not key.endswith(("propagated", "wrong"))]
        assert {key: figures[key] for key in plain} == {key: expected[key] for key in plain}
        if name not in ("gnnsafe", "gebm"):
            inside, outside = propagate(inside, graph), propagate(outside, shifted)
        assert figures["ood_auroc_propagated"] == metrics.ood_auroc(inside[graph.test_mask], outside)
        assert figures["ood_fpr95_propagated"] == metrics.fpr95(inside[graph.test_mask], outside)


@pytest.mark.parametrize("shift", ["interpolate-features", "rewire-sbm"])
def test_answers_that_survive_a_shift_are_counted_and_left_out(fitted: tuple[gs.GCN, Graph], shift: str) -> None:
    model, graph = fitted
    unlabelled = graph.with_labels(np.where(np.arange(60) % 7 == 1, -1, graph.labels))
    found = detect_shift(model, unlabelled, shift, ["entropy"], seed=3)
    shifted = SHIFTS.get(shift)(unlabelled, seed=3)
    clean, moved = model.predict(unlabelled), model.predict(shifted)
    known = unlabelled.labels != -1
    wrong = known & (moved.index != unlabelled.labels)
    assert 0 < wrong.sum() < known.sum() < 60
    assert found["ood_accuracy"] == pytest.approx(1 - wrong.sum() / known.sum())
    inside = score("entropy", clean, unlabelled)[unlabelled.test_mask]
    expected = metrics.ood_auroc(inside, score("entropy", moved, shifted)[wrong])
    assert found["scores"]["entropy"]["ood_auroc_wrong"] == expected != found["scores"]["entropy"]["ood_auroc"]


def test_numbers_are_neither_right_nor_wrong() -> None:
    graph = gs.split(gs.load("diabetes"))
    found = detect_shift(gs.GCN(epochs=3, hidden=8).fit(graph), graph, "interpolate-features", ["total"])
    assert "ood_accuracy" not in found and set(found["scores"]["total"]) >= {"ood_auroc"}
    assert "ood_auroc_wrong" not in found["scores"]["total"]


def test_learned_scores_keep_the_statistics_of_the_clean_graph(fitted: tuple[gs.GCN, Graph]) -> None:
    model, graph = fitted
    shifted = SHIFTS.get("interpolate-features")(graph, seed=0)
    moved = model.predict(shifted)
    own = metrics.ood_auroc(
        score("mahalanobis", model.predict(graph), graph)[graph.test_mask], score("mahalanobis", moved, shifted)
    )
    assert (
        detect_shift(model, graph, "interpolate-features", ["mahalanobis"])["scores"]["mahalanobis"]["ood_auroc"] > own
    )


def test_marked_nodes_are_judged_within_the_shifted_graph(fitted: tuple[gs.GCN, Graph]) -> None:
    model, graph = fitted
    found = detect_shift(model, graph, "normal-features", ["msp"], seed=1, share=0.5)
    shifted = SHIFTS.get("normal-features")(graph, seed=1, share=0.5)
    doubt = score("msp", model.predict(shifted))
    assert found["n_id"] == shifted.test_mask.sum() and found["n_ood"] == shifted.ood_mask.sum() < 18
    assert found["scores"]["msp"]["ood_auroc"] == metrics.ood_auroc(doubt[shifted.test_mask], doubt[shifted.ood_mask])


def test_foreign_classes_are_not_familiar(fitted: tuple[gs.GCN, Graph]) -> None:
    model, graph = fitted
    ood = graph.labels == 2
    masked = replace(graph, masks={**graph.masks, "ood": ood})
    found = detect_shift(model, masked, "interpolate-features")
    assert found["n_id"] == 12 and found["n_ood"] == 60


def test_temperature_is_undone(fitted: tuple[gs.GCN, Graph], monkeypatch: pytest.MonkeyPatch) -> None:
    model, graph = fitted
    plain = detect_shift(model, graph, "interpolate-features", ["entropy", "odin"])
    monkeypatch.setattr(model, "temperature_of_logits", lambda: 7.0)
    assert detect_shift(model, graph, "interpolate-features", ["entropy", "odin"]) == plain


def test_seeds_and_wrong_arguments(fitted: tuple[gs.GCN, Graph]) -> None:
    model, graph = fitted
    one = detect_shift(model, graph, "interpolate-features", seed=1)
    assert one == detect_shift(model, graph, "interpolate-features", seed=1)
    assert one["scores"] != detect_shift(model, graph, "interpolate-features", seed=2)["scores"]
    with pytest.raises(UnknownName, match="interpolate-features"):
        detect_shift(model, graph, "interpolate")
    with pytest.raises(BadUsage, match="test nodes"):
        detect_shift(model, replace(graph, masks={}), "interpolate-features")
    with pytest.raises(BadUsage, match="no score"):
        detect_shift(model, graph, "interpolate-features", [])


def test_evaluate_adds_scores_beside_the_standard_figures(fitted: tuple[gs.GCN, Graph]) -> None:
    model, graph = fitted
    prediction = model.predict(graph)
    ood = (graph.labels == 2) & graph.test_mask
    masked = replace(graph, masks={**graph.masks, "ood": ood})
    plain = gs.evaluate(prediction, masked)
    assert "scores" not in plain
    more = gs.evaluate(prediction, masked, scores=["entropy", *EVERY], model=model)
    compared = more.pop("scores")
    np.testing.assert_equal(more, plain)  # where NaN equals NaN
    assert list(compared) == EVERY
    assert compared["entropy"]["ood_auroc"] == plain["ood_auroc"]
    assert compared["gebm"]["ood_auroc"] == compared["gebm"]["ood_auroc_propagated"]
    assert compared["mahalanobis"]["ood_auroc"] != compared["mahalanobis"]["ood_auroc_propagated"]
    with pytest.raises(BadUsage, match="ood"):
        gs.evaluate(prediction, graph, scores=["msp"], model=model)


@needs_real_data
def test_counts_and_chance_on_cora() -> None:
    whole = gs.load("cora")
    graph = gs.make_split(whole, "planetoid").apply(whole)
    found = detect_shift(gs.MLP(epochs=2).fit(graph), graph, "interpolate-features", ["msp"])
    assert (found["n_id"], found["n_ood"]) == (1000, 2708)
    assert found["ood_aupr_in_chance"] == pytest.approx(0.2697, abs=5e-5)
