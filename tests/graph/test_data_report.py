"""What check says about a graph, against graphs whose oddities are planted."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest
import scipy.sparse as sp

from graphsde.graph.build import from_arrays
from graphsde.graph.checks import DataReport, check
from graphsde.graph.graph import Graph
from graphsde.graph.raw import Finding

RNG = np.random.default_rng(7)


def ring(nodes: int) -> np.ndarray:
    return np.stack([np.arange(nodes), (np.arange(nodes) + 1) % nodes])


def plain(nodes: int = 30, **parts: object) -> Graph:
    """Two classes side by side on a ring: nothing to complain about."""
    rng = np.random.default_rng(3)
    role = np.arange(nodes) % 3
    arguments: dict[str, object] = {
        "features": rng.normal(size=(nodes, 4)),
        "edges": ring(nodes),
        "labels": np.where(np.arange(nodes) < nodes // 2, "left", "right"),
        "train_mask": role == 0,
        "val_mask": role == 1,
        "test_mask": role == 2,
    }
    return from_arrays(**(arguments | parts))  # type: ignore[arg-type]


def found(graph: Graph, code: str) -> Finding:
    (finding,) = [one for one in check(graph).findings if one.code == code]
    return finding


def codes(graph: Graph) -> set[str]:
    return {one.code for one in check(graph).findings}


def test_a_plain_graph_has_nothing_odd() -> None:
    report = check(plain(60))
    assert not report.problems
    assert not report.warnings
    assert [note.code for note in report.notes] == ["W-SYMMETRISED"]
    assert "No problems" in str(report)


def test_facts() -> None:
    facts = check(plain()).facts
    assert (facts["nodes"], facts["edges"], facts["components"]) == (30, 60, 1)
    assert facts["degree"] == {"min": 2, "median": 2.0, "mean": 2.0, "max": 2}
    # of the two edges between classes each has a test node at one end
    assert facts["homophily"] == {"edge": 1.0, "adjusted": 1.0, "edges": 20}
    without_roles = check(plain(train_mask=None, val_mask=None, test_mask=None)).facts["homophily"]
    assert without_roles["edge"] == pytest.approx(56 / 60) and without_roles["edges"] == 60
    assert without_roles["adjusted"] == pytest.approx((56 / 60 - 0.5) / 0.5)
    assert facts["classes"] == {"left": 15, "right": 15}
    assert facts["labels_per_split"]["train"] == {"left": 5, "right": 5}
    assert facts["splits"] == {"train": 10, "val": 10, "test": 10}


def test_the_report_is_json_and_words() -> None:
    report = check(
        plain(labels=[None, *["left"] * 14, *["right"] * 15], train_mask=[3, 4, 20], val_mask=[5], test_mask=[0])
    )
    document = json.loads(json.dumps(report.as_dict(), allow_nan=False))
    assert document["facts"]["nodes"] == 30
    assert {one["code"] for one in document["findings"]} == {one.code for one in report.findings}
    text = str(report)
    assert "30 nodes, 30 undirected edges (60 directed entries)" in text
    assert "W-UNLABELLED  1 of 30 nodes is unlabelled" in text
    assert "0 (row 1)" in text
    with pytest.raises(dataclasses.FrozenInstanceError):
        report.facts = {}  # type: ignore[misc]


def test_hostile_names_are_escaped() -> None:
    ids = [f"n{row}" for row in range(29)] + ["\x1b[2J\u202eevil"]
    graph = plain(node_ids=ids, edges=ring(29), name="\x1b]0;x\x07")
    text = str(check(graph))
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "\\x1b[2J\\u202eevil (row 30)" in text


def test_isolated_nodes_and_components() -> None:
    graph = plain(edges=[[0, 1, 10], [1, 2, 11]], node_ids=np.arange(100, 130))
    finding = found(graph, "W-ISOLATED")
    assert finding.message == "25 isolated nodes: predicted from own features only"
    assert finding.where[0] == "103 (row 4)"
    assert found(graph, "W-COMPONENTS").count == 27
    assert "W-NO-EDGES" in codes(plain(edges=[]))


def test_directed_edges() -> None:
    assert "W-DIRECTED" in codes(plain(directed=True))


def test_neighbours_that_disagree() -> None:
    labels = np.where(np.arange(90) % 2, "left", "right")
    finding = found(plain(90, labels=labels), "W-HETEROPHILY")
    assert "0% of edges" in finding.message
    assert "-1.00" in finding.message
    assert "mlp" in (finding.hint or "")


def test_hubs_and_dense_graphs() -> None:
    star = plain(300, edges=np.stack([np.zeros(250, dtype=int), np.arange(1, 251)]))
    finding = found(star, "W-HUB")
    assert finding.where == ("0 (row 1)",)
    assert "250 neighbours, 83% of the graph" in finding.message
    complete = plain(120, edges=np.stack(np.nonzero(np.triu(np.ones((120, 120)), 1))))
    assert "W-DENSE" in codes(complete)
    assert "W-HUB" not in codes(complete)


@pytest.mark.parametrize("sparse", [False, True])
def test_columns_and_rows(sparse: bool) -> None:
    values = RNG.normal(size=(30, 5))
    values[:, 1] = 0
    values[:, 3] = 7
    values[4] = 0
    values[:, 3] = 7
    values[:, 0] *= 1e5
    graph = plain(features=sp.csr_array(values) if sparse else values, feature_names=list("abcde"))
    assert found(graph, "W-CONSTANT").where == ("b", "d")
    scale = found(graph, "W-SCALE")
    assert scale.where[0] == "a"
    assert "W-ZERO-ROWS" not in codes(graph)  # column d is 7 there
    nameless = plain(features=sp.csr_array(values[:, :3]) if sparse else values[:, :3])
    assert found(nameless, "W-ZERO-ROWS").where == ("4 (row 5)",)
    assert found(nameless, "W-CONSTANT").where == ("column 2",)


@pytest.mark.parametrize("sparse", [False, True])
def test_spread_is_the_standard_deviation(sparse: bool) -> None:
    values = np.where(RNG.random((30, 2)) < 0.5, 0, RNG.normal(size=(30, 2)) + 3)
    values[:, 1] *= 1e4
    finding = found(plain(features=sp.csr_array(values) if sparse else values), "W-SCALE")
    spread = values.astype(np.float32).std(axis=0, dtype=np.float64)
    assert f"standard deviation of {spread[1]:.3g}" in finding.message
    assert f"{spread[0]:.3g}" in finding.message


def test_equal_rows_and_leaking_twins() -> None:
    values = RNG.normal(size=(30, 4))
    values[20] = values[10]  # far apart on the ring: equal features only
    values[2] = values[0]  # both beside node 1
    edges = np.array([[0, 2, *range(3, 29)], [1, 1, *range(4, 30)]])
    graph = plain(features=values, edges=edges)
    assert found(graph, "W-DUP-ROWS").count == 4
    leak = found(graph, "W-TWIN-LEAK")
    assert leak.count == 1
    assert leak.where == ("2 (row 3) = 0 (row 1)",)
    assert "1 of them have its label" in leak.message
    free = graph.with_masks(train=graph.masks["train"], val=graph.masks["val"])  # node 2 has no role: nothing leaks
    assert "W-TWIN-LEAK" not in codes(free)
    moved = graph.with_masks(train=graph.masks["train"] & (np.arange(30) != 0), val=graph.masks["val"])
    assert "W-TWIN-LEAK" not in codes(moved)


def test_classes() -> None:
    labels = ["Cat"] * 25 + ["cat "] * 2 + ["dog"] * 3
    train = np.zeros(30, dtype=bool)
    train[[0, 1, 2, 3, 4, 5, 27]] = True
    graph = plain(labels=labels, train_mask=train, val_mask=[6, 28], test_mask=[25, 26])
    assert "Cat has 25 nodes, cat  2 (12 to 1)" in found(graph, "W-IMBALANCE").message
    assert found(graph, "W-CLASS-SIMILAR").where == ("'Cat' and 'cat '",)
    assert found(graph, "W-CLASS-FEW").where == ("dog: 1",)
    assert "1 class occurs in test but not in training: cat " in found(graph, "W-CLASS-UNSEEN").message
    assert found(plain(labels=[0, 1] * 15, class_names=["a", "b", "c"]), "W-CLASS-EMPTY").where == ("c",)


def test_unlabelled_test_nodes_can_not_be_scored() -> None:
    labels = [None if row % 3 == 2 and row < 9 else "left" if row < 15 else "right" for row in range(30)]
    assert found(plain(labels=labels), "W-SPLIT-UNLABELLED").count == 3
    assert found(plain(labels=labels), "W-UNLABELLED").count == 3


def test_categories() -> None:
    towns = ["Ulm", None, *["Bonn"] * 28]
    graph = plain(categorical={"town": towns, "name": [f"p{row}" for row in range(30)], "planet": ["Earth"] * 30})
    assert found(graph, "W-CATEGORY-MISSING").where == ("1 (row 2)",)
    assert found(graph, "W-CATEGORY-MANY").where == ("name",)
    assert found(graph, "W-CONSTANT").where == ("planet",)


def test_a_column_that_is_the_label() -> None:
    labels = np.where(np.arange(30) < 15, "left", "right")
    values = RNG.normal(size=(30, 3))
    values[:, 1] = np.where(labels == "left", 3.0, 8.0)
    graph = plain(features=values, categorical={"side": labels, "town": ["a", "b", "c"] * 10})
    assert found(graph, "W-LABEL-COLUMN").where == ("side", "column 2")


def test_problems_are_what_fit_refuses() -> None:
    def problems(graph: Graph) -> list[str]:
        return [finding.code for finding in check(graph).problems]

    assert problems(plain(labels=None)) == ["E-NO-LABELS"]
    assert problems(plain(labels=["a"] * 30)) == ["E-ONE-CLASS"]
    assert problems(plain(val_mask=None)) == ["E-SPLIT-EMPTY"]
    no_split = plain(train_mask=None, val_mask=None, test_mask=None)
    assert problems(no_split) == []
    assert "W-NO-SPLIT" in codes(no_split)
    assert problems(plain(labels=["a"] * 30, train_mask=None, val_mask=None, test_mask=None)) == ["E-ONE-CLASS"]
    every = np.ones(30, dtype=bool)
    assert problems(plain().with_masks(train=every, val=every)) == ["E-SPLIT-OVERLAP"]


def test_few_nodes_to_judge_by() -> None:
    few = found(plain(30), "W-SPLIT-SMALL")
    assert few.message == "only 10 validation nodes and 10 test nodes" and "the test figures" in str(few.hint)
    one = found(plain(60, val_mask=[1]), "W-SPLIT-SMALL")
    assert one.message == "only 1 validation node" and "test" not in str(one.hint)
    assert "W-SPLIT-SMALL" not in codes(plain(60))
    assert "W-SPLIT-SMALL" not in codes(plain(60, test_mask=None))  # nothing is measured, as wanted
    unlabelled = ["left", *[None] * 29, *["right"] * 30]
    assert "10 validation nodes" in found(plain(60, labels=unlabelled, train_mask=[0, 57]), "W-SPLIT-SMALL").message


def test_the_split_that_will_be_drawn_is_checked() -> None:
    bare = plain(30, train_mask=None, val_mask=None, test_mask=None)
    divided = bare.with_masks(train=np.arange(30) < 18, val=np.arange(30) == 20, test=np.arange(30) > 20)
    findings = {one.code: one for one in check(bare, divided=divided).findings}
    assert findings["W-CLASS-FEW"].where == ("right: 3",)
    assert (
        findings["W-SPLIT-SMALL"].message == "only 1 validation node and 9 test nodes of the split that fit would draw"
    )
    assert not {"W-CLASS-FEW", "W-SPLIT-SMALL"} & codes(bare)


def test_one_of_anything_is_singular() -> None:
    graph = from_arrays(
        [[1.0], [2.0]],
        [[0], [1]],
        labels=["a", "a"],
        categorical={"town": ["x", "y"]},
        directed=True,
        class_names=["a"],
    )
    text = str(check(graph))
    assert "2 nodes, 1 directed edge\n" in text and "Labels: 1 class, 0 nodes unlabelled" in text
    assert "Features: 1 numeric column (100.0% not zero), 1 categorical column\n" in text
    similar = plain(labels=["Left", *["left"] * 14, *["right"] * 15])
    assert found(similar, "W-CLASS-SIMILAR").message.startswith("1 pair of classes differs only")


def test_notes_of_reading_are_not_told_twice() -> None:
    graph = plain(labels=[None, *["left"] * 14, *["right"] * 15], train_mask=[3, 20], val_mask=[5], test_mask=[6])
    told = [finding.code for finding in check(graph).findings]
    assert len(told) == len(set(told))
    part = graph.subgraph(np.arange(1, 30))
    assert "W-UNLABELLED" not in codes(part)


def test_a_report_without_findings_prints() -> None:
    report = check(plain())
    assert str(DataReport(report.facts, ()))


def test_names_of_classes_without_a_label() -> None:
    graph = from_arrays(np.arange(4.0)[:, None], [[0], [1]], labels=[None] * 4, class_names=["u", "v"])
    codes = {finding.code for finding in check(graph).findings}
    assert "E-NO-LABELS" in codes and "E-ONE-CLASS" not in codes


def nearly_all_zeros(classes: int) -> Graph:
    """Dense features with every oddity that the check looks for, and ones in one place of a hundred."""
    rng = np.random.default_rng(classes)
    nodes, width = 60 * classes, 400
    labels = np.repeat(np.arange(classes), 60)
    features = (rng.random((nodes, width)) < 0.01) * rng.normal(size=(nodes, width))  # no two spreads are equal
    features[20] = features[30]
    features[:, 3] = 0  # constant
    features[:, 4] = 5
    features[:, 7] = labels  # names the class, with one class at zero
    features[:, 8] = labels == 0  # names the class where there are two
    features[:, 9] *= 1e5
    role = np.arange(nodes) % 3
    masks = {"train_mask": role == 0, "val_mask": role == 1, "test_mask": role == 2}
    return from_arrays(features, ring(nodes), labels=labels, **masks)


@pytest.mark.parametrize("classes", [2, 3])
def test_zeros_are_passed_over_without_changing_what_is_found(classes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    from graphsde.graph import check_features

    graph = nearly_all_zeros(classes)
    usual = check(graph).findings
    assert {"W-CONSTANT", "W-SCALE", "W-LABEL-COLUMN", "W-DUP-ROWS"} <= {one.code for one in usual}
    monkeypatch.setattr(check_features, "TWIN_BLOCK", 1000)
    assert sp.issparse(check_features._without_zeros(graph).features)
    assert check(graph).findings == usual
    exact = check_features._without_zeros(graph).features
    np.testing.assert_array_equal(exact.toarray(), graph.features)
    full = graph.with_features(graph.features + 1)
    assert check_features._without_zeros(full) is full
