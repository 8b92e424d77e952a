"""The door to a Graph: sizes, ids, roles, options, and that nothing depends on the order of rows."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from graphsde.base.errors import BadInput, BadUsage
from graphsde.graph.build import assemble, from_arrays, options_from
from graphsde.graph.raw import RawGraph, ReadOptions

X = np.arange(8.0).reshape(4, 2)
EDGES = np.array([[0, 1, 2], [1, 2, 3]])


def refused(*arguments: object, **options: object) -> BadInput:
    with pytest.raises(BadInput) as caught:
        from_arrays(*arguments, **options)  # type: ignore[arg-type]
    return caught.value


def codes(graph: object) -> list[str]:
    return [note.code for note in graph.notes]  # type: ignore[attr-defined]


def test_a_plain_graph() -> None:
    graph = from_arrays(
        X,
        EDGES,
        labels=["b", "a", None, "a"],
        node_ids=["p", "q", "r", "s"],
        feature_names=["age", "height"],
        categorical={"town": ["Ulm", "NA", float("nan"), "Bonn"]},
        train_mask=[0, 1],
        val_mask=[3],
        name="people",
    )
    assert repr(graph) == "Graph('people', nodes=4, edges=6, features=3, classes=2)"
    assert graph.labels is not None
    assert graph.labels.tolist() == [1, 0, -1, 0]
    assert graph.class_names == ("a", "b")
    assert graph.node_ids.tolist() == ["p", "q", "r", "s"]
    assert graph.feature_names == ("age", "height")
    assert graph.categorical["town"].tolist() == ["Ulm", None, None, "Bonn"]
    assert np.flatnonzero(graph.train_mask).tolist() == [0, 1]
    assert graph.test_mask is None
    assert codes(graph) == ["W-SYMMETRISED", "W-UNLABELLED"]


def test_every_array_is_read_only_and_none_is_the_users() -> None:
    features, labels, mask = X.astype(np.float32), np.array([0, 1, 0, 1]), np.array([True, False, False, False])
    for matrix in (features, sp.csr_array(features)):
        graph = from_arrays(matrix, EDGES, labels=labels, train_mask=mask, categorical={"c": ["x"] * 4})
        adjacency = graph.adjacency.matrix
        arrays = [graph.labels, graph.node_ids, graph.train_mask, graph.categorical["c"], adjacency.data]
        arrays += [adjacency.indices, adjacency.indptr]
        arrays += [graph.features.data, graph.features.indices] if graph.is_sparse else [graph.features]
        for array in arrays:
            with pytest.raises(ValueError, match="read-only"):
                array[0] = array[1]
        with pytest.raises(TypeError):
            graph.masks["train"] = mask  # type: ignore[index]
        assert (graph.adjacency.normalized @ graph.features).shape == (4, 2)
        assert graph.subgraph(np.array([0, 1])).num_edges == 2
    features[0, 0] = labels[0] = mask[0] = 1  # still the user's own


@pytest.mark.parametrize(
    ("build", "code", "words"),
    [
        (lambda: refused(np.zeros((0, 2)), np.zeros((2, 0), dtype=int)), "E-EMPTY", "no nodes"),
        (lambda: refused([[1.0]], []), "E-TOO-SMALL", "single node"),
        (lambda: refused(X, EDGES, labels=[0, 1, 0]), "E-LEN", "3 vs 4"),
        (lambda: refused(X, EDGES, node_ids=[0, 1, 2]), "E-LEN", "3 vs 4"),
        (lambda: refused(X, EDGES, train_mask=np.ones(5, dtype=bool)), "E-LEN", "5 vs 4"),
        (lambda: refused(X, EDGES, categorical={"c": ["x"]}), "E-LEN", "1 vs 4"),
        (lambda: refused(X, EDGES, weights=[1.0]), "E-LEN", "1 weights"),
        (lambda: refused(X, sp.eye_array(5)), "E-LEN", "5×5"),
        (lambda: refused(np.zeros((4, 0)), EDGES), "E-NO-FEATURES", "no features"),
        (lambda: refused(sp.csr_array((4, 0)), EDGES), "E-NO-FEATURES", "no features"),
        (lambda: refused(None, EDGES, labels=[0, 1, 0, 1]), "E-NO-FEATURES", "no features"),
        (lambda: refused(X, EDGES.T), "E-SHAPE", "(3, 2)"),
        (lambda: refused(X, EDGES.astype(float)), "E-DTYPE", "float64"),
        (lambda: refused(X, [[0], [4]]), "E-EDGE-UNKNOWN", "4 (edge 1)"),
        (lambda: refused(X, EDGES, labels=[0, 1, -1, 0], train_mask=[1, 2]), "E-SPLIT-UNLABELLED", "2 (row 3)"),
        (lambda: refused(X, EDGES, train_mask=[1, 2], test_mask=[2]), "E-SPLIT-OVERLAP", "2 (row 3)"),
    ],
)
def test_refusals(build: object, code: str, words: str) -> None:
    error = build()  # type: ignore[operator]
    assert error.code == code
    assert words in error.message


def test_no_features_names_the_way_out() -> None:
    assert "--read features=degree" in (refused(None, EDGES, labels=[0, 1, 0, 1]).fix or "")
    graph = from_arrays("degree", EDGES, labels=[0, 1, 0, 1])
    assert np.allclose(graph.features[:, 0], np.log1p([1, 2, 2, 1]))
    assert graph.feature_names == ("log_degree",)
    assert from_arrays(features="degree", edges=sp.csr_array((3, 3))).num_nodes == 3
    assert from_arrays(None, EDGES, categorical={"c": list("abca")}).num_features == 1


def test_ids_far_apart_are_remapped() -> None:
    raw = RawGraph(
        3,
        node_ids=["5", "900", "1000000000"],
        numeric=np.eye(3),
        sources=["5", "1000000000"],
        targets=np.array([900, 5]),
    )
    graph = assemble(raw)
    assert graph.node_ids.tolist() == [5, 900, 10**9]
    assert graph.adjacency.neighbours(0).tolist() == [1, 2]


def test_unknown_ids_and_their_lines() -> None:
    raw = RawGraph(2, node_ids=["a", "b"], numeric=np.eye(2), sources=["a", "a"], targets=["b", "c"])
    with pytest.raises(BadInput, match=r"E-EDGE-UNKNOWN: 1 edge leads to an unknown node: c \(row 1\)"):
        assemble(raw)
    graph = assemble(raw, ReadOptions(unknown_edges="drop"))
    assert graph.num_edges == 2
    assert "W-EDGE-DROPPED" in codes(graph)


def test_a_split_column_and_masks_exclude_each_other() -> None:
    raw = RawGraph(2, numeric=np.eye(2), split=["train", "test"], masks={"train": [0]})
    with pytest.raises(BadInput, match="both a split column and masks"):
        assemble(raw)
    raw.masks = {}
    assert assemble(raw).masks.keys() == {"train", "test"}


def test_classes_that_training_never_sees() -> None:
    masks = {"train_mask": [0, 1], "test_mask": [2, 3]}
    graph = from_arrays(X, EDGES, labels=["a", "b", "c", "c"], **masks)
    (warning,) = [note for note in graph.notes if note.code == "W-CLASS-UNSEEN"]
    assert warning.level == "warning"
    assert "1 class occurs in test but not in training: c (2 test nodes)" in warning.message
    assert refused(X, EDGES, labels=["a", "b", "c", "c"], strict=True, **masks).code == "E-CLASS-UNSEEN"


def test_labels_of_all_kinds_of_missing_make_no_labels() -> None:
    graph = from_arrays(X, EDGES, labels=[None, "", "NA", float("nan")])
    assert graph.labels is None
    assert graph.num_classes == 0
    kept = from_arrays(X, EDGES, labels=[-1, -1, -1, -1], class_names=["a", "b"])
    assert kept.labels is not None
    assert kept.class_names == ("a", "b")


def test_options_are_checked_by_name_and_value() -> None:
    assert options_from({"directed": True}).directed
    with pytest.raises(BadUsage, match="did you mean 'directed'"):
        options_from({"direct": True})
    with pytest.raises(BadUsage, match="error, sum, first"):
        options_from({"duplicates": "last"})
    with pytest.raises(BadUsage, match="weights given twice"):
        from_arrays(X, sp.eye_array(4), weights=[1.0])
    with pytest.raises(BadUsage, match="number of nodes is unknown"):
        from_arrays("degree", EDGES)


def test_tensors_are_welcome() -> None:
    import torch

    graph = from_arrays(
        torch.eye(3), torch.tensor([[0, 1], [1, 2]]), labels=torch.tensor([0, 1, 1]), train_mask=torch.tensor([0, 1])
    )
    assert graph.num_classes == 2
    assert graph.num_edges == 4


@settings(max_examples=40, deadline=None)
@given(st.permutations(range(6)), st.integers(0, 2**32 - 1))
def test_order_of_rows_and_edges_does_not_matter(order: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    ids = np.array([f"n{row}" for row in range(6)], dtype=object)
    numeric, labels = rng.normal(size=(6, 3)), rng.integers(-1, 3, 6)
    split = [None if label < 0 else ["train", "val", "test"][row % 3] for row, label in enumerate(labels)]
    pairs = rng.integers(0, 6, (2, 9))

    def build(rows: list[int], columns: np.ndarray) -> object:
        return assemble(
            RawGraph(
                6,
                node_ids=ids[rows],
                numeric=numeric[rows],
                labels=labels[rows],
                split=[split[row] for row in rows],
                sources=ids[pairs[0, columns]],
                targets=ids[pairs[1, columns]],
            )
        )

    one = build(list(range(6)), np.arange(9))
    other = build(order, rng.permutation(9)).subgraph(np.argsort(order))  # type: ignore[attr-defined]
    assert other.fingerprint == one.fingerprint  # type: ignore[attr-defined]
    for name, mask in one.masks.items():  # type: ignore[attr-defined]
        assert np.array_equal(other.masks[name], mask)


def test_columns_must_differ_in_name_and_pictures_must_fit() -> None:
    twice = refused(X, EDGES, feature_names=["age", "town"], categorical={"town": ["x"] * 4})
    assert (twice.code, twice.found) == ("E-COLUMN-DUP", "town")
    assert refused(X, EDGES, categorical={"town": [["x"]] * 4}).code == "E-DTYPE"
    assert refused(X, EDGES, image_shape=(3, 3)).code == "E-SHAPE"
    assert from_arrays(X, EDGES, image_shape=(1, 2)).image_shape == (1, 2)


ODD = st.one_of(
    st.none(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=3),
    st.booleans(),
    st.lists(st.one_of(st.integers(-2, 5), st.floats(), st.text(max_size=2), st.none()), max_size=5),
    st.lists(st.lists(st.one_of(st.integers(-2, 5), st.floats(), st.text(max_size=2)), max_size=3), max_size=4),
    st.just(np.array(3.0)),
    st.just({1: 2}),
)


@settings(max_examples=100, deadline=None)
@given(ODD, ODD, ODD, ODD, ODD, ODD)
def test_any_values_give_a_graph_or_the_typed_error(
    features: object, edges: object, labels: object, ids: object, mask: object, weights: object
) -> None:
    for matrix, pairs in ((features, edges), (X, edges), (X, EDGES), (features, EDGES)):
        try:
            graph = from_arrays(matrix, pairs, labels=labels, node_ids=ids, train_mask=mask, weights=weights)
        except (BadInput, BadUsage) as error:
            assert error.code.startswith("E-")
        else:
            assert graph.num_nodes >= 2
            assert np.isfinite(graph.features).all()
