"""Equal rows found by hashing, against a comparison of every pair."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from graphsde.graph.build import from_arrays
from graphsde.graph.check_features import feature_groups, twin_of_training_node


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.booleans())
def test_groups_are_equal_rows(seed: int, sparse: bool) -> None:
    rng = np.random.default_rng(seed)
    values = rng.choice([0.0, 1.0, -1.0, 2.0], size=(12, 2))
    towns = rng.choice(["a", "b"], size=12).astype(object)
    graph = from_arrays(sp.csr_array(values) if sparse else values, [], categorical={"town": towns})
    groups = feature_groups(graph)
    equal = (values[:, None] == values[None]).all(axis=2) & (towns[:, None] == towns[None])
    assert np.array_equal(groups[:, None] == groups[None], equal)


def test_the_sign_of_zero_and_small_differences() -> None:
    values = np.array([[0.0, 1.0], [-0.0, 1.0], [0.0, np.nextafter(np.float32(1), np.float32(2))]], dtype=np.float32)
    groups = feature_groups(from_arrays(values, []))
    assert groups[0] == groups[1] != groups[2]
    swapped = feature_groups(from_arrays([[1.0, 2.0], [2.0, 1.0], [3.0, 0.0]], []))
    assert len(set(swapped.tolist())) == 3


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.booleans(), st.booleans())
def test_twins_equal_a_search_over_all_pairs(seed: int, directed: bool, weighted: bool) -> None:
    rng = np.random.default_rng(seed)
    pairs = rng.integers(0, 7, (2, 8))
    weights = rng.choice([1.0, 2.0], 8) if weighted else None
    graph = from_arrays(
        rng.choice([1.0, 2.0], size=(7, 1)),
        pairs,
        weights=weights,
        duplicates="first",
        train_mask=rng.random(7) < 0.5,
        directed=directed,
    )
    twin = twin_of_training_node(graph, feature_groups(graph))
    train = graph.train_mask
    assert train is not None
    heard = graph.adjacency.incoming.toarray()
    closed = heard + np.eye(7)
    for node in range(7):
        same = [
            other
            for other in np.flatnonzero(train).tolist()
            if graph.features[node, 0] == graph.features[other, 0]
            and (np.array_equal(heard[node], heard[other]) or np.array_equal(closed[node], closed[other]))
        ]
        assert (twin[node] >= 0) == (bool(same) and not train[node])
        if twin[node] >= 0:
            assert twin[node] in same


def test_twins_give_equal_propagation() -> None:
    graph = from_arrays(np.array([[1.0], [1.0], [5.0]]), [[0, 0, 1], [1, 2, 2]], train_mask=[0])
    assert twin_of_training_node(graph, feature_groups(graph)).tolist() == [-1, 0, -1]
    moved = graph.adjacency.normalized @ graph.features
    assert moved[0] == pytest.approx(moved[1])
