"""To networkx and back."""

from __future__ import annotations

import networkx
import numpy as np
import pytest
import scipy.sparse as sp

from graphsde.base.errors import BadInput, UnknownName
from graphsde.graph.build import from_arrays
from graphsde.io.networkx_graph import from_networkx, to_networkx


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_there_and_back(sparse: bool, named: bool, directed: bool, weighted: bool) -> None:
    rng = np.random.default_rng(0)
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
        val_mask=[3],
        test_mask=[5, 6],
        directed=directed,
        duplicates="first",
    )
    result = to_networkx(graph)
    assert result.is_directed() == directed
    assert result.number_of_edges() == graph.num_edges // (1 if directed else 2)
    assert list(result.nodes) == graph.node_ids.tolist()
    again = from_networkx(result, directed=directed)
    assert again.fingerprint == graph.fingerprint
    assert again.feature_names == graph.feature_names
    for name, mask in graph.masks.items():
        assert np.array_equal(again.masks[name], mask)


def people() -> networkx.Graph:
    graph = networkx.Graph()
    graph.add_node("ann", age=30, member=True, town="Ulm", kind="a", place=[1.0, 2.0])
    graph.add_node("bob", age=41.5, member=False, kind="b", place=(3.0, 4.0))
    graph.add_node("cy", age=20, member=True, town="Bonn", place=np.array([5, 6]))
    graph.add_edges_from([("ann", "bob"), ("bob", "cy"), ("cy", "cy")])
    return graph


def test_attributes_become_columns() -> None:
    graph = from_networkx(people(), label="kind")
    assert graph.feature_names == ("age", "member", "place_0", "place_1")
    assert graph.features.tolist() == [[30, 1, 1, 2], [41.5, 0, 3, 4], [20, 1, 5, 6]]
    assert graph.categorical["town"].tolist() == ["Ulm", None, "Bonn"]
    assert graph.labels is not None
    assert graph.labels.tolist() == [0, 1, -1]
    assert graph.node_ids.tolist() == ["ann", "bob", "cy"]
    assert [note.count for note in graph.notes if note.code == "W-SELF-LOOPS"] == [1]


def test_chosen_attributes_and_degrees() -> None:
    assert from_networkx(people(), features=["age"]).feature_names == ("age",)
    assert from_networkx(people(), features="town").num_features == 1
    assert np.allclose(from_networkx(people(), features="degree").features[:, 0], np.log1p([1, 2, 1]))
    with pytest.raises(UnknownName, match="did you mean 'age'"):
        from_networkx(people(), features=["aeg"])


def test_an_undirected_graph_read_as_directed_keeps_both_directions() -> None:
    graph = from_networkx(people(), features=["age"], directed=True)
    assert graph.num_edges == 4
    arrows = networkx.DiGraph([("a", "b")])
    networkx.set_node_attributes(arrows, 1.0, "age")
    assert from_networkx(arrows, directed=True).num_edges == 1
    assert from_networkx(arrows).num_edges == 2


def test_parallel_edges_and_partial_weights() -> None:
    graph = networkx.MultiGraph()
    graph.add_nodes_from([(node, {"age": node}) for node in range(3)])
    graph.add_edge(0, 1, weight=2.0)
    graph.add_edge(0, 1, weight=3.0)
    graph.add_edge(1, 2)
    with pytest.raises(BadInput, match="E-DUP-WEIGHT"):
        from_networkx(graph)
    summed = from_networkx(graph, duplicates="sum").adjacency.matrix
    assert summed[0, 1] == summed[1, 0] == 5
    assert summed[1, 2] == 1


def test_tuples_as_nodes() -> None:
    grid = networkx.grid_2d_graph(2, 2)
    assert from_networkx(grid, features="degree").node_ids.tolist()[0] == "(0, 0)"


def test_values_that_can_not_be_columns() -> None:
    graph = people()
    graph.nodes["cy"]["age"] = "twenty"
    with pytest.raises(BadInput, match=r"E-FEAT-TYPE.*node cy"):
        from_networkx(graph)
    graph = people()
    graph.nodes["bob"]["place"] = [1.0]
    with pytest.raises(BadInput, match=r"E-ROW-LEN.*node bob"):
        from_networkx(graph)
    graph = people()
    del graph.nodes["bob"]["age"]
    with pytest.raises(BadInput, match=r"E-FEAT-NAN.*node bob, column age"):
        from_networkx(graph)
    assert from_networkx(graph, impute="mean").features[1, 0] == 25


def test_a_label_that_was_asked_for_must_be_there() -> None:
    graph = networkx.path_graph(3)
    networkx.set_node_attributes(graph, {0: 0.5, 1: 1.5, 2: 2.5}, "age")
    networkx.set_node_attributes(graph, {0: "a", 1: "b"}, "topic")
    assert from_networkx(graph, label="topic").num_classes == 2
    with pytest.raises(UnknownName) as caught:
        from_networkx(graph, label="topics")
    assert "topic" in str(caught.value) and "age" in str(caught.value)
    with pytest.raises(UnknownName):
        from_networkx(graph, features=["aeg"])
    assert from_networkx(graph).num_classes == 0  # nobody said that there are labels
