"""MATLAB files and folders of the Open Graph Benchmark: the arrays that were written come back, nothing else is run."""

from __future__ import annotations

import gzip
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy.io import loadmat, savemat

from graphsde.base.errors import BadInput, BadUsage, GraphsdeError
from graphsde.io.mat_arrays import read_variables
from graphsde.io.read import read

RNG = np.random.default_rng(0)
FEATURES = np.where(RNG.random((5, 4)) < 0.5, RNG.normal(size=(5, 4)), 0)
ADJACENCY = np.array([[0, 2, 0, 0, 0], [2, 0, 1, 0, 0], [0, 1, 0, 0, 3], [0, 0, 0, 0, 0], [0, 0, 3, 0, 0.0]])


@pytest.mark.parametrize(
    "names", [("network", "attributes", "labels"), ("A", "X", "Y"), ("Network", "Attributes", "Label")]
)
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("packed", [False, True])
def test_matlab(tmp_path: Path, names: tuple[str, str, str], sparse: bool, packed: bool) -> None:
    one_hot = np.zeros((5, 2))
    one_hot[[0, 1, 2, 4], [0, 1, 1, 0]] = 1
    for labels, expected in ((np.array([[1, 2, 2, 1, 1]]), [0, 1, 1, 0, 0]), (one_hot, [0, 1, 1, -1, 0])):
        make: Any = sp.csc_matrix if sparse else np.asarray
        path = tmp_path / "graph.mat"
        values = dict(zip(names, (make(ADJACENCY), make(FEATURES), labels), strict=True))
        savemat(path, {**values, "other": {"a": 1}}, do_compression=packed)
        graph = read(path)
        np.testing.assert_array_equal(graph.adjacency.matrix.toarray(), ADJACENCY)
        found: Any = graph.features.toarray() if sparse else graph.features  # type: ignore[union-attr]
        assert graph.is_sparse == sparse
        np.testing.assert_array_equal(found, FEATURES.astype(np.float32))
        assert graph.labels is not None and graph.labels.tolist() == expected


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ({"X": FEATURES}, "E-HEADER"),
        ({"A": ADJACENCY[:3], "X": FEATURES}, "E-SHAPE"),
        ({"A": ADJACENCY, "X": np.array([["a"]], dtype=object)}, "E-DTYPE"),
        ({"A": ADJACENCY, "X": FEATURES, "Y": np.ones((5, 2))}, "E-SHAPE"),
        ({"A": ADJACENCY, "X": FEATURES * 1j}, "E-DTYPE"),
    ],
)
def test_bad_matlab(tmp_path: Path, values: dict[str, Any], code: str) -> None:
    savemat(tmp_path / "graph.mat", values)
    with pytest.raises(BadInput) as error:
        read(tmp_path / "graph.mat")
    assert error.value.code == code


def test_matlab_files_that_claim_too_much(tmp_path: Path) -> None:
    savemat(tmp_path / "graph.mat", {"A": sp.csc_matrix(ADJACENCY), "X": np.zeros((5, 8_000_000))}, do_compression=True)
    with pytest.raises(BadInput, match="E-BOMB"):
        read(tmp_path / "graph.mat")
    (tmp_path / "new.mat").write_bytes(b"MATLAB 7.3 MAT-file".ljust(200))
    with pytest.raises(BadInput, match="-v7"):
        read(tmp_path / "new.mat")


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.int8, np.uint16, np.int32, np.int64, np.bool_])
@pytest.mark.parametrize("packed", [False, True])
def test_arrays_are_those_of_scipy(tmp_path: Path, kind: type, packed: bool) -> None:
    rng = np.random.default_rng(0)
    dense = rng.integers(0, 2 if kind is np.bool_ else 100, (5, 3)).astype(kind)
    sparse = sp.random_array((5, 4), density=0.4, rng=rng, format="csc")
    written = {"A": sparse, "X": dense, "empty": np.zeros((0, 3)), "one": np.array([[7]]), "logical": sparse > 0.5}
    savemat(tmp_path / "all.mat", written, do_compression=packed)
    with (tmp_path / "all.mat").open("rb") as stream:
        found = read_variables(stream, "<", {"a", "x", "empty", "one", "logical"})
    expected = loadmat(tmp_path / "all.mat")
    assert set(found) == set(written)
    for name, value in found.items():
        assert value is not None and value.shape == expected[name].shape
        told, truth = (one.toarray() if sp.issparse(one) else one for one in (value, expected[name]))
        assert np.array_equal(told, truth) and (name == "logical" or told.dtype.kind == truth.dtype.kind)


