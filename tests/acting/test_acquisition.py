"""Acquisitions: what each is meant to prefer, and what all of them keep to."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import scipy.sparse as sp

import graphsde as gs
from graphsde.acting.acquisition import (
    ACQUISITIONS,
    Candidates,
    acquire,
    nearest_to_centres,
    pagerank,
    propagated_features,
)
from graphsde.base.errors import BadUsage, UnknownName
from graphsde.graph.adjacency import Adjacency
from graphsde.graph.graph import Graph
from graphsde.prediction import ClassPrediction

from support import block_graph


def candidates(graph: Graph | None = None, seed: int = 0) -> Candidates:
    graph = graph or block_graph(per_class=30)
    rng = np.random.default_rng(3)
    probs = rng.dirichlet(np.ones(graph.num_classes), size=(4, graph.num_nodes))
    prediction = ClassPrediction(
        probs, graph.node_ids, graph.class_names, "samples", embedding=rng.normal(size=(graph.num_nodes, 3))
    )
    assert graph.train_mask is not None
    known = np.flatnonzero(graph.train_mask)
    return Candidates(graph, prediction, np.setdiff1d(np.arange(graph.num_nodes), known), known, 0.3, seed)


@pytest.mark.parametrize("name", ACQUISITIONS.names())
def test_distinct_nodes_of_the_pool_as_many_as_asked_for_and_always_the_same(name: str) -> None:
    c = candidates()
    chosen = acquire(name, c, 7)
    assert len(set(chosen.tolist())) == 7 and set(chosen) <= set(c.pool)
    assert np.array_equal(chosen, acquire(name, candidates(), 7))
    assert len(set(acquire(name, c, 10_000).tolist())) == len(c.pool)


@pytest.mark.parametrize("name", ACQUISITIONS.names())
def test_labels_outside_the_training_nodes_are_not_looked_at(name: str) -> None:

    graph = block_graph(per_class=30)
    assert graph.labels is not None and graph.train_mask is not None
    wrong = np.where(graph.train_mask, graph.labels, (graph.labels + 1) % graph.num_classes)
    blind = graph.with_labels(wrong)
    assert np.array_equal(acquire(name, candidates(graph), 6), acquire(name, candidates(blind), 6))


def test_uncertain_nodes_come_first() -> None:
    c = candidates()
    for name, value in (
        ("entropy", c.prediction.total),
        ("least-confidence", 1 - c.prediction.confidence),
        ("bald", c.prediction.epistemic),
    ):
        chosen = acquire(name, c, 5)
        assert value[chosen].min() >= np.delete(value[c.pool], np.searchsorted(c.pool, chosen)).max()
        assert np.all(np.diff(value[chosen]) <= 0)
    top = np.sort(c.prediction.mean, axis=1)
    gap = top[:, -1] - top[:, -2]
    assert acquire("margin", c, 1)[0] == c.pool[gap[c.pool].argmin()]


def test_bald_is_refused_for_a_model_without_samples() -> None:
    graph = block_graph()
    one = ClassPrediction(np.full((1, 30, 3), 1 / 3), graph.node_ids, graph.class_names, "deterministic")
    with pytest.raises(BadUsage, match="deterministic"):
        acquire("bald", Candidates(graph, one, np.arange(10), np.arange(10, 20)), 2)


def test_coreset_is_greedy_k_centre_by_brute_force() -> None:
    c = candidates()
    points = c.prediction.embedding
    assert points is not None
    covered = list(c.known)
    for node in acquire("coreset", c, 4):
        gaps = {p: min(np.linalg.norm(points[p] - points[k]) for k in covered) for p in c.pool}
        assert gaps[node] == pytest.approx(max(gaps.values()))
        covered.append(node)


def test_pagerank_is_networkx() -> None:
    import networkx as nx

    graph = block_graph()
    expected = nx.pagerank(nx.from_scipy_sparse_array(graph.adjacency.incoming), alpha=0.85, tol=1e-12, max_iter=500)
    np.testing.assert_allclose(pagerank(graph, rounds=300), [expected[i] for i in range(30)], atol=1e-9)


def test_featprop_serves_a_cluster_without_labels_first() -> None:
    centres = np.array([[0.0, 0.0], [20.0, 0.0], [0.0, 20.0]])
    points = np.repeat(centres, 10, axis=0) + np.random.default_rng(0).normal(size=(30, 2)) * 0.1
    graph = block_graph().with_features(points.astype(np.float32))
    graph = graph.with_adjacency(Adjacency(sp.csr_array((30, 30))))
    c = Candidates(graph, candidates(block_graph()).prediction, np.r_[1:10, 11:30], np.array([0, 10]))
    assert acquire("featprop", c, 1)[0] >= 20


def test_graphpart_serves_the_community_without_labels_first() -> None:
    graph = block_graph(per_class=30)
    c = candidates(graph)
    known = np.arange(60)[::3]  # the third block has none
    c = Candidates(graph, c.prediction, np.setdiff1d(np.arange(90), known), known)
    assert (acquire("graphpart", c, 3) >= 60).mean() > 0.5


def test_nearest_to_centres_and_propagation() -> None:
    points = np.repeat(np.eye(3) * 50, 5, axis=0) + np.random.default_rng(1).normal(size=(15, 3))
    assert sorted(nearest_to_centres(points, 3, 0) // 5) == [0, 1, 2]
    graph = block_graph()
    operator = graph.adjacency.normalized.toarray()
    np.testing.assert_allclose(propagated_features(graph), operator @ operator @ graph.features, atol=1e-5)


def test_mistakes() -> None:
    c = candidates()
    with pytest.raises(BadUsage):
        acquire("entropy", c, 0)
    with pytest.raises(UnknownName, match="did you mean 'entropy'"):
        acquire("entropi", c, 1)
    with pytest.raises(BadUsage, match="no node is left"):
        acquire("random", Candidates(c.graph, c.prediction, np.array([], dtype=int), c.known), 1)


@pytest.mark.parametrize("name", ["featprop", "graphpart", "density", "coreset", "age"])
def test_text_columns_are_features_too(name: str) -> None:
    graph = block_graph()
    assert graph.labels is not None
    colours = np.array(["red", "green", "blue"], dtype=object)[graph.labels]
    textual = gs.from_arrays(
        np.zeros((30, 0), dtype=np.float32), graph.adjacency.edge_index(), labels=graph.labels,
        categorical={"colour": colours}, train_mask=graph.train_mask, val_mask=graph.val_mask,
        test_mask=graph.test_mask, name="textual",
    )  # fmt: skip
    prediction = gs.GCN(epochs=3, hidden=4).fit(textual).predict(textual)
    chosen = gs.ask(prediction, textual, 3, name)
    assert len({one.id for one in chosen}) == 3
    assert len(np.unique(propagated_features(textual, steps=0), axis=0)) == 3


def test_features_that_are_not_there_are_said_to_be_missing() -> None:
    graph = block_graph()
    bare = dataclasses.replace(graph, features=np.zeros((30, 0), dtype=np.float32), feature_names=None)
    with pytest.raises(BadUsage, match="E-NO-FEATURES"):
        propagated_features(bare)
