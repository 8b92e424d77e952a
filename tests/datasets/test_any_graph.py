"""What other libraries hold is fitted as it is, with the split that reading gives."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import networkx
import numpy as np
import pytest

import graphsde as gs
from graphsde.base.errors import BadInput, BadUsage


@pytest.fixture(scope="module")
def graph() -> gs.Graph:
    return gs.synthetic(60, classes=2, seed=0).with_masks()


class DGLStandIn:
    """The part of DGL's interface that is used."""

    is_homogeneous = True

    def __init__(self, graph: gs.Graph) -> None:
        import torch

        ends = graph.adjacency.edge_index()
        self._ends = torch.tensor(ends[0]), torch.tensor(ends[1])
        self.ndata: dict[str, Any] = {"feat": torch.tensor(graph.features), "label": torch.tensor(graph.labels)}
        self.edata: dict[str, Any] = {}
        self._count = graph.num_nodes

    def edges(self) -> Any:
        return self._ends

    def num_nodes(self) -> int:
        return self._count


DGLStandIn.__module__ = "dgl.heterograph"


def others(graph: gs.Graph) -> dict[str, Any]:
    pytest.importorskip("pandas", reason="the extra 'pandas' is not installed")
    pytest.importorskip("torch_geometric", reason="the extra 'pyg' is not installed")
    return {
        "networkx": gs.to_networkx(graph),
        "pyg": gs.to_pyg(graph),
        "pandas": gs.to_pandas(graph),
        "dgl": DGLStandIn(graph),
    }


@pytest.mark.parametrize("library", ["networkx", "pyg", "pandas", "dgl"])
def test_fit_and_predict_take_it_as_it_is(graph: gs.Graph, library: str) -> None:
    data = others(graph)[library]
    divided = gs.split(graph)
    assert divided.split == "stratified-60-15-25" and gs.as_graph(data).split == "stratified-60-15-25"
    expected = gs.LabelPropagation().fit(divided).predict(divided)
    found = gs.LabelPropagation().fit(data).predict(data)
    np.testing.assert_array_equal(found.mean, expected.mean)
    assert found.ids.tolist() == expected.ids.tolist()


def test_roles_that_are_there_are_kept(graph: gs.Graph) -> None:
    train = np.arange(60) < 20
    given = gs.to_networkx(graph.with_masks(train=train, test=~train))
    np.testing.assert_array_equal(gs.as_graph(given).role("train"), train)
    assert gs.as_graph(given, divide=False).split is None
    assert gs.as_graph(graph) is graph


def test_a_graph_without_labels_is_not_divided() -> None:
    path = networkx.path_graph(4)
    networkx.set_node_attributes(path, 1.0, "x")
    assert not gs.as_graph(path).masks


def test_split_gives_the_graph(graph: gs.Graph) -> None:
    again = gs.make_split(graph, "fractions", seed=3).apply(graph)
    found = gs.split(graph, "fractions", seed=3)
    for role, mask in again.masks.items():
        np.testing.assert_array_equal(found.role(role), mask)


@pytest.mark.parametrize("data", [None, "cora", 3, ([1], [2]), np.eye(3)])
def test_what_is_no_graph_is_refused(data: Any) -> None:
    with pytest.raises(BadUsage, match="is not a graph"):
        gs.LabelPropagation().fit(data)


def test_dgl(graph: gs.Graph) -> None:
    stand_in = DGLStandIn(graph)
    stand_in.ndata["train_mask"] = np.arange(60) < 9
    stand_in.edata["weight"] = np.full(graph.num_edges, 2.0)
    found = gs.from_dgl(stand_in, name="d")
    assert found.name == "d" and found.role("train").sum() == 9
    np.testing.assert_array_equal(found.adjacency.matrix.toarray(), 2 * graph.adjacency.matrix.toarray())
    with pytest.raises(BadInput, match="to_homogeneous"):
        gs.from_dgl(SimpleNamespace(is_homogeneous=False))
