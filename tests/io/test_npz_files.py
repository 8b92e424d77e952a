"""The layouts of ``.npz`` files, each against arrays in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from cli_support import answer
from graphsde.base.errors import BadInput, BadUsage
from graphsde.graph.build import from_arrays
from graphsde.io.npz import ZipArrays
from graphsde.io.opening import refuse_bomb
from graphsde.io.read import read

from support import more_data, needs_real_data, real_data

X = np.array([[0.0, 1.0, 0.0], [2.0, 0.0, 0.0], [0.0, 0.0, 3.0], [1.0, 1.0, 1.0]], dtype=np.float32)
EDGES = np.array([[0, 1, 2], [1, 2, 3]])
LABELS = np.array([0, 1, 1, 0])


def parts(name: str, matrix: Any) -> dict[str, np.ndarray]:
    matrix = sp.csr_array(matrix)
    return {
        f"{name}_data": matrix.data,
        f"{name}_indices": matrix.indices,
        f"{name}_indptr": matrix.indptr,
        f"{name}_shape": np.array(matrix.shape),
    }


def adjacency() -> sp.csr_array:
    return sp.csr_array((np.ones(3, dtype=np.float32), (EDGES[0], EDGES[1])), shape=(4, 4))


def saved(folder: Path, **arrays: np.ndarray) -> Path:
    np.savez_compressed(folder / "graph.npz", **arrays)  # type: ignore[arg-type]
    return folder / "graph.npz"


@pytest.mark.parametrize("features", [{"features": X}, {"x": X}, {"features": np.asfortranarray(X)}])
@pytest.mark.parametrize("edges", [{"edge_index": EDGES}, {"edges": EDGES.T}, parts("adj", adjacency())])
@pytest.mark.parametrize("labels", [{"labels": LABELS}, {"y": LABELS.astype(">i4")}])
def test_plain_layout(tmp_path: Path, features: Any, edges: Any, labels: Any) -> None:
    graph = read(saved(tmp_path, **features, **edges, **labels))
    assert graph.fingerprint == from_arrays(X, EDGES, labels=LABELS).fingerprint
    assert graph.name == "graph"


def test_sparse_parts_stay_sparse(tmp_path: Path) -> None:
    graph = read(saved(tmp_path, **parts("features", X), edge_index=EDGES, labels=LABELS))
    assert graph.is_sparse
    assert graph.fingerprint == from_arrays(sp.csr_array(X), EDGES, labels=LABELS).fingerprint


def test_everything_that_has_a_name(tmp_path: Path) -> None:
    graph = read(
        saved(
            tmp_path,
            features=X,
            edge_index=EDGES,
            edge_weight=np.array([0.5, 1.0, 2.0]),
            labels=LABELS,
            node_ids=np.array(["a", "b", "c", "d"]),
            class_names=np.array([b"no", b"yes"]),
            feature_names=np.array(["u", "v", "w"]),
            train_mask=np.array([1, 1, 0, 0], dtype=bool),
            test_mask=np.array([3]),
            image_shape=np.array([1, 3]),
        ),
        name="named",
    )
    assert graph.name == "named"
    assert graph.node_ids.tolist() == ["a", "b", "c", "d"]
    assert graph.class_names == ("no", "yes")
    assert graph.feature_names == ("u", "v", "w")
    assert graph.adjacency.matrix[0, 1] == 0.5
    assert graph.masks["test"].tolist() == [False, False, False, True]
    assert graph.image_shape == (1, 3)


def test_benchmark_layout(tmp_path: Path) -> None:
    names = np.array(["p", "q", "r", "s"])
    path = saved(tmp_path, **parts("adj", adjacency()), **parts("attr", X), labels=LABELS, node_names=names)
    graph = read(path)
    assert graph.is_sparse
    assert graph.node_ids.tolist() == names.tolist()
    assert graph.num_edges == 6


def test_names_that_do_not_tell_nodes_apart_are_no_ids(tmp_path: Path) -> None:
    graph = read(saved(tmp_path, features=X, edge_index=EDGES, node_names=np.array(["p", "p", "q", "r"])))
    assert graph.node_ids.tolist() == [0, 1, 2, 3]
    assert "W-NAMES-IGNORED" in {note.code for note in graph.notes}


def test_pickled_names_are_left_alone(tmp_path: Path) -> None:
    path = saved(tmp_path, features=X, edge_index=EDGES, labels=LABELS, node_names=np.array(list("abcd"), dtype=object))
    graph = read(path)
    assert graph.node_ids.tolist() == [0, 1, 2, 3]
    assert "W-NAMES-IGNORED" in {note.code for note in graph.notes}


def test_weights_of_the_adjacency_are_kept(tmp_path: Path) -> None:
    graph = read(saved(tmp_path, features=X, **parts("adj", adjacency() * 2.5)))
    assert graph.adjacency.matrix[0, 1] == 2.5


def test_moderate_sparse_data_is_no_bomb(tmp_path: Path) -> None:
    one_hot = np.zeros((3000, 2000), dtype=np.float32)
    one_hot[np.arange(3000), np.arange(3000) % 2000] = 1
    path = saved(tmp_path, features=one_hot, edge_index=np.array([[0], [1]]))
    assert one_hot.nbytes / path.stat().st_size > 100
    assert read(path).num_features == 2000


@pytest.mark.parametrize(
    ("declared", "compressed", "refused"),
    [
        (1_600_000_000, 1_600_000_000, False),
        (2_000_000_001, 2_000_000_001, True),
        (150_000_000, 1_000, False),
        (300_000_000, 4_000_000, False),
        (300_000_000, 2_000_000, True),
    ],
)
def test_what_is_a_bomb(declared: int, compressed: int, refused: bool) -> None:
    try:
        refuse_bomb(Path("graph.npz"), declared=declared, compressed=compressed)
        code = None
    except BadInput as error:
        code = error.code
    assert code == ("E-BOMB" if refused else None)


def test_no_more_is_read_than_announced(tmp_path: Path) -> None:
    path = saved(tmp_path, features=X, edge_index=EDGES)
    with open(path, "rb") as stream:
        arrays = ZipArrays(stream, path)
        assert np.array_equal(arrays.read("features"), X)
        arrays._members["features"].file_size += 1000
        with pytest.raises(BadInput) as caught:
            arrays.read("features")
    assert caught.value.code == "E-HEADER-LIE"


@needs_real_data
@pytest.mark.parametrize(
    ("file", "nodes", "edges", "features", "classes"),
    [
        ("Computers/raw/amazon_electronics_computers.npz", 13_752, 491_722, 767, 10),
        ("Photo/raw/amazon_electronics_photo.npz", 7_650, 238_162, 745, 8),
    ],
)
def test_real_graphs(file: str, nodes: int, edges: int, features: int, classes: int) -> None:
    graph = read(real_data() / file)  # type: ignore[operator]
    assert (graph.num_nodes, graph.num_edges, graph.num_features, graph.num_classes) == (
        nodes,
        edges,
        features,
        classes,
    )
    assert graph.is_sparse
    assert graph.labelled.all()


SPLITS = np.array([[1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]], dtype=bool)


def heterophilous(folder: Path, **arrays: np.ndarray) -> Path:
    """The layout of Platonov et al.'s collection."""
    masks = {"train_masks": SPLITS, "val_masks": np.roll(SPLITS, 1, axis=1) & ~SPLITS, "test_masks": ~SPLITS[:, ::-1]}
    masks["test_masks"] &= ~masks["train_masks"] & ~masks["val_masks"]
    return saved(folder, **{"node_features": X, "node_labels": LABELS, "edges": EDGES.T, **masks, **arrays})