def test_a_file_of_the_other_byte_order(tmp_path: Path) -> None:
    """Written here by hand: a matrix of 2 × 2 numbers, column by column, stored as bytes."""
    element = lambda kind, content: struct.pack(">II", kind, len(content)) + content + bytes(-len(content) % 8)  # noqa: E731
    flags, dims = element(6, struct.pack(">II", 6, 0)), element(5, struct.pack(">ii", 2, 2))
    name = struct.pack(">HH", 1, 1) + b"A\0\0\0"
    body = flags + dims + name + element(1, bytes([0, 1, 2, 3]))
    (tmp_path / "big.mat").write_bytes(
        b"MATLAB 5.0".ljust(124) + b"\x01\x00MI" + struct.pack(">II", 14, len(body)) + body
    )
    with (tmp_path / "big.mat").open("rb") as stream:
        found = read_variables(stream, ">", {"a"})["A"]
    assert isinstance(found, np.ndarray) and found.tolist() == [[0.0, 2.0], [1.0, 3.0]]
    assert np.array_equal(loadmat(tmp_path / "big.mat")["A"], found)


@given(position=st.integers(0, 2000), value=st.integers(0, 255), packed=st.booleans())
def test_a_damaged_byte_of_a_matlab_file(
    tmp_path_factory: pytest.TempPathFactory, position: int, value: int, packed: bool
) -> None:
    path = tmp_path_factory.getbasetemp() / "damaged.mat"
    savemat(path, {"A": sp.csc_matrix(ADJACENCY), "X": FEATURES, "Y": [[1, 2, 1, 2, 1]]}, do_compression=packed)
    content = bytearray(path.read_bytes())
    content[position % len(content)] = value
    path.write_bytes(content)
    try:
        read(path)
    except GraphsdeError as error:
        assert error.code != "E-INTERNAL"


def pack(path: Path, rows: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(",".join("" if value is None else repr(value) for value in row) + "\n" for row in rows)
    path.write_bytes(gzip.compress(text.encode()))


def ogb(folder: Path, **splits: list[list[int]]) -> Path:
    pack(folder / "raw" / "edge.csv.gz", [[0, 1], [1, 2], [2, 4]])
    pack(folder / "raw" / "node-feat.csv.gz", FEATURES.tolist())
    pack(folder / "raw" / "node-label.csv.gz", [[3], [0], [0], [float("nan")], [3]])
    for name, parts in splits.items():
        for file, rows in zip(("train", "valid", "test"), parts, strict=True):
            pack(folder / "split" / name / f"{file}.csv.gz", [[row] for row in rows])
    return folder


def test_open_graph_benchmark(tmp_path: Path) -> None:
    graph = read(ogb(tmp_path / "ogbn", time=[[0, 1], [2], [4]]))
    assert graph.name == "ogbn" and graph.num_edges == 6
    np.testing.assert_array_equal(graph.features, FEATURES.astype(np.float32))
    assert graph.class_names == ("0", "3") and graph.labels is not None
    assert graph.labels.tolist() == [1, 0, 0, -1, 1]
    assert [np.flatnonzero(graph.role(role)).tolist() for role in ("train", "val", "test")] == [[0, 1], [2], [4]]
    assert read(tmp_path / "ogbn", directed=True).num_edges == 3


def test_open_graph_benchmark_with_several_splits(tmp_path: Path) -> None:
    folder = ogb(tmp_path, time=[[0, 1], [2], [4]], sales=[[1, 4], [0], [2]])
    assert np.flatnonzero(read(folder, split="sales").role("train")).tolist() == [1, 4]
    for options in ({}, {"split": "place"}, {"split": ".."}, {"label": "x"}, {"mask": 1}):
        with pytest.raises(BadUsage):
            read(folder, **options)


def test_bad_open_graph_benchmark(tmp_path: Path) -> None:
    for name, content, code in (
        ("edge.csv.gz", gzip.compress(b"0,1,2\n"), "E-ROW-LEN"),
        ("edge.csv.gz", gzip.compress(b"0.5,1\n"), "E-DTYPE"),
        ("edge.csv.gz", gzip.compress(b"a,b\n"), "E-CORRUPT"),
        ("edge.csv.gz", b"0,1\n", "E-CORRUPT"),
        ("node-label.csv.gz", gzip.compress(b"1,0\n" * 5), "E-ROW-LEN"),
        ("node-feat.csv.gz", gzip.compress(b"0," * 300_000 + b"0\n"), "E-LINE-LEN"),
        ("node-feat.csv.gz", zlib_bomb(), "E-BOMB"),
    ):
        folder = ogb(tmp_path / code)
        (folder / "raw" / name).write_bytes(content)
        with pytest.raises(BadInput) as error:
            read(folder)
        assert error.value.code == code, name


def zlib_bomb() -> bytes:
    """More than 200 MB of zeros in a fraction of a megabyte."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    row = b"0," * 500_000
    return b"".join(packer.compress(row) for _ in range(210)) + packer.flush()
