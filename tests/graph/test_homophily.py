"""Homophily against hand-counted graphs, and against the assortativity of networkx."""

from __future__ import annotations

import networkx
import numpy as np
import pytest
import scipy.sparse as sp

from graphsde.graph.adjacency import Adjacency
from graphsde.graph.checks import homophily


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