@pytest.mark.parametrize("number", [0, 1, 2])
def test_one_of_several_splits(tmp_path: Path, number: int) -> None:
    path = heterophilous(tmp_path)
    graph = read(path, mask=number) if number else read(path)
    assert graph.fingerprint == from_arrays(X, EDGES, labels=LABELS).fingerprint
    np.testing.assert_array_equal(graph.train_mask, SPLITS[number])
    (note,) = [one for one in graph.notes if one.code == "W-MASK-CHOSEN"]
    assert f"3 splits; using number {number}" in note.message


@pytest.mark.parametrize("number", [3, 10, -1, 1.0, True, "first"])
def test_a_split_that_is_not_there_is_refused(tmp_path: Path, number: Any) -> None:
    with pytest.raises(BadUsage) as caught:
        read(heterophilous(tmp_path), mask=number)
    assert caught.value.code == "E-MASK-NUMBER"


def test_files_with_one_split_have_no_other(tmp_path: Path) -> None:
    plain = saved(tmp_path, features=X, edge_index=EDGES, labels=LABELS, train_mask=SPLITS[0])
    np.testing.assert_array_equal(read(plain, mask=0).train_mask, SPLITS[0])
    folder = tmp_path / "tables"
    folder.mkdir()
    (folder / "nodes.csv").write_text("id,x,label\na,1,u\nb,2,v\n")
    (folder / "edges.csv").write_text("source,target\na,b\n")
    for path in (plain, folder):
        with pytest.raises(BadUsage) as caught:
            read(path, mask=1)
        assert caught.value.code == "E-MASK-NUMBER"
    (folder / "graph.yaml").write_text("mask: 1\n")
    with pytest.raises(BadInput, match="mask"):
        read(folder)


