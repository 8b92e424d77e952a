"""Parquet tables are read column by column and part by part: the graph must not show where a part ended."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import graphsde as gs
from graphsde.base.errors import BadInput, StorageError
from graphsde.graph.ids import CodedTexts, locate
from graphsde.io import parquet
from graphsde.io.columns import as_coded
from graphsde.io.parquet import read_parquet
from graphsde.io.read import read

from support import needs_real_data

NODES = 200


def folder_of(
    path: Path, nodes: dict[str, Any], edges: dict[str, Any], *, rows: int = 7, dictionary: bool = True
) -> Path:
    """Tables in row groups of a few rows, so that every column comes in many parts."""
    path.mkdir()
    for name, columns in (("nodes", nodes), ("edges", edges)):
        table = pa.table(columns)
        pq.write_table(table, path / f"{name}.parquet", row_group_size=rows, use_dictionary=dictionary)
    return path


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "_ROWS_AT_ONCE", 5)
    monkeypatch.setattr(parquet, "_COLUMNS_AT_ONCE", 2)
    monkeypatch.setattr("graphsde.graph.edges._KEYS_AT_ONCE", 4)
    monkeypatch.setattr("graphsde.graph.ids._IDS_AT_ONCE", 7)


@pytest.mark.parametrize("dictionary", [True, False])
@pytest.mark.parametrize("text", [False, True])
def test_the_graph_of_many_parts_is_the_graph(tmp_path: Path, small_parts: None, text: bool, dictionary: bool) -> None:
    rng = np.random.default_rng(3)
    numbers = rng.permutation(NODES) * 5 + 1
    ids = np.array([f"node {one}" for one in numbers], dtype=object) if text else numbers
    values = rng.standard_normal((NODES, 5)).astype(np.float32)
    ends = rng.integers(60, size=(2, 600))  # so few nodes that many edges come twice
    columns = {"id": ids.tolist()} | {f"x{column}": pa.array(values[:, column]) for column in range(5)}
    edges = {"source": ids[ends[0]].tolist(), "target": ids[ends[1]].tolist()}
    graph = read(folder_of(tmp_path / "g", columns, edges, dictionary=dictionary))
    assert graph.node_ids.tolist() == ids.tolist()
    assert graph.features.dtype == np.float32
    np.testing.assert_array_equal(graph.features, values)
    dense = np.zeros((NODES, NODES))
    dense[ends[0], ends[1]] = dense[ends[1], ends[0]] = 1.0
    np.fill_diagonal(dense, 0.0)
    np.testing.assert_array_equal(graph.adjacency.matrix.toarray(), dense)
    merged = next(one for one in graph.notes if one.code == "W-DUP-EDGES")
    kept = ends[:, ends[0] != ends[1]]
    assert merged.count == kept.shape[1] - len(set(zip(*kept.tolist(), strict=True)))


def test_numbers_of_every_type_side_by_side(tmp_path: Path, small_parts: None) -> None:
    columns = {
        "id": [1, 2, 3],
        "exact": pa.array([0.1, 1e-40, 3e38], pa.float32()),
        "wide": pa.array([0.1, 2.0, 3.0], pa.float64()),
        "long": pa.array([2**40, 0, 1], pa.int64()),
        "flag": pa.array([True, False, True]),
    }
    graph = read(folder_of(tmp_path / "g", columns, {"source": [1], "target": [2]}))
    expected = np.column_stack([pa.table(columns)[name].to_numpy().astype(np.float64) for name in list(columns)[1:]])
    np.testing.assert_array_equal(graph.features, expected.astype(np.float32))
    assert isinstance(graph.features, np.ndarray) and graph.features.flags.c_contiguous


def test_gaps_of_narrow_columns_are_told_and_filled(tmp_path: Path, small_parts: None) -> None:
    columns = {"id": list(range(12)), "x": pa.array([None if row == 9 else row for row in range(12)], pa.float32())}
    folder = folder_of(tmp_path / "g", columns, {"source": [1], "target": [2]})
    with pytest.raises(BadInput, match=r"nodes\.parquet, row 10, column x") as caught:
        read(folder)
    assert caught.value.code == "E-FEAT-NAN"
    filled = read(folder, impute="mean").features[9, 0]
    assert filled == np.float32(np.mean([row for row in range(12) if row != 9]))


@pytest.mark.parametrize("ids", [["a", "b", "c"], [1, 2, 3]])
def test_an_unknown_end_is_named_as_it_was_written(tmp_path: Path, small_parts: None, ids: list[Any]) -> None:
    other = "z" if isinstance(ids[0], str) else 77
    edges = {"source": [ids[0]] * 9 + [other], "target": [ids[1]] * 10}
    folder = folder_of(tmp_path / "g", {"id": ids, "x": [1.0, 2.0, 3.0]}, edges)
    with pytest.raises(BadInput, match=rf"1 edge leads .*{other} \(edges\.parquet, row 10\)"):
        read(folder)
    assert read(folder, unknown_edges="drop").num_edges == 2


def test_ends_in_another_normal_form_and_missing_ends(tmp_path: Path, small_parts: None) -> None:
    nodes = {"id": ["caf\u00e9", "tea", "milk"], "x": [1.0, 2.0, 3.0]}
    folder = folder_of(tmp_path / "g", nodes, {"source": ["cafe\u0301", "tea"], "target": ["tea", "milk"]})
    assert read(folder).num_edges == 4
    gap = folder_of(tmp_path / "gap", nodes, {"source": ["tea", None], "target": ["milk", "tea"]})
    with pytest.raises(BadInput, match=r"None \(edges\.parquet, row 2\)"):
        read(gap)
    numbers = folder_of(
        tmp_path / "numbers", {"id": [1, 2], "x": [1.0, 2.0]}, {"source": pa.array([1, None]), "target": [2, 1]}
    )
    with pytest.raises(BadInput) as caught:
        read(numbers)
    assert caught.value.code == "E-EDGE-UNKNOWN"


def test_numbers_written_as_text_are_found(tmp_path: Path) -> None:
    edges = {"source": ["1", "2"], "target": ["3", "3"]}
    assert read(folder_of(tmp_path / "g", {"id": [1, 2, 3], "x": [1.0, 2.0, 3.0]}, edges)).num_edges == 4


def test_coded_texts_are_the_texts() -> None:
    texts = ["b", None, "a", "b", "c"]
    coded = as_coded(pa.array(texts))
    assert isinstance(coded, CodedTexts) and np.asarray(coded).tolist() == texts
    assert [coded[row] for row in range(len(coded))] == texts
    for node_ids in (["a", "b"], ["b", "None", "a"], ["x"]):
        known = np.array(node_ids, dtype=object)
        assert locate(coded, known).tolist() == locate(texts, known).tolist()


def test_a_file_that_changes_between_two_columns_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "nodes.parquet"
    pq.write_table(pa.table({"id": [1, 2], "x": [1.0, 2.0]}), path)
    table = read_parquet(path)
    assert table.ids("id").tolist() == [1, 2]
    pq.write_table(pa.table({"id": [1, 2], "x": [3.0, 4.0]}), path)
    os.utime(path, ns=(1, 1))
    with pytest.raises(StorageError, match="changed while it was being read"):
        table.features(["x"], set())


@needs_real_data
def test_a_real_graph_is_the_same_from_both_formats(tmp_path: Path) -> None:
    graph = gs.load("photo")
    for form in ("csv", "parquet"):
        gs.write_tables(graph, tmp_path / form, form)  # type: ignore[arg-type]
    one, other = (read(tmp_path / form, name="photo") for form in ("csv", "parquet"))
    assert one.fingerprint == other.fingerprint and one.num_edges == graph.num_edges
