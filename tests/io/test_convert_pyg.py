"""To PyG and back."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from graphsde.base.errors import BadInput, BadUsage, MissingExtra
from graphsde.graph.build import from_arrays
from graphsde.graph.graph import Graph
from graphsde.io.pyg import from_pyg, to_pyg

pyg = pytest.importorskip("torch_geometric.data")


def some_graph(*, sparse: bool, directed: bool, weighted: bool) -> Graph:
    rng = np.random.default_rng(0)
    values = np.where(rng.random((12, 5)) < 0.5, rng.normal(size=(12, 5)), 0)
    edges = rng.integers(0, 11, (2, 30))
    return from_arrays(
        sp.csr_array(values) if sparse else values,
        edges,
        labels=[*"abcabcabcab", None],
        node_ids=[f"n{row}" for row in range(12)] if sparse else np.arange(50, 62),
        feature_names=list("vwxyz") if sparse else None,
        categorical={"town": ["u", None] * 6} if directed else None,
        weights=rng.uniform(1, 2, 30) if weighted else None,
        train_mask=[0, 1, 2],
        val_mask=[3],
        calibration_mask=[4],
        test_mask=[5, 6],
        directed=directed,
        duplicates="first",
    )


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_there_and_back(sparse: bool, directed: bool, weighted: bool) -> None:
    graph = some_graph(sparse=sparse, directed=directed, weighted=weighted)
    data = to_pyg(graph)
    assert data.x.layout is (torch.sparse_csr if sparse else torch.strided)
    assert ("edge_weight" in data) == weighted
    assert data.num_edges == graph.num_edges
    again = from_pyg(data, directed=directed)
    assert again.fingerprint == graph.fingerprint
    assert again.feature_names == graph.feature_names
    assert again.is_sparse == sparse
    assert again.masks.keys() == graph.masks.keys()
    for name, mask in graph.masks.items():
        assert np.array_equal(again.masks[name], mask)
    assert [note.code for note in again.notes] == ["W-UNLABELLED"]


def data(**parts: object) -> object:
    arguments: dict[str, object] = {"x": torch.eye(4), "edge_index": torch.tensor([[0, 1], [1, 2]])}
    return pyg.Data(**(arguments | parts))


def test_layouts_of_others() -> None:
    graph = from_pyg(data(x=torch.eye(4).to_sparse(), y=torch.tensor([[0], [1], [1], [0]])))
    assert graph.is_sparse
    assert np.array_equal(graph.features.toarray(), np.eye(4))
    assert graph.labels is not None
    assert graph.labels.tolist() == [0, 1, 1, 0]
    for attribute in (torch.tensor([2.0, 3.0]), torch.tensor([[2.0], [3.0]])):
        assert from_pyg(data(edge_attr=attribute)).adjacency.matrix[0, 1] == 2
    wide = from_pyg(data(edge_attr=torch.ones(2, 3)))
    assert not wide.adjacency.is_weighted
    assert "W-EDGE-ATTR" in [note.code for note in wide.notes]
    assert from_pyg(data(x=None, num_nodes=4), features="degree").num_features == 1


def test_masks_with_several_splits() -> None:
    masks = torch.eye(4, dtype=torch.bool)
    several = data(train_mask=masks, y=torch.tensor([0, 1, 0, 1]))
    assert np.flatnonzero(from_pyg(several, split_index=2).train_mask).tolist() == [2]
    assert np.flatnonzero(from_pyg(several).train_mask).tolist() == [0]
    with pytest.raises(BadUsage, match="no split 4"):
        from_pyg(several, split_index=4)


def test_what_can_not_be_read() -> None:
    with pytest.raises(BadInput, match="to_homogeneous"):
        from_pyg(pyg.HeteroData())
    with pytest.raises(BadInput, match="E-LABEL-SHAPE"):
        from_pyg(data(y=torch.eye(4)))
    with pytest.raises(BadInput, match="node 2, column 3"):
        from_pyg(data(x=torch.where(torch.eye(4) > 0, torch.tensor([0.0, 0, torch.nan, 0]), 0.0)))


def test_without_pyg(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch_geometric.data", None)
    with pytest.raises(MissingExtra, match=r"graphsde\[pyg\]"):
        to_pyg(some_graph(sparse=False, directed=False, weighted=False))


def test_a_split_that_was_asked_for_must_be_there() -> None:
    data = pyg.Data(
        x=torch.eye(3),
        edge_index=torch.tensor([[0, 1], [1, 2]]),
        y=torch.tensor([0, 1, 1]),
        train_mask=torch.tensor([True, True, False]),
    )
    assert from_pyg(data).masks["train"].sum() == 2
    with pytest.raises(BadUsage) as caught:
        from_pyg(data, split_index=3)
    assert caught.value.code == "E-MASK-NUMBER"
