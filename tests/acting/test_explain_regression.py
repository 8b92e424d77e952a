"""What moves a predicted number, against predictions made by hand."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import graphsde as gs
from graphsde.acting.explain import RegressionExplanation, explain
from graphsde.graph.adjacency import Adjacency


def test_neighbours_and_features_by_hand() -> None:
    graph = gs.load("diabetes")
    model = gs.LGNSDE(epochs=10, seed=0).fit(graph)
    found = explain(model, graph, 5, neighbours=4, features=2, samples=8)
    here = model.predict(graph, samples=8)
    row = int(np.flatnonzero(graph.node_ids == 5)[0])
    assert found.mean == float(here.mean[row]) and found.deviation == float(np.sqrt(here.total[row]))
    for one in found.neighbours:
        other = int(np.flatnonzero(graph.node_ids == one.id)[0])
        matrix = graph.adjacency.matrix.tolil()
        matrix[row, other] = matrix[other, row] = 0
        cut = graph.with_adjacency(Adjacency(matrix.tocsr(), directed=False))
        without = model.predict(cut, samples=8)
        assert one.adds == pytest.approx(found.deviation - float(np.sqrt(without.total[row])), abs=1e-6)
        assert one.moves == pytest.approx(found.mean - float(without.mean[row]), abs=1e-5)
    for effect in found.features:
        assert graph.feature_names is not None
        k = graph.feature_names.index(effect.name)
        features = np.array(graph.features)
        features[row, k] = features[:, k].mean(dtype=np.float64)
        without = model.predict(graph.with_features(features), samples=8)
        assert effect.moves == pytest.approx(found.mean - float(without.mean[row]), rel=1e-4, abs=1e-4)
    sizes = [abs(one.adds) for one in found.neighbours]
    assert sizes == sorted(sizes, reverse=True) and found.degree == len(graph.adjacency.neighbours(row))


def test_a_node_without_neighbours() -> None:
    graph = gs.load("diabetes")
    model = gs.GCN(epochs=2).fit(graph)
    matrix = graph.adjacency.matrix.tolil()
    matrix[0], matrix[:, 0] = 0, 0
    alone = dataclasses.replace(graph, adjacency=Adjacency(matrix.tocsr(), directed=False))
    found = explain(model, alone, graph.node_ids[0], features=1)
    assert found.neighbours == () and "no neighbours" in found.sentences[1] and found.alone_mean == found.mean
    assert isinstance(gs.explain(model, graph, 0), RegressionExplanation)


def test_text_columns_are_said_not_to_have_been_tried() -> None:
    rng = np.random.default_rng(0)
    kind = np.array(["a", "b"], dtype=object)[np.arange(40) % 2]
    role, values = np.arange(40) % 3, (np.arange(40) % 2) * 5.0 + rng.normal(size=40)
    graph = gs.from_arrays(
        np.zeros((40, 0), dtype=np.float32), rng.integers(0, 40, (2, 60)), labels=values, categorical={"kind": kind},
        target="regression", train_mask=role == 0, val_mask=role == 1, test_mask=role == 2,
    )  # fmt: skip
    found = explain(gs.GCN(epochs=5).fit(graph), graph, 0)
    assert found.features == () and "text columns were not" in found.how
