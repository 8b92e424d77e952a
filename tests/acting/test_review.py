"""The review list: who is on it, in which order, and why, by hand on a small graph."""

from __future__ import annotations

import numpy as np
import pytest

import graphsde as gs
from graphsde.acting.decisions import ClassDecisions
from graphsde.acting.review import importance_of
from graphsde.base.errors import BadInput, BadUsage, UnknownName
from graphsde.graph.build import from_arrays
from graphsde.graph.graph import Graph
from graphsde.prediction import ClassPrediction
from graphsde.prediction.columns import roles_of

NODES, OPEN = 900, np.arange(800, 900)


def population(**changes: object) -> tuple[Graph, ClassPrediction]:
    """Certain nodes that are right, but for the last hundred: without a label, with a doubt that grows with the id."""
    rng, role = np.random.default_rng(0), np.arange(NODES)
    doubt = rng.random(NODES) * 0.02
    doubt[OPEN] = np.linspace(0.3, 0.95, 100)
    options: dict[str, object] = {
        "labels": [None if node >= 800 else "a" for node in role],
        "class_names": ["a", "b", "c"],
        "feature_names": ["price", "weight"],
        "train_mask": role < 100, "val_mask": (role >= 100) & (role < 400), "test_mask": (role >= 400) & (role < 800),
    }  # fmt: skip
    features = np.stack([role % 7, np.ones(NODES)], axis=1).astype(np.float32)
    graph = from_arrays(features, np.stack([role, (role + 1) % NODES]), **(options | changes))  # type: ignore[arg-type]
    probs = np.stack([1 - doubt / 2, doubt / 2 * 0.9, doubt / 2 * 0.1], axis=1)
    return graph, ClassPrediction(probs[None], graph.node_ids, graph.class_names, "deterministic")


def decided(**changes: object) -> ClassDecisions:
    graph, prediction = population(**changes)
    found = gs.decide(prediction, graph, max_error=0.05, ood_by="entropy")
    assert isinstance(found, ClassDecisions)
    return found


def test_the_most_doubtful_come_first_and_known_labels_are_left_out() -> None:
    found = decided()
    review = found.review()
    assert review.nodes.tolist() == OPEN[::-1].tolist()  # as doubtful as their ids are high
    assert review.known == ((found.actions != "accept") & (np.arange(NODES) < 800)).sum() > 0
    everybody = found.review(known=True)
    assert len(everybody) == len(review) + review.known and everybody.known == 0
    columns = review.columns()
    assert list(columns) == [
        "rank", "id", "split", "action", "label", "confidence", "class_1", "probability_1", "class_2", "probability_2",
        "class_3", "probability_3", "uncertainty", "ood_p_value", "reason",
    ]  # fmt: skip
    assert columns["rank"].tolist() == list(range(1, 101)) and set(columns["split"]) == {None}
    first = review.rows(1)[0]
    assert first["id"] == 899 and (first["class_1"], first["class_2"], first["class_3"]) == ("a", "b", "c")
    assert first["probability_1"] == pytest.approx(1 - 0.95 / 2) and isinstance(first["id"], int)
    assert set(everybody.columns()["split"]) >= {None, "test"} and roles_of(found.graph)[5] == "train"


def test_a_column_of_importance_comes_before_doubt() -> None:
    found = decided()
    review = found.review("price")
    price = review.nodes % 7
    assert np.all(np.diff(price) <= 0) and np.all(np.diff(review.nodes)[np.diff(price) == 0] < 0)
    assert review.columns()["importance"].tolist() == price.tolist() and "price" in review.ordered_by
    own = found.review(np.arange(NODES, 0.0, -1.0))
    assert own.nodes.tolist() == OPEN.tolist()
    assert importance_of(found.graph, "degree")[1].tolist() == [2.0] * NODES
    sparse = found.graph.features
    import scipy.sparse as sp

    graph, _ = population()
    packed = from_arrays(sp.csr_array(sparse), [[0], [1]], feature_names=["price", "weight"])
    assert np.array_equal(importance_of(packed, "price")[1], importance_of(graph, "price")[1])


