"""Homophily against hand-counted graphs, and against the assortativity of networkx."""

from __future__ import annotations

from typing import Any

import networkx
import numpy as np
import pytest
import scipy.sparse as sp

from graphsde.base.errors import BadUsage
from graphsde.graph import homophily as module
from graphsde.graph.adjacency import Adjacency
from graphsde.graph.build import from_arrays
from graphsde.graph.checks import check
from graphsde.graph.homophily import adjusted_homophily, homophily, node_homophily


def test_by_hand() -> None:
    adjacency = Adjacency(sp.csr_array(np.array([[0, 1, 1], [1, 0, 0], [1, 0, 0]])))
    measured = homophily(adjacency, np.array([0, 0, 1]))
    assert measured is not None
    assert measured.edge == 0.5
    assert measured.adjusted == pytest.approx((0.5 - 10 / 16) / (1 - 10 / 16))
    assert measured.edges == 4


@pytest.mark.parametrize("directed", [False, True])
def test_adjusted_homophily_is_the_assortativity_of_the_labels(directed: bool) -> None:
    graph = networkx.gnp_random_graph(60, 0.1, seed=1, directed=directed)
    labels = np.random.default_rng(0).integers(0, 3, 60)
    networkx.set_node_attributes(graph, dict(enumerate(labels.tolist())), "y")
    adjacency = Adjacency(sp.csr_array(networkx.to_scipy_sparse_array(graph, weight=None)), directed=directed)
    measured = homophily(adjacency, labels)
    assert measured is not None
    assert measured.adjusted == pytest.approx(networkx.attribute_assortativity_coefficient(graph, "y"), abs=1e-12)


def test_unlabelled_ends_and_single_classes() -> None:
    adjacency = Adjacency(sp.csr_array(np.array([[0, 1], [1, 0]])))
    assert homophily(adjacency, np.array([0, -1])) is None
    measured = homophily(adjacency, np.array([0, 0]))
    assert measured is not None
    assert measured.edge == 1
    assert np.isnan(measured.adjusted)


def path(nodes: int, **parts: object) -> Any:
    edges = np.stack([np.arange(nodes - 1), np.arange(1, nodes)])
    labels = np.arange(nodes) // 3 % 2  # a a a b b b a a a …
    return from_arrays(np.eye(nodes), edges, labels=labels, **parts)  # type: ignore[arg-type]


def test_some_nodes_by_hand() -> None:
    graph = path(12)
    value, entries = adjusted_homophily(graph, np.ones(12, dtype=bool))
    # 11 edges, 8 inside a class; degrees of class a: 1+2+2+2+2+2 = 11, of b: 2+2+2+2+2+1 = 11, of 22 in all
    assert entries == 22 and value == pytest.approx((8 / 11 - 0.5) / 0.5)
    assert adjusted_homophily(graph, np.arange(12) < 10) == (None, 18)  # too few to tell
    assert adjusted_homophily(graph, np.arange(12) < 1) == (None, 0)
    with pytest.raises(BadUsage, match="not a mask"):
        adjusted_homophily(graph, np.arange(12))


def test_one_class_and_numbers_have_none() -> None:
    ring = np.stack([np.arange(30), np.roll(np.arange(30), -1)])
    same = from_arrays(np.eye(30), ring, labels=[0] * 30, class_names=["a", "b"])
    assert adjusted_homophily(same, np.ones(30, dtype=bool)) == (None, 60)
    numbers = from_arrays(np.eye(30), ring, labels=np.linspace(0, 1, 30), target="regression")
    assert adjusted_homophily(numbers, np.ones(30, dtype=bool)) == (None, 0)
    with pytest.raises(BadUsage, match="regression"):
        node_homophily(numbers)


def test_labels_of_test_nodes_change_nothing_that_check_says_of_edges() -> None:
    role = np.arange(90) % 3
    masks = {"train_mask": role == 0, "val_mask": role == 1, "test_mask": role == 2}
    graph = path(90, **masks)
    turned = np.where(role == 2, 1 - graph.labels, graph.labels)
    other = from_arrays(graph.features, np.stack(graph.adjacency.edge_index()), labels=turned, **masks)
    one, two = check(graph).facts["homophily"], check(other).facts["homophily"]
    assert one == two and one["edges"] == 60
    assert "among training and validation nodes" in str(check(graph))


def test_node_homophily_by_hand() -> None:
    edges = np.array([[0, 0, 0, 3], [1, 2, 3, 4]])
    graph = from_arrays(np.eye(6), edges, labels=[0, 0, 1, 0, None, 1])
    np.testing.assert_array_equal(node_homophily(graph), [2 / 3, 1, 0, 1, np.nan, np.nan])


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_edges_in_blocks_count_as_all_at_once(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    # the first and the last nodes have no edges, and some in between have none either
    graph = from_arrays(np.ones((40, 1)), rng.integers(3, 30, (2, 25)), labels=rng.integers(0, 3, 40), directed=True)
    assert graph.labels is not None
    whole = homophily(graph.adjacency, graph.labels), node_homophily(graph)
    sources, targets = graph.adjacency.edge_index()
    assert whole[0] is not None and whole[0].edge == np.mean(graph.labels[sources] == graph.labels[targets])
    monkeypatch.setattr(module, "_EDGES_AT_ONCE", size)
    blocks = list(module._edge_blocks(graph.adjacency))
    assert np.array_equal(np.concatenate([np.stack(one) for one in blocks], axis=1), graph.adjacency.edge_index())
    assert homophily(graph.adjacency, graph.labels) == whole[0]
    assert np.array_equal(node_homophily(graph), whole[1], equal_nan=True)
