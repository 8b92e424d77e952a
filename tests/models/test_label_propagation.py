from __future__ import annotations

import numpy as np
import pytest

import graphsde as gs
from graphsde.base.errors import BadInput


def path_graph(n: int = 7, **fields: object) -> gs.Graph:
    labels = np.full(n, -1)
    labels[[0, -1]] = [0, 1]
    train = labels >= 0
    edges = np.stack([np.arange(n - 1), np.arange(1, n)])
    return gs.from_arrays(np.ones((n, 1)), edges, labels=labels, train_mask=train, **fields)


def test_on_a_path_the_probability_falls_from_one_end_to_the_other() -> None:
    graph = path_graph()
    mean = gs.LabelPropagation(steps=200).fit(graph).predict(graph).mean
    assert np.all(np.diff(mean[:, 0]) < 0)
    np.testing.assert_allclose(mean[3], [0.5, 0.5], atol=1e-12)
    np.testing.assert_allclose(mean[[0, -1]], np.eye(2), atol=1e-12)
    np.testing.assert_allclose(mean, mean[::-1, ::-1], atol=1e-12)


def test_one_step_by_hand() -> None:
    graph = path_graph(3)
    mean = gs.LabelPropagation(steps=1, alpha=0.9).fit(graph).predict(graph).mean
    np.testing.assert_allclose(mean[1], [0.5, 0.5])


def test_a_node_no_label_reaches_gets_the_class_frequencies() -> None:
    labels = np.array([0, 0, 1, -1])
    graph = gs.from_arrays(np.ones((4, 1)), np.array([[0], [1]]), labels=labels, train_mask=labels >= 0)
    np.testing.assert_allclose(gs.LabelPropagation().fit(graph).predict(graph).mean[3], [2 / 3, 1 / 3])


def test_on_a_larger_graph_the_known_nodes_keep_their_labels() -> None:
    model = gs.LabelPropagation().fit(path_graph(node_ids=list("abcdefg")))
    larger = gs.from_arrays(np.ones((3, 1)), np.array([[0, 1], [1, 2]]), node_ids=["new", "a", "newer"])
    assert model.predict(larger).label.tolist() == ["0", "0", "0"]
    with pytest.raises(BadInput, match="no labels to spread"):
        model.predict(gs.from_arrays(np.ones((2, 1)), np.array([[0], [1]]), node_ids=["x", "y"]))
