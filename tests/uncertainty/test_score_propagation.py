"""Scores spread over edges."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphsde.base.errors import BadInput, BadUsage
from graphsde.prediction import ClassPrediction
from graphsde.uncertainty.scores import propagate, score

PATH_AND_LONER = np.array([[0, 1, 0, 0], [1, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 0]])


def test_no_steps_is_the_identity(make_graph) -> None:
    values = np.array([0.3, -1.0, 5.0, 2.0])
    result = propagate(values, make_graph(PATH_AND_LONER), steps=0)
    assert np.array_equal(result, values) and result is not values
    assert np.allclose(propagate(values, make_graph(PATH_AND_LONER), alpha=1.0, steps=5), values, atol=1e-15)


def test_one_step_on_a_path_by_hand(make_graph) -> None:
    result = propagate(np.array([0.0, 3.0, 6.0, 2.0]), make_graph(PATH_AND_LONER), alpha=0.5, steps=1)
    assert result.tolist() == [1.5, 3.0, 4.5, 2.0]


def test_isolated_nodes_keep_their_value_or_shrink_as_published(make_graph) -> None:
    values, graph = np.array([0.0, 3.0, 6.0, 2.0]), make_graph(PATH_AND_LONER)
    kept, published = propagate(values, graph), propagate(values, graph, isolated="published")
    assert kept[3] == 2.0 and published[3] == 0.5
    assert np.array_equal(kept[:3], published[:3])


def test_directed_edges_carry_from_source_to_target_with_their_weight(make_graph) -> None:
    edges = np.zeros((3, 3))
    edges[0, 2], edges[1, 2] = 3.0, 1.0
    result = propagate(np.array([4.0, 8.0, 0.0]), make_graph(edges, directed=True), alpha=0.0, steps=1)
    assert result.tolist() == [4.0, 8.0, 5.0]


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.floats(0, 1), st.integers(0, 5))
def test_a_constant_is_a_fixed_point_and_the_range_never_grows(seed: int, alpha: float, steps: int) -> None:
    import scipy.sparse as sp

    from graphsde.graph.adjacency import Adjacency
    from graphsde.graph.graph import Graph

    rng = np.random.default_rng(seed)
    upper = np.triu(rng.random((12, 12)) < 0.2, 1) * rng.integers(1, 5, (12, 12))
    graph = Graph(Adjacency(sp.csr_array(upper + upper.T)), np.zeros((12, 1)), None, (), np.arange(12))
    assert np.allclose(propagate(np.full(12, -7.3), graph, alpha=alpha, steps=steps), -7.3, atol=1e-12)
    values = rng.normal(size=12)
    result = propagate(values, graph, alpha=alpha, steps=steps)
    assert result.min() >= values.min() - 1e-12 and result.max() <= values.max() + 1e-12
    walk = np.divide(upper + upper.T, (upper + upper.T).sum(1, keepdims=True).clip(1))
    walk[(upper + upper.T).sum(1) == 0] = np.eye(12)[(upper + upper.T).sum(1) == 0]
    dense = np.linalg.matrix_power(alpha * np.eye(12) + (1 - alpha) * walk, steps) @ values
    assert np.allclose(result, dense, atol=1e-12)


def test_wrong_arguments_are_named(make_graph) -> None:
    graph = make_graph(PATH_AND_LONER)
    with pytest.raises(BadInput, match="4 nodes"):
        propagate(np.zeros(3), graph)
    for wrong in ({"alpha": 1.5}, {"alpha": float("nan")}, {"steps": -1}, {"isolated": "drop"}):
        with pytest.raises(BadUsage):
            propagate(np.zeros(4), graph, **wrong)


def test_with_self_loops_a_node_is_its_own_neighbour(make_graph) -> None:
    """Of weight one: beside two neighbours a third, beside an edge of weight three a quarter; a loner stays."""
    values, graph = np.array([0.0, 3.0, 6.0, 2.0]), make_graph(PATH_AND_LONER)
    assert propagate(values, graph, alpha=0.0, steps=1, self_loops=True).tolist() == [1.5, 3.0, 4.5, 2.0]
    walk = np.divide(PATH_AND_LONER + np.eye(4), (PATH_AND_LONER + np.eye(4)).sum(1, keepdims=True))
    by_hand = np.linalg.matrix_power(0.3 * np.eye(4) + 0.7 * walk, 4) @ values
    assert np.allclose(propagate(values, graph, alpha=0.3, steps=4, self_loops=True), by_hand, atol=1e-12)
    heavy = make_graph(np.array([[0, 3], [3, 0]]))
    assert propagate(np.array([0.0, 4.0]), heavy, alpha=0.0, steps=1, self_loops=True).tolist() == [3.0, 1.0]


def test_gnsd_scores_by_energies_spread_four_times_over_edges_and_self_loops(make_graph) -> None:
    logits = np.random.default_rng(0).normal(size=(3, 4, 3))
    probs = np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
    prediction = ClassPrediction(probs, np.arange(4), ("a", "b", "c"), "samples", logits=logits)
    walk = np.divide(PATH_AND_LONER + np.eye(4), (PATH_AND_LONER + np.eye(4)).sum(1, keepdims=True))
    energies = -np.log(np.exp(logits).sum(-1)).mean(0)
    by_hand = np.linalg.matrix_power(0.3 * np.eye(4) + 0.7 * walk, 4) @ energies
    assert np.allclose(score("gnsd", prediction, make_graph(PATH_AND_LONER)), by_hand, atol=1e-12)