def test_a_wrong_column_is_refused_with_near_names() -> None:
    graph, _ = population()
    with pytest.raises(UnknownName, match="did you mean price") as caught:
        importance_of(graph, "prise")
    assert caught.value.code == "E-NAME"
    with pytest.raises(UnknownName, match="choose among degree, price, weight"):
        importance_of(graph, "zzz")
    with pytest.raises(BadInput, match="for each of 900 nodes"):
        importance_of(graph, np.ones(5))
    texts = from_arrays([[1.0], [2.0]], [[0], [1]], categorical={"colour": np.array(["red", "blue"], dtype=object)})
    with pytest.raises(BadUsage, match="holds text"):
        importance_of(texts, "colour")


def test_reasons_by_hand() -> None:
    """A star: node 0 has neighbours of class b, the pair 6–7 is alone with itself, node 8 is without neighbours."""
    probs = np.array(
        [[0.9, 0.08, 0.02], *[[0.02, 0.96, 0.02]] * 4, [0.5, 0.45, 0.05], [0.36, 0.33, 0.31], [0.6, 0.3, 0.1],
         [0.97, 0.02, 0.01]]
    )  # fmt: skip
    nodes = 9
    graph = from_arrays(np.ones((nodes, 1)), [[0, 0, 0, 0, 5, 6], [1, 2, 3, 4, 6, 7]], labels=["a"] + [None] * 8,
                        class_names=["a", "b", "c"], test_mask=np.arange(nodes) == 0)  # fmt: skip
    found = gs.decide(ClassPrediction(probs[None], graph.node_ids, ("a", "b", "c"), "deterministic"), graph,
                      ood_by="entropy")  # fmt: skip
    reasons = dict(zip(*(found.review(known=True).columns()[name] for name in ("id", "reason")), strict=True))
    assert reasons[0] == "most neighbours have another class: 4 of 4 are b"
    assert reasons[5] == "two classes are almost equally likely: a 50 %, b 45 %"
    assert reasons[6] == "three classes are almost equally likely: a 36 %, b 33 %, c 31 %"
    assert reasons[7] == "no class is clear: a 60 %, b 30 %"
    assert reasons[8] == "it has no neighbours"
    assert reasons[1].startswith("most neighbours have another class: 1 of 1 are a")


def test_strange_nodes_are_said_to_be_strange() -> None:
    found = decided()
    review = found.review()
    flagged = found.ood.flagged[review.nodes]
    assert flagged.any()
    for reason, strange, p in zip(*(review.columns()[name] for name in ("reason", "action", "ood_p_value")),
                                  strict=True):  # fmt: skip
        assert f"% of known nodes are as unusual (OOD p-value {p:.2g})" in reason or strange != "ood"
        assert p >= 1 / 401


def test_names_stand_beside_ids() -> None:
    found = decided(node_names=[f"page {row}" for row in range(NODES)])
    columns = found.review().columns()
    assert list(columns)[:3] == ["rank", "id", "name"] and columns["name"][0] == "page 899"
    assert list(found.columns())[:2] == ["id", "name"]


def test_frames() -> None:
    pytest.importorskip("pandas", reason="pandas is not installed")
    found = decided()
    frame = found.review().to_pandas()
    assert frame["id"].tolist() == OPEN[::-1].tolist() and frame["class_1"].tolist() == ["a"] * 100
    assert found.to_pandas()["action"].tolist() == found.actions.tolist()


def test_numbers_are_listed_by_the_chance_of_a_large_error() -> None:
    rng, role = np.random.default_rng(1), np.arange(900)
    spread = rng.uniform(0.1, 3.0, 900)
    values = [None if node >= 600 else float(spread[node] * rng.normal()) for node in role]
    graph = from_arrays(np.ones((900, 1)), [[0], [1]], labels=values, target="regression", train_mask=role < 100,
                        val_mask=(role >= 100) & (role < 300), test_mask=(role >= 300) & (role < 600))  # fmt: skip
    prediction = gs.RegressionPrediction(np.zeros((1, 900)), (spread**2)[None], graph.node_ids, "deterministic")
    found = gs.decide(prediction, graph, tolerance=2.0, max_error=0.1)
    review = found.review()
    chance = review.columns()["chance_beyond"]
    assert len(review) and (review.nodes >= 600).all() and np.all(np.diff(chance) <= 0)
    assert review.rows(1)[0]["reason"] == f"{100 * chance[0]:.0f} % probability of being off by more than 2"
