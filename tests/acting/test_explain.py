"""What moves a node's uncertainty: against analytic truth, against differences, and on models without a gradient."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import graphsde as gs
from graphsde.acting.explain import explain, without_edges
from graphsde.acting.feature_effects import BY_GRADIENT
from graphsde.base.errors import BadInput, BadUsage
from graphsde.graph.graph import Graph
from graphsde.models.base import encode
from graphsde.models.neural import Inputs
from graphsde.models.perturbation import entropy_gradient
from graphsde.view.figures.nodes import ExplanationBars

from support import block_graph


def between_two() -> Graph:
    """Node "me" between a training node of class A and one of class B; C hangs on B."""
    return gs.from_arrays(
        np.eye(4, dtype=np.float32), np.array([[0, 0, 2], [1, 2, 3]]), node_ids=["me", "a", "b", "c"],
        labels=np.array([-1, 0, 1, -1]), class_names=["A", "B"], train_mask=np.array([False, True, True, False]),
        val_mask=np.array([False] * 4), name="between",
    )  # fmt: skip


def test_two_neighbours_of_different_classes_by_hand() -> None:
    graph = between_two()
    model = gs.LabelPropagation(alpha=1.0).fit(graph)
    found = explain(model, graph, "me")
    here = model.predict(graph).mean[0]
    assert found.entropy == pytest.approx(-float((here * np.log(here)).sum()))
    by_id = {one.id: one for one in found.neighbours}
    assert set(by_id) == {"a", "b"} and found.degree == 2
    # with one neighbour left, the label of that one is all that arrives
    assert by_id["a"].without == "B" and by_id["b"].without == "A"
    assert by_id["a"].adds == pytest.approx(found.entropy) and by_id["b"].adds == pytest.approx(found.entropy)
    own = 0 if found.predicted == "A" else 1
    assert by_id["a"].supports == pytest.approx(float(here[own]) - (0.0 if own == 0 else 1.0))
    assert by_id["a"].label == "A" and by_id["a"].weight == 1.0
    # alone it gets the frequencies of the classes in training
    assert found.alone == pytest.approx(np.log(2)) and not found.features and found.how.startswith("none")
    assert "depends on" in " ".join(found.sentences)


def test_cutting_takes_one_edge_away_in_the_direction_in_which_it_is_heard() -> None:
    graph = between_two()
    cut = without_edges(graph, 0, np.array([2]))
    gone = graph.adjacency.matrix.toarray() - cut.adjacency.matrix.toarray()
    assert np.argwhere(gone).tolist() == [[0, 2], [2, 0]]
    matrix = np.zeros((3, 3), dtype=np.float32)
    matrix[1, 0] = matrix[0, 1] = matrix[2, 0] = 1
    one_way = gs.from_arrays(np.eye(3, dtype=np.float32), sp.csr_array(matrix), directed=True)
    cut = without_edges(one_way, 0, np.array([1]))
    assert np.argwhere(cut.adjacency.matrix.toarray()).tolist() == [[0, 1], [2, 0]]  # 0 still speaks to 1


def test_the_gradient_of_the_entropy_is_that_of_differences() -> None:
    graph = block_graph()
    model = gs.GCN(epochs=10, hidden=4, scaling="none").fit(graph)
    node = int(model.predict(graph).total.argmax())
    assert model.encoder is not None
    slope = entropy_gradient(model, graph, Inputs(encode(model.encoder, graph), graph.adjacency.operator), node)
    for k in range(4):
        sides = []
        for step in (-0.02, 0.02):
            features = np.array(graph.features)
            features[node, k] += step
            sides.append(model.predict(graph.with_features(features)).total[node])
        assert float(slope[k]) == pytest.approx((sides[1] - sides[0]) / 0.04, rel=0.02, abs=1e-4)


def test_features_of_a_trained_model_are_named_largest_effect_first() -> None:
    graph = block_graph()
    model = gs.LGNSDE(epochs=8, hidden=8).fit(graph)
    found = explain(model, graph, 5, features=4, neighbours=2, samples=4)
    assert found.how == BY_GRADIENT and found.samples == 4 and len(found.features) == 4
    sizes = [abs(one.adds) for one in found.features]
    assert sizes == sorted(sizes, reverse=True) and found.epistemic is not None
    first = found.features[0]
    column = int(first.name.split()[-1]) if graph.feature_names is None else graph.feature_names.index(first.name)
    assert first.value == pytest.approx(float(graph.features[5, column]))
    assert first.average == pytest.approx(float(np.asarray(graph.features)[:, column].mean()), abs=1e-5)
    again = explain(model, graph, 5, features=4, neighbours=2, samples=4)
    assert again == found


def test_a_model_without_a_gradient_is_asked_again_feature_by_feature() -> None:
    graph = block_graph()
    model = gs.Ensemble(members=2, base="mlp", base_settings={"epochs": 5, "hidden": 4}).fit(graph)
    found = explain(model, graph, 3, features=3, neighbours=0)
    assert "by trial" in found.how and len(found.features) == 3 and not found.neighbours
    one = found.features[0]
    column = int(one.name.split()[-1])
    features = np.array(graph.features)
    features[3, column] = np.asarray(graph.features)[:, column].mean(dtype=np.float64)
    usual = model.predict(graph.with_features(features), samples=64).total[3]
    assert one.adds == pytest.approx(found.entropy - usual, abs=1e-6)


def test_of_a_hub_only_the_most_telling_neighbours_are_tried() -> None:
    n = 12
    star = np.array([[0] * (n - 1), list(range(1, n))])
    labels = np.array([-1] + [0] * 9 + [1, 1])
    graph = gs.from_arrays(
        np.eye(n, dtype=np.float32), star, labels=labels, class_names=["A", "B"], train_mask=labels >= 0,
        val_mask=np.zeros(n, dtype=bool),
    )  # fmt: skip
    found = explain(gs.LabelPropagation().fit(graph), graph, 0, neighbours=2)
    assert found.degree == 11 and {one.id for one in found.neighbours} == {10, 11}  # the two of other opinion
    assert all(one.adds > 0 for one in found.neighbours)


def test_sparse_features_and_a_node_without_neighbours() -> None:
    base = block_graph()
    features = sp.csr_array(np.where(np.asarray(base.features) > 1, 1.0, 0.0).astype(np.float32))
    matrix = base.adjacency.matrix.toarray()
    matrix[4, :] = matrix[:, 4] = 0
    graph = gs.from_arrays(
        features, sp.csr_array(matrix), labels=base.labels, class_names=base.class_names, train_mask=base.train_mask,
        val_mask=base.val_mask,
    )  # fmt: skip
    found = explain(gs.GCN(epochs=5, hidden=4).fit(graph), graph, 4)
    assert found.degree == 0 and found.alone == pytest.approx(found.entropy, abs=1e-6)
    assert "no neighbours" in found.sentences[1]
    trial = explain(gs.Ensemble(members=2, base="gcn", base_settings={"epochs": 3}).fit(graph), graph, 4, features=2)
    assert len(trial.features) == 2


def test_wrong_calls_are_told(blocks: Graph) -> None:
    model = gs.LabelPropagation().fit(blocks)
    with pytest.raises(BadInput, match="E-NODE-UNKNOWN"):
        explain(model, blocks, "nobody")
    with pytest.raises(BadUsage, match="can't be negative"):
        explain(model, blocks, 1, neighbours=-1)


def test_the_picture_shows_what_was_found(tmp_path: Path) -> None:
    graph = block_graph()
    found = explain(gs.GCN(epochs=5, hidden=4).fit(graph), graph, 2)
    picture = ExplanationBars.of(found)
    columns = picture.columns()
    drawn = {(panel, text): y for panel, text, y in zip(columns["panel"], columns["text"], columns["y"], strict=True)}
    for one in found.neighbours[:10]:
        assert drawn[1, f"{one.id} ({one.label or one.predicted})"] == pytest.approx(one.adds)
    for feature in found.features:
        assert drawn[2, feature.name] == pytest.approx(feature.adds)
    for name in ("e.png", "e.svg", "e.csv"):
        assert picture.save(tmp_path / name).stat().st_size > 200
    assert {trace.name for trace in picture.plotly().data} <= {"makes it less certain", "makes it more certain"}
    lonely = explain(gs.LabelPropagation().fit(between_two()), between_two(), "c", neighbours=0)
    ExplanationBars.of(lonely).save(tmp_path / "nothing.png")
