from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import graphsde as gs
from graphsde.base.errors import BadInput

from support import block_graph


def test_a_graph_without_a_split_gets_one_by_class(tmp_path: Path) -> None:
    graph = block_graph(per_class=40)
    gs.write_tables(graph.with_masks(), tmp_path)
    read = gs.read(tmp_path)
    assert {role: int(mask.sum()) for role, mask in read.masks.items()} == {
        "train": 72, "val": 18, "calibration": 18, "test": 12
    }  # fmt: skip
    assert np.bincount(read.labels[read.train_mask]).tolist() == [24, 24, 24]
    assert read.split == "fractions"
    again = gs.read(tmp_path)
    assert all(np.array_equal(read.masks[role], again.masks[role]) for role in read.masks)
    gs.GCN(epochs=2).fit(read)


def test_a_given_split_is_kept(tmp_path: Path) -> None:
    graph = block_graph()
    gs.write_tables(graph, tmp_path)
    read = gs.read(tmp_path)
    assert read.split is None
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
