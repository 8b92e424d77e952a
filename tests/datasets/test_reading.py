from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import graphsde as gs
from graphsde.base.errors import BadInput
from graphsde.datasets.source import GraphSource

from support import block_graph


def test_a_graph_without_a_split_gets_one_by_class(tmp_path: Path) -> None:
    graph = block_graph(per_class=40)
    gs.write_tables(graph.with_masks(), tmp_path)
    read = gs.read(tmp_path)
    assert {role: int(mask.sum()) for role, mask in read.masks.items()} == {"train": 72, "val": 18, "test": 30}
    assert np.bincount(read.labels[read.train_mask]).tolist() == [24, 24, 24]
    assert read.split == "stratified-60-15-25"
    again = gs.read(tmp_path)
    assert all(np.array_equal(read.masks[role], again.masks[role]) for role in read.masks)
    gs.GCN(epochs=2).fit(read)


def test_a_given_split_is_kept(tmp_path: Path) -> None:
    graph = block_graph()
    gs.write_tables(graph, tmp_path)
    read = gs.read(tmp_path)
    assert read.split == "given"
    assert all(np.array_equal(graph.masks[role], read.masks[role]) for role in graph.masks)


def test_with_very_few_labels_training_comes_first_and_fit_says_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text("id,label,x\na,yes,1\nb,no,2\nc,,3\n")
    (tmp_path / "edges.csv").write_text("source,target\na,b\n")
    read = gs.read(tmp_path)
    assert int(read.train_mask.sum()) == 2
    with pytest.raises(BadInput, match="E-SPLIT-EMPTY"):
        gs.GCN().fit(read)
    gs.GCN(epochs=2, early_stop=False).fit(read)


def test_no_labels_no_split(tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text("id,x\na,1\nb,2\n")
    (tmp_path / "edges.csv").write_text("source,target\na,b\n")
    assert not gs.read(tmp_path).masks


def _folders(place: Path) -> list[Path]:
    """With and without roles, with roles of unlabelled nodes; tables, npz, GraphML; numbers."""
    import networkx as nx

    graph = block_graph(per_class=40)
    bare = graph.with_masks()
    gs.write_tables(bare, place / "bare")
    gs.write_tables(graph, place / "given")
    gs.write_tables(bare, place / "cora")
    gs.write_tables(gs.synthetic_regression(120), place / "numbers")
    half = graph.with_labels(np.where(graph.masks["test"] & (np.arange(120) % 2 == 0), -1, graph.labels))
    gs.write_tables(half, place / "half")
    arrays = {"features": graph.features, "edge_index": graph.adjacency.edge_index(), "labels": graph.labels}
    np.savez(place / "bare.npz", **arrays)
    np.savez(place / "given.npz", **arrays, **{f"{role}_mask": mask for role, mask in graph.masks.items()})
    people = nx.relabel_nodes(nx.from_scipy_sparse_array(graph.adjacency.matrix, edge_attribute="weight"), str)
    nx.set_node_attributes(
        people,
        {
            str(row): {"x": float(x), "label": str(label)}
            for row, (x, label) in enumerate(zip(graph.features[:, 0], graph.labels, strict=True))
        },
    )
    nx.write_graphml(people, place / "bare.graphml")
    return sorted(place.iterdir())


def test_python_and_the_command_line_read_the_same_graph_with_the_same_split(tmp_path: Path) -> None:
    splits = {}
    for path in _folders(tmp_path):
        read = gs.read(path)
        opened, facts = GraphSource.typed(str(path)).open()
        assert read.fingerprint == opened.fingerprint == facts["fingerprint"]
        assert read.split == opened.split == facts["split"] and list(read.masks) == list(opened.masks) != []
        assert all(np.array_equal(read.masks[role], opened.masks[role]) for role in read.masks)
        splits[path.name] = read.split
    given = {name for name, split in splits.items() if split == "given"}
    assert given == {"given", "given.npz", "half"} and set(splits.values()) == {"given", "stratified-60-15-25"}


@pytest.mark.parametrize("roles", [("test",), ("val", "test"), ("calibration",)])
def test_nodes_marked_as_test_are_never_trained_on_unasked(tmp_path: Path, roles: tuple[str, ...]) -> None:
    graph = block_graph(per_class=40)
    gs.write_tables(graph.with_masks(**{role: graph.role(role) for role in roles}), tmp_path)
    read = gs.read(tmp_path)
    assert all(np.array_equal(read.role(role), graph.role(role)) for role in roles) and set(read.masks) == set(roles)
    # check, Python and the command line agree
    assert [one.code for one in gs.check(read).problems] == ["E-SPLIT-EMPTY"]
    with pytest.raises(BadInput, match="E-SPLIT-EMPTY"):
        gs.GCN().fit(read)
    with pytest.raises(BadInput, match=r"E-SPLIT-EMPTY.*--split stratified-60-15-25") as caught:
        GraphSource.typed(str(tmp_path)).open()
    assert f"{roles[-1]} {graph.role(roles[-1]).sum()}" in str(caught.value.found)
    # what the message offers
    assert gs.split(read, "stratified-60-15-25").role("train").sum() == 72
    assert GraphSource.typed(str(tmp_path), split="stratified-60-15-25").open()[1]["sizes"]["train"] == 72
    assert gs.read(tmp_path, drop=["split"]).split == "stratified-60-15-25"


def test_the_command_line_refuses_what_has_no_label(tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text("id,x\na,1\nb,2\n")
    (tmp_path / "edges.csv").write_text("source,target\na,b\n")
    with pytest.raises(BadInput, match="E-NO-LABELS"):
        GraphSource.typed(str(tmp_path)).open()


def test_other_splits_of_files_keep_their_calibration_nodes(tmp_path: Path) -> None:
    gs.write_tables(block_graph(per_class=40).with_masks(), tmp_path)
    asked, facts = GraphSource.typed(str(tmp_path), split="fractions").open()
    assert facts["sizes"] == {"train": 72, "val": 18, "calibration": 18, "test": 12} and asked.split == "fractions"
    shares = {"train": 0.5, "val": 0.2, "calibration": 0.1, "test": 0.2}
    _, facts = GraphSource.typed(str(tmp_path), split_options=shares).open()  # shares are of fractions
    assert facts["sizes"]["calibration"] == 12
    _, named = GraphSource.typed("synthetic:200").open()
    assert named["split"] == "fractions" and named["sizes"]["calibration"] == 30
