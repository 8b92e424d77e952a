"""Questions to a labeller: who may be asked, in which order, why, and never ten twins."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphsde as gs
from graphsde.acting.acquisition import ACQUISITIONS
from graphsde.acting.ask import ClassReasons, ask, spread_out
from graphsde.base.errors import BadInput, BadUsage, UnknownName
from graphsde.graph.graph import Graph
from graphsde.prediction import ClassPrediction, Prediction, RegressionPrediction

from support import block_graph


def prediction(graph: Graph, seed: int = 3, samples: int = 4) -> Prediction:
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet(np.ones(graph.num_classes), size=(samples, graph.num_nodes))
    embedding = rng.normal(size=(graph.num_nodes, 3))
    return ClassPrediction(probs, graph.node_ids, graph.class_names, "samples", embedding=embedding)


def half_labelled() -> Graph:
    """Every third node has no label and no role."""
    graph = block_graph(per_class=30)
    assert graph.labels is not None
    hidden = np.arange(graph.num_nodes) % 3 == 2
    masks = {role: mask & ~hidden for role, mask in graph.masks.items()}
    labels = np.where(hidden, -1, graph.labels)
    return graph.with_labels(labels).with_masks(split="given", **masks)


def test_only_nodes_without_a_label_in_use_are_asked_for() -> None:
    graph = half_labelled()
    questions = ask(prediction(graph), graph, budget=1000)
    assert {one.position for one in questions} == set(np.flatnonzero(np.arange(graph.num_nodes) % 3 == 2))
    assert questions.candidates == len(questions) == 30 and not questions.from_test and questions.note is None


def test_test_nodes_are_asked_for_when_nobody_else_is_left_and_that_is_said() -> None:
    graph = block_graph()
    questions = ask(prediction(graph), graph, budget=4)
    assert graph.test_mask is not None and all(graph.test_mask[one.position] for one in questions)
    assert questions.from_test and questions.note is not None and "test nodes" in questions.note


def test_foreign_and_skipped_nodes_are_left_alone() -> None:
    graph = half_labelled()
    ood = np.zeros(graph.num_nodes, dtype=bool)
    ood[2] = True
    graph = graph.with_masks(split="given", **graph.masks, ood=ood)
    asked = {one.id for one in ask(prediction(graph), graph, budget=1000, skip=[5, 8])}
    assert asked == set(range(2, graph.num_nodes, 3)) - {2, 5, 8}
    with pytest.raises(BadInput, match="E-NODE-UNKNOWN"):
        ask(prediction(graph), graph, skip=[10**9])
    with pytest.raises(BadUsage, match="no node is left"):
        ask(prediction(graph), graph, skip=graph.node_ids.tolist())


def test_the_plain_ranking_is_the_score_and_the_first_question_is_the_same() -> None:
    graph = half_labelled()
    pred = prediction(graph)
    plain = ask(pred, graph, budget=6, diverse=False)
    scores = [one.score for one in plain]
    assert scores == sorted(scores, reverse=True)
    pool = np.arange(2, graph.num_nodes, 3)
    assert scores[0] == pred.total[pool].max()
    assert ask(pred, graph, budget=6).items[0].id == plain.items[0].id


def test_one_of_ten_twins_is_enough() -> None:
    graph = half_labelled()
    pool = np.arange(2, graph.num_nodes, 3)
    twins = pool[:10]
    probs = np.tile([0.8, 0.1, 0.1], (1, graph.num_nodes, 1)).astype(float)
    probs[0, pool[10:]] = [0.45, 0.35, 0.2]
    probs[0, twins] = [0.34, 0.33, 0.33]  # the ten most uncertain nodes lie on one spot
    embedding = np.random.default_rng(0).normal(size=(graph.num_nodes, 4))
    embedding[twins] = 5.0
    pred = ClassPrediction(probs, graph.node_ids, graph.class_names, "deterministic", embedding=embedding)
    assert {one.position for one in ask(pred, graph, budget=5, diverse=False)} <= set(twins.tolist())
    chosen = [one.position for one in ask(pred, graph, budget=5)]
    assert len(set(chosen) & set(twins.tolist())) == 1


def test_connected_nodes_count_as_alike() -> None:
    graph = gs.from_arrays(np.eye(4, dtype=np.float32), np.array([[0], [1]]), name="pair")
    points = np.eye(4) * 10  # all equally far apart; only the edge tells 1 from the others
    assert spread_out(np.array([0, 1, 2]), points, graph, 2).tolist() == [0, 2]


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 12), st.integers(1, 30), st.integers(0, 1000))
def test_spreading_chooses_distinct_nodes_of_the_list_and_keeps_the_first(budget: int, length: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph = block_graph()
    ranked = rng.permutation(graph.num_nodes)[:length]
    points = np.round(rng.normal(size=(graph.num_nodes, 2)))  # many ties and twins
    chosen = spread_out(ranked, points, graph, budget)
    assert len(set(chosen.tolist())) == min(budget, length) and set(chosen) <= set(ranked)
    assert chosen[0] == ranked[0]


@pytest.mark.parametrize("by", ACQUISITIONS.names())
def test_every_acquisition_can_ask_and_labels_of_others_are_never_seen(by: str) -> None:
    graph = block_graph(per_class=30)
    pred = prediction(graph)
    questions = ask(pred, graph, budget=5, by=by, seed=1)
    assert len(questions) == 5 and [one.rank for one in questions] == [1, 2, 3, 4, 5]
    assert all(one.reason and np.isfinite(one.score) for one in questions)
    assert graph.labels is not None and graph.train_mask is not None
    wrong = np.where(graph.train_mask, graph.labels, (graph.labels + 1) % graph.num_classes)
    assert ask(pred, graph.with_labels(wrong), budget=5, by=by, seed=1) == questions


def test_wrong_calls_are_told() -> None:
    graph = block_graph()
    pred = prediction(graph)
    with pytest.raises(BadUsage, match="budget"):
        ask(pred, graph, budget=0)
    with pytest.raises(UnknownName, match="entropy"):
        ask(pred, graph, by="entropie")
    with pytest.raises(BadInput, match="E-LEN"):
        ask(pred.subset(np.arange(5)), graph)
    with pytest.raises(BadUsage, match="E-SCORE"):
        ask(ClassPrediction(pred.probs[:1], pred.ids, pred.class_names, "deterministic"), graph, by="bald")


def reason(probs: list[list[float]], **fields: object) -> str:
    """What is said of node 0 of two, whose samples are given."""
    both = np.array([[row, [1.0, 0.0, 0.0]] for row in probs])
    graph = gs.from_arrays(np.eye(2, dtype=np.float32), np.zeros((2, 0), dtype=int), name="two")
    kind = "samples" if len(probs) > 1 else "deterministic"
    return ClassReasons(ClassPrediction(both, graph.node_ids, ("A", "B", "C"), kind, **fields), graph, "entropy").of(0)  # type: ignore[arg-type]


def test_reasons_say_what_is_true() -> None:
    assert reason([[0.46, 0.44, 0.10]]).startswith("two classes are close: A .46, B .44")
    assert reason([[0.35, 0.33, 0.32]]).startswith("several classes are close: A .35, B .33, C .32")
    assert reason([[0.6, 0.3, 0.1]]).startswith("no class is clear: A .60, B .30")
    assert reason([[0.9, 0.1, 0.0]]) == "it has no neighbours"
    split = reason([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
    assert split.startswith("the samples disagree: 1 of 2 say A, 1 say B; two classes are close: A .50, B .50")


def test_a_node_far_from_all_training_nodes_is_said_to_be() -> None:
    graph = block_graph(per_class=30)
    pred = prediction(graph)
    assert pred.embedding is not None
    embedding = pred.embedding.copy()
    embedding[5] = 100.0
    words = ClassReasons(dataclasses.replace(pred, embedding=embedding), graph, "entropy")
    assert "unlike any training node: farther from them than 98 % of the nodes" in words.of(5)
    assert graph.train_mask is not None and "unlike" not in words.of(int(np.flatnonzero(graph.train_mask)[0]))


def test_where_pairs_are_too_many_some_training_nodes_are_compared_with(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = block_graph(per_class=30)
    pred = prediction(graph)
    assert pred.embedding is not None and graph.train_mask is not None
    embedding = pred.embedding.copy()
    embedding[5] = 100.0
    pred = dataclasses.replace(pred, embedding=embedding)
    whole = ClassReasons(pred, graph, "entropy")._distance
    monkeypatch.setattr("graphsde.acting.ask.MOST_PAIRS", graph.num_nodes * 4)
    monkeypatch.setattr("graphsde.acting.ask.FEWEST_COMPARED", 2)
    words = ClassReasons(pred, graph, "entropy")
    some = words._distance
    assert whole is not None and some is not None and (some >= whole).all() and (some > whole).any()
    assert int((some < 1e-9).sum()) >= 4  # the four that were drawn are at no distance from themselves
    assert "unlike any training node" in words.of(5)


def test_a_table_to_fill_in() -> None:
    graph = half_labelled()
    columns = ask(prediction(graph), graph, budget=3).columns()
    assert columns["label"].tolist() == ["", "", ""] and columns["rank"] == [1, 2, 3]
    assert columns["id"].dtype.kind == "i"


def test_numbers_are_asked_for_by_their_variance() -> None:
    graph = half_labelled()
    rng = np.random.default_rng(0)
    means, noise = rng.normal(size=(8, graph.num_nodes)), rng.uniform(0.1, 0.2, size=(8, graph.num_nodes))
    means[:, 2] *= 50
    pred = RegressionPrediction(means, noise, graph.node_ids, "samples")
    for by, figure, values in (("entropy", "variance", pred.total), ("bald", "epistemic variance", pred.epistemic)):
        questions = ask(pred, graph, budget=3, by=by)
        assert questions.score == figure and questions.classes == ()
        first = questions.items[0]
        assert first.id == 2 and first.score == values[2] and first.confidence is None
        assert "the samples disagree" in first.reason and "high variance" in first.reason
