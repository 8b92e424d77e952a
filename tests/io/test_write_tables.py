"""A graph that is written and read is the same graph."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from graphsde.base.errors import BadInput, BadUsage, GraphsdeError, StorageError
from graphsde.graph.build import from_arrays
from graphsde.graph.graph import Graph
from graphsde.io.opening import safe_cell
from graphsde.io.read import read
from graphsde.io.write import write_tables

from support import needs_real_data, real_data

FORMATS = ("csv", "parquet")
words = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=6)
finite = st.floats(width=32, allow_nan=False, allow_infinity=False)


def same(one: Graph, other: Graph) -> None:
    assert other.fingerprint == one.fingerprint
    assert other.node_ids.tolist() == one.node_ids.tolist()
    assert other.class_names == one.class_names
    assert other.adjacency.directed == one.adjacency.directed
    assert other.image_shape == one.image_shape
    assert other.is_sparse == one.is_sparse
    assert list(other.categorical) == list(one.categorical)
    filled = {role: mask.tolist() for role, mask in one.masks.items() if mask.any()}
    assert {role: mask.tolist() for role, mask in other.masks.items()} == filled


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    n = draw(st.integers(2, 6))
    width = draw(st.integers(0, 3))
    numbers = draw(st.lists(st.lists(finite, min_size=width, max_size=width), min_size=n, max_size=n))
    dense = np.array(numbers, dtype=np.float32).reshape(n, width)
    column = st.lists(st.none() | words, min_size=n, max_size=n)
    names = draw(st.lists(words.map(str.strip).filter(bool), min_size=1, max_size=2, unique=True))
    categorical = {name: draw(column) for name in names}
    feature_names = [f"{name} {position}" for position, name in enumerate(["id", "label", "split"])][:width]
    end = st.integers(0, n - 1)
    pairs = draw(st.lists(st.tuples(end, end).filter(lambda pair: pair[0] != pair[1]), max_size=8, unique_by=frozenset))
    weights = draw(st.none() | st.lists(st.floats(0.5, 2.0, width=32), min_size=len(pairs), max_size=len(pairs)))
    ids = draw(st.none() | st.lists(words.filter(str.strip), min_size=n, max_size=n, unique=True))
    labels = draw(st.none() | column)
    roles = np.array(draw(st.lists(st.integers(0, 4), min_size=n, max_size=n)))
    train = (roles == 0) & np.array([label not in (None, "") for label in labels or [None] * n])
    masks = {"train_mask": train, "val_mask": roles == 1, "calibration_mask": roles == 2, "test_mask": roles == 3}
    return from_arrays(
        sp.csr_array(dense) if width and draw(st.booleans()) else dense,
        np.array(pairs, dtype=np.int64).reshape(-1, 2).T,
        labels=labels,
        node_ids=ids,
        feature_names=feature_names,
        categorical=categorical,
        weights=None if weights is None else np.array(weights),
        name=draw(words),
        directed=draw(st.booleans()),
        **(masks if draw(st.booleans()) else {}),
    )


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(st.data(), st.sampled_from(FORMATS))
def test_write_and_read(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, format: str) -> None:
    try:
        graph = data.draw(graphs())
    except GraphsdeError:  # ids that look the same, labels of two kinds: no graph, nothing to write
        return
    folder = tmp_path_factory.mktemp("graph")
    write_tables(graph, folder, format)
    same(graph, read(folder))


@pytest.mark.parametrize("format", FORMATS)
def test_everything_at_once(tmp_path: Path, format: str) -> None:
    graph = from_arrays(
        np.array([[0.1, 1 / 3], [-0.0, 3.4e38], [1e-45, 16777217.0], [5.0, 7.0]], dtype=np.float32),
        [[0, 1, 2], [1, 2, 3]],
        labels=["1", "0", None, "1"],
        class_names=["1", "0", "never\x85seen"],
        node_ids=["007", "=cmd()", ' "x" ', "a\r\nb"],
        feature_names=["label", "split"],
        categorical={"id": ["1", "2", None, "1,5"]},
        weights=np.array([0.1, 1.0, 2.5]),
        train_mask=[True, False, False, False],
        name="yes: [no]",
        image_shape=(1, 2),
    )
    write_tables(graph, tmp_path, format)
    again = read(tmp_path)
    same(graph, again)
    assert again.name == graph.name
    assert again.feature_names == graph.feature_names


def test_an_undirected_edge_is_written_once(tmp_path: Path) -> None:
    write_tables(from_arrays([[0.0], [1.0], [2.0]], [[2, 1], [0, 2]]), tmp_path)
    assert len((tmp_path / "edges.csv").read_text().splitlines()) == 3


def test_numbers_are_written_short(tmp_path: Path) -> None:
    write_tables(from_arrays(np.array([[0.1], [3.0]], dtype=np.float32), [[0], [1]]), tmp_path)
    assert (tmp_path / "nodes.csv").read_text().splitlines()[1].replace('"', "") == "0,0.1"


def test_a_feature_called_label_is_not_taken_for_the_label(tmp_path: Path) -> None:
    graph = from_arrays([[1.0, 2.0], [3.0, 4.0]], [[0], [1]], feature_names=["label", "split"])
    write_tables(graph, tmp_path)
    same(graph, read(tmp_path))


def test_foreign_nodes_keep_their_second_role(tmp_path: Path) -> None:
    graph = from_arrays([[1.0], [2.0], [3.0]], [[0, 1], [1, 2]], labels=["a", "b", "a"])
    masks = {"train": [1, 0, 0], "test": [0, 1, 1], "ood": [0, 0, 1]}
    graph = graph.with_masks(**{role: np.array(mask, dtype=bool) for role, mask in masks.items()})
    write_tables(graph, tmp_path)
    assert "test+ood" in (tmp_path / "nodes.csv").read_text()
    same(graph, read(tmp_path))


def test_the_other_format_is_replaced(tmp_path: Path) -> None:
    graph = from_arrays([[1.0], [2.0]], [[0], [1]])
    for format in (*FORMATS, "csv"):
        write_tables(graph, tmp_path, format)  # type: ignore[arg-type]
        same(graph, read(tmp_path))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["edges.csv", "graph.yaml", "nodes.csv"]


def test_refusals(tmp_path: Path) -> None:
    graph = from_arrays([[1.0], [2.0]], [[0], [1]], node_ids=["a", "b"])
    with pytest.raises(BadUsage, match="csv or parquet"):
        write_tables(graph, tmp_path, "xlsx")  # type: ignore[arg-type]
    (tmp_path / "taken").write_text("")
    with pytest.raises(StorageError):
        write_tables(graph, tmp_path / "taken" / "folder")
    odd = from_arrays([[1.0], [2.0]], [[0], [1]], node_ids=["a\0", "b"])
    with pytest.raises(BadInput) as caught:
        write_tables(odd, tmp_path / "odd")
    assert caught.value.code == "E-ENCODING"


@needs_real_data
@pytest.mark.parametrize("format", FORMATS)
def test_a_real_graph(tmp_path: Path, format: str) -> None:
    path = real_data() / "Photo" / "raw" / "amazon_electronics_photo.npz"  # type: ignore[operator]
    graph = read(path)
    graph = graph.subgraph(np.arange(1500))
    write_tables(graph, tmp_path, format)  # type: ignore[arg-type]
    same(graph, read(tmp_path))


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        ("=cmd()", "'=cmd()"),
        ("+SUM(A1)", "'+SUM(A1)"),
        ("-2+3+cmd|' /C calc'!A0", "'-2+3+cmd|' /C calc'!A0"),
        ("@import", "'@import"),
        ("\tx", "'\tx"),
        ("\r=1", "'\r=1"),
        ("\n=1", "'\n=1"),
        ("\uff1dcmd()", "'\uff1dcmd()"),
        ("  =cmd()", "'  =cmd()"),
        ("\xa0+cmd()", "'\xa0+cmd()"),
        ("  ann", "  ann"),
        (" -5", " -5"),
        ("-0.5", "-0.5"),
        (-3, "-3"),
        ("+1e3", "+1e3"),
        ("ann", "ann"),
        ("a=b", "a=b"),
        ("", ""),
        (None, ""),
    ],
)
def test_cells_of_exports(value: object, cell: str) -> None:
    assert safe_cell(value) == cell
