"""Data frames in, a graph out, and back."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Callable

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from graphsde.base.errors import BadInput, BadUsage, MissingExtra, UnknownName
from graphsde.graph.build import from_arrays
from graphsde.io.pandas_frames import from_pandas, to_pandas
from graphsde.prediction import ClassPrediction
from graphsde.prediction.columns import prediction_columns

pd = pytest.importorskip("pandas", reason="the extra 'pandas' is not installed")

EDGES = {"source": ["a", "b"], "target": ["b", "c"]}


def people(**columns: object) -> pd.DataFrame:
    return pd.DataFrame({"id": ["a", "b", "c"], **columns})


def test_columns_become_what_they_are() -> None:
    nodes = people(
        age=[31, 25, 40],
        member=[True, False, True],
        visits=pd.array([1, 2, 3], dtype="Int64"),
        town=["Ulm", None, "Bonn"],
        size=pd.Categorical([2, 3, None]),
        label=["yes", None, "no"],
        split=["train", None, "test"],
    )
    graph = from_pandas(nodes, pd.DataFrame({**EDGES, "weight": [0.5, 2.0], "since": [1, 2]}))
    assert graph.node_ids.tolist() == ["a", "b", "c"]
    assert graph.feature_names == ("age", "member", "visits")
    np.testing.assert_array_equal(graph.features, np.float32([[31, 1, 1], [25, 0, 2], [40, 1, 3]]))
    assert graph.categorical["town"].tolist() == ["Ulm", None, "Bonn"]
    # pandas stores codes; the text is that of the category
    assert graph.categorical["size"].tolist() == ["2", "3", None]
    assert graph.class_names == ("no", "yes") and graph.labels is not None
    assert graph.labels.tolist() == [1, -1, 0]
    assert graph.role("train").tolist() == [True, False, False]
    assert graph.adjacency.matrix.toarray().tolist() == [[0, 0.5, 0], [0.5, 0, 2], [0, 2, 0]]
    assert [note.code for note in graph.notes if note.code == "W-EDGE-COLUMNS"] == ["W-EDGE-COLUMNS"]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"words": ["note"]}, "str.split()"),
        ({"categorical": ["zip"]}, "astype(str)"),
        ({"drop": ["x"]}, "nodes.drop(columns="),
        ({"lable": "kind"}, "did you mean 'label'?"),
        ({"impuet": "mean"}, "did you mean 'impute'?"),
    ],
)
def test_options_that_frames_do_not_have(given: dict[str, object], told: str) -> None:
    with pytest.raises(BadUsage) as caught:
        from_pandas(people(x=[1, 2, 3]), pd.DataFrame(EDGES), **given)  # type: ignore[arg-type]
    assert told in str(caught.value.fix)


def test_an_index_that_was_taken_for_ids() -> None:
    nodes, edges = pd.DataFrame({"x": [1, 2, 3], "who": ["a", "b", "c"]}), pd.DataFrame(EDGES)
    with pytest.raises(BadInput, match=r"its index is used as ids; name the column of ids: id='who'"):
        from_pandas(nodes, edges)
    assert from_pandas(nodes, edges, id="who").num_edges == 4
    with pytest.raises(BadInput, match="name the column of ids: id=COLUMN"):
        from_pandas(nodes[["x"]], edges)
    with pytest.raises(BadInput, match="add the missing nodes"):
        from_pandas(nodes.iloc[:2], edges, id="who")


def test_other_column_names_and_chosen_features() -> None:
    nodes = pd.DataFrame({"who": [7, 9], "x": [1.0, 2.0], "y": [3.0, 4.0], "kind": [0.5, 1.5]})
    edges = pd.DataFrame({"one": [7], "two": [9], "strength": [3.0]})
    graph = from_pandas(
        nodes, edges, id="who", label="kind", source="one", target="two", weight="strength", features=["y"],
        directed=True, label_kind="regression", name="pair",
    )  # fmt: skip
    assert graph.name == "pair" and graph.feature_names == ("y",) and graph.adjacency.directed
    assert graph.values is not None and graph.values.tolist() == [0.5, 1.5]
    assert graph.adjacency.matrix.toarray().tolist() == [[0, 3], [0, 0]]
    assert from_pandas(nodes, edges, id="who", source="one", target="two", features="degree").num_features == 1


@pytest.mark.parametrize("ids", [["a", "b", "c"], [5, 900, 10**12], ["007", "8", "9"]])
def test_the_index_names_the_nodes(ids: list[object]) -> None:
    nodes = pd.DataFrame({"x": [1.0, 2.0, 3.0]}, index=ids)
    graph = from_pandas(nodes, pd.DataFrame({"source": ids[:2], "target": ids[1:]}))
    assert graph.node_ids.tolist() == ids and graph.num_edges == 4
    beside = nodes.assign(id=[1, 2, 3])
    assert from_pandas(beside, pd.DataFrame({"source": [1], "target": [2]})).node_ids.tolist() == [1, 2, 3]
    assert from_pandas(beside, pd.DataFrame({"source": ids[:2], "target": ids[1:]}), id=None).feature_names == (
        "x",
        "id",
    )


def test_uuids_are_their_text() -> None:
    ids = [uuid.UUID(int=number) for number in range(3)]
    edges = pd.DataFrame({"source": ids[:2], "target": [str(one) for one in ids[1:]]})
    assert from_pandas(people(x=[1, 2, 3]).assign(id=ids), edges).node_ids.tolist() == [str(one) for one in ids]


@pytest.mark.parametrize(
    "ids",
    [
        [(1, 2), (3, 4), (5, 6)],
        pd.date_range("2020-01-01", periods=3),
        [1.0, 2.0, 3.0],
        [b"a", b"b", b"c"],
        ["a", None, "c"],
        [True, False, True],
    ],
)
def test_other_ids_are_refused_on_both_sides(ids: object) -> None:
    with pytest.raises(BadInput) as error:
        from_pandas(people(x=[1, 2, 3]).assign(id=ids), pd.DataFrame(EDGES))
    assert error.value.code == "E-ID-FORM" and "nodes, row" in str(error.value)
    edges = pd.DataFrame({"source": ["a", "b", "c"], "target": ids})
    with pytest.raises(BadInput) as error:
        from_pandas(people(x=[1, 2, 3]), edges)
    assert error.value.code == "E-ID-FORM" and "edges, row" in str(error.value)


def test_an_index_of_several_levels_is_refused() -> None:
    index = pd.MultiIndex.from_tuples([("a", 1), ("a", 2)])
    with pytest.raises(BadInput, match="E-ID-FORM"):
        from_pandas(pd.DataFrame({"x": [1, 2]}, index=index), pd.DataFrame(EDGES))


@pytest.mark.parametrize(
    ("column", "code"),
    [
        (pd.date_range("2020-01-01", periods=3), "E-DTYPE"),
        (pd.to_timedelta([1, 2, 3], unit="D"), "E-DTYPE"),
        ([1j, 2j, 3j], "E-DTYPE"),
        ([{}, {}, {}], "E-DTYPE"),
        ([1, "x", 2], "E-FEAT-TYPE"),
        ([1.0, np.nan, 2.0], "E-FEAT-NAN"),
        ([1.0, np.inf, 2.0], "E-FEAT-INF"),
    ],
)
def test_columns_that_are_no_features(column: object, code: str) -> None:
    with pytest.raises(BadInput) as error:
        from_pandas(people(x=column), pd.DataFrame(EDGES))
    assert error.value.code == code and "column x" in str(error.value)
    assert from_pandas(people(x=column, y=[1, 2, 3]), pd.DataFrame(EDGES), features=["y"]).num_features == 1


def test_what_is_not_there_is_named() -> None:
    nodes, edges = people(x=[1, 2, 3]), pd.DataFrame(EDGES)
    with pytest.raises(UnknownName, match="kind"):
        from_pandas(nodes, edges, label="kind")
    with pytest.raises(UnknownName, match="sorce"):
        from_pandas(nodes, edges, source="sorce")
    with pytest.raises(BadUsage, match="another role"):
        from_pandas(nodes, edges, features=["id", "x"])
    with pytest.raises(BadUsage, match="DataFrame"):
        from_pandas(nodes.to_numpy(), edges)
    with pytest.raises(BadInput, match="E-HEADER"):
        from_pandas(pd.concat([nodes, nodes["x"]], axis=1), edges)
    with pytest.raises(BadInput, match="E-WEIGHT"):
        from_pandas(nodes, edges.assign(weight=["much", "little"]))


@given(
    sparse=st.booleans(), named=st.booleans(), directed=st.booleans(), weighted=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)  # fmt: skip
def test_there_and_back(sparse: bool, named: bool, directed: bool, weighted: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = np.where(rng.random((9, 4)) < 0.5, rng.normal(size=(9, 4)), 0)
    values[:, 3] = 0  # an empty last column must survive
    graph = from_arrays(
        sp.csr_array(values) if sparse else values,
        rng.integers(0, 8, (2, 16)),
        labels=[*"abcabcab", None],
        node_ids=[f"n{row}" for row in range(9)] if named else np.arange(40, 49),
        feature_names=list("wxyz") if named else None,
        categorical={"town": ["u", "v", None] * 3},
        weights=rng.uniform(1, 2, 16) if weighted else None,
        train_mask=[0, 1, 2],
        test_mask=[5, 6],
        directed=directed,
        duplicates="first",
    )
    again = from_pandas(*to_pandas(graph), directed=directed)
    assert again.fingerprint == graph.fingerprint
    assert again.is_sparse == sparse
    for role in ("train", "test"):
        np.testing.assert_array_equal(again.role(role), graph.role(role))


def test_a_feature_called_label_can_not_be_written() -> None:
    with pytest.raises(BadInput, match="E-COLUMN-DUP"):
        to_pandas(from_arrays([[1.0], [2.0]], [[0], [1]], labels=[0, 1], feature_names=["label"]))


def test_predictions_as_a_frame(make_prediction: Callable[..., ClassPrediction]) -> None:
    prediction = make_prediction()
    frame = prediction.to_pandas()
    columns = prediction_columns(prediction)
    assert frame.columns.tolist() == list(columns) and len(frame) == prediction.num_items
    np.testing.assert_array_equal(frame["confidence"], prediction.confidence)
    np.testing.assert_array_equal(frame[f"p:{prediction.class_names[1]}"], prediction.mean[:, 1])


def test_without_pandas_the_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, make_prediction: Callable[..., ClassPrediction]
) -> None:
    nodes, edges = people(x=[1, 2, 3]), pd.DataFrame(EDGES)
    monkeypatch.setitem(sys.modules, "pandas", None)
    for call in (lambda: from_pandas(nodes, edges), lambda: make_prediction().to_pandas()):
        with pytest.raises(MissingExtra, match=r"graphsde\[pandas\]"):
            call()