def test_masks_of_another_shape_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="E-SHAPE"):
        read(heterophilous(tmp_path, train_masks=SPLITS[0]))
    with pytest.raises(BadInput):
        read(heterophilous(tmp_path, train_masks=SPLITS[:, :3]))


@pytest.mark.parametrize(
    ("name", "nodes", "edges", "columns", "classes"),
    [
        ("wisconsin", 251, 450, 1703, 5),
        ("chameleon_filtered", 890, 8854, 2325, 5),
        ("minesweeper", 10_000, 39_402, 7, 2),
        ("tolokers", 11_758, 519_000, 10, 2),
    ],
)
def test_heterophilous_graphs(name: str, nodes: int, edges: int, columns: int, classes: int) -> None:
    path = more_data(f"{name}.npz")
    graph, other = read(path), read(path, mask=9)
    assert (graph.num_nodes, graph.num_edges // 2, graph.num_features) == (nodes, edges, columns)
    assert graph.num_classes == classes and set(graph.masks) == {"train", "val", "test"}
    assert not np.array_equal(graph.train_mask, other.train_mask)
    fourth = read(path, split=3)
    with np.load(path) as arrays:
        np.testing.assert_array_equal(other.val_mask, arrays["val_masks"][9])
        for role in ("train", "val", "test"):
            np.testing.assert_array_equal(fourth.role(role), arrays[f"{role}_masks"][3])


def test_coauthors_without_unpickling_their_class_names() -> None:
    graph = read(more_data("ms_academic_cs.npz"))
    assert (graph.num_nodes, graph.num_edges // 2, graph.num_features) == (18_333, 81_894, 6_805)
    assert graph.is_sparse and graph.class_names == tuple(map(str, range(15)))
    assert "classes are named by their numbers" in " ".join(note.message for note in graph.notes)


def test_the_fourth_split_by_the_command_line() -> None:
    path = more_data("wisconsin.npz")
    with np.load(path) as arrays:
        sizes = {role: int(arrays[f"{role}_masks"][3].sum()) for role in ("train", "val", "test")}
    assert answer("check", path, "--read", "split=3", "--json")["facts"]["splits"] == sizes


def test_names_of_nodes_beside_their_ids(tmp_path: Path) -> None:
    parts = {"features": np.eye(3), "edge_index": np.array([[0, 1], [1, 2]]), "labels": np.array([0, 1, 1])}
    names = np.array(["Ann", "Bob", "Bob"])
    np.savez(tmp_path / "both.npz", **parts, node_ids=np.array([7, 8, 9]), node_names=names, attr_names=list("abc"))
    graph = read(tmp_path / "both.npz")
    assert graph.node_ids.tolist() == [7, 8, 9] and graph.called(2) == "9 (Bob)"
    assert graph.feature_names == ("a", "b", "c")
