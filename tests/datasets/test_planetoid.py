"""The three citation graphs: refused when altered, read without running anything, equal to an independent reader."""

from __future__ import annotations

import os
import pickle
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from graphsde.base.errors import BadInput, StorageError
from graphsde.datasets import published as locate
from graphsde.datasets.planetoid import FOLDERS, convert, load_planetoid, published_files, read_pickle
from graphsde.datasets.published import cache_folder, read_converted, write_converted

from support import needs_real_data, real_data


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("GRAPHSDE_CACHE", str(tmp_path / "cache"))
    yield tmp_path / "cache"


def copy_of(name: str, folder: Path) -> Path:
    source = real_data()
    assert source is not None
    shutil.copytree(source / FOLDERS[name], folder / FOLDERS[name])
    for file in (folder / FOLDERS[name]).rglob("ind.*"):
        file.chmod(0o644)
    return folder


@needs_real_data
@pytest.mark.parametrize(
    ("name", "nodes", "edges", "columns", "counts", "masks"),
    [
        ("cora", 2708, 10556, 1433, [351, 217, 418, 818, 426, 298, 180], (140, 500, 1000)),
        ("citeseer", 3327, 9104, 3703, [249, 590, 668, 701, 596, 508], (120, 500, 1000)),
        ("pubmed", 19717, 88648, 500, [4103, 7739, 7875], (60, 500, 1000)),
    ],
)
def test_counts(
    name: str, nodes: int, edges: int, columns: int, counts: list[int], masks: tuple[int, int, int]
) -> None:
    graph = load_planetoid(name)
    assert (graph.num_nodes, graph.num_edges, graph.num_features, graph.num_classes) == (
        nodes,
        edges,
        columns,
        len(counts),
    )
    assert graph.is_sparse and graph.features.dtype == np.float32
    assert graph.labels is not None
    assert np.bincount(graph.labels[graph.labelled]).tolist() == counts
    assert tuple(int(graph.masks[role].sum()) for role in ("train", "val", "test")) == masks
    assert graph.class_names == tuple(map(str, range(len(counts)))) and graph.split is None
    assert np.bincount(graph.labels[graph.masks["train"]]).tolist() == [20] * len(counts)
    assert (graph.adjacency.matrix != graph.adjacency.matrix.T).nnz == 0


@needs_real_data
def test_citeseers_fifteen_nodes_without_a_row_have_no_features_and_no_label() -> None:
    graph = load_planetoid("citeseer")
    gaps = np.flatnonzero(~graph.labelled)
    assert gaps.size == 15 and gaps.min() > 2312
    assert graph.features[gaps].nnz == 0
    assert (np.diff(graph.features.indptr) == 0).sum() == 15
    assert not any(mask[gaps].any() for mask in graph.masks.values())


@needs_real_data
@pytest.mark.parametrize("name", ["cora", "citeseer"])
def test_equal_to_the_reader_of_pytorch_geometric(name: str) -> None:
    peer = pytest.importorskip("torch_geometric.io")
    theirs = peer.read_planetoid_data(str(real_data() / FOLDERS[name] / "raw"), name)  # type: ignore[operator]
    ours = load_planetoid(name)
    assert np.array_equal(ours.features.toarray(), theirs.x.numpy())
    for role in ("train", "val", "test"):
        assert np.array_equal(ours.masks[role], theirs[f"{role}_mask"].numpy())
    assert np.array_equal(ours.labels[ours.labelled], theirs.y.numpy()[ours.labelled])  # type: ignore[index]
    ends = theirs.edge_index.numpy()
    ends = ends[:, ends[0] != ends[1]]
    assert {*zip(*ends.tolist(), strict=True)} == {*zip(*ours.adjacency.edge_index().tolist(), strict=True)}


@needs_real_data
@pytest.mark.parametrize("part", ["x", "graph", "test.index"])
def test_one_flipped_byte_is_refused_with_the_files_name(tmp_path: Path, part: str) -> None:
    load_planetoid("cora")  # even with a good conversion in the cache
    root = copy_of("cora", tmp_path)
    file = root / "Cora" / "raw" / f"ind.cora.{part}"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    with pytest.raises(BadInput) as caught:
        load_planetoid("cora", root=root)
    assert caught.value.code == "E-HASH" and f"ind.cora.{part}" in caught.value.message
    assert str(file) in str(caught.value.place)


@needs_real_data
def test_sources_are_looked_at_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named, variable = copy_of("cora", tmp_path / "named"), copy_of("cora", tmp_path / "variable")
    (variable / "Cora" / "raw" / "ind.cora.y").write_bytes(b"rubbish")
    monkeypatch.setenv("GRAPHSDE_DATA", str(variable))
    assert load_planetoid("cora", root=named).num_nodes == 2708
    with pytest.raises(BadInput, match=r"ind\.cora\.y"):
        load_planetoid("cora")
    (variable / "Cora" / "raw" / "ind.cora.y").unlink()  # an incomplete folder is passed over
    assert locate.named_folders(named)[:2] == [named, variable]
    assert load_planetoid("cora", root=named).num_nodes == 2708


@needs_real_data
def test_the_conversion_is_kept_verified_and_rebuilt(
    own_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = copy_of("cora", tmp_path)
    monkeypatch.setattr(locate, "named_folders", lambda given=None: [given] if given else [])
    first = load_planetoid("cora", root=root)
    (kept,) = (own_cache / "converted").glob("*.npz")
    with np.load(kept, allow_pickle=False) as archive:
        assert all(archive[name].dtype != object for name in archive.files)
    assert load_planetoid("cora", download=False).fingerprint == first.fingerprint  # the raw files are gone
    content = bytearray(kept.read_bytes())
    content[len(content) // 2] ^= 1
    kept.write_bytes(content)
    with pytest.raises(StorageError):  # damaged, and nothing to rebuild it from
        load_planetoid("cora", download=False)
    assert load_planetoid("cora", root=root).fingerprint == first.fingerprint
    assert kept.read_bytes() != bytes(content)
    assert load_planetoid("cora", download=False).fingerprint == first.fingerprint


@needs_real_data
def test_downloaded_files_give_the_same_graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import functools
    import http.server
    import threading

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args: object) -> None:
            pass

    folder = str(real_data() / "Cora" / "raw")  # type: ignore[operator]
    expected = load_planetoid("cora").fingerprint
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setenv("GRAPHSDE_CACHE", str(tmp_path / "fresh"))
    monkeypatch.setattr(locate, "named_folders", lambda given=None: [])
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder)) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}/"
        assert load_planetoid("cora", base_url=url).fingerprint == expected
        server.shutdown()
    shutil.rmtree(tmp_path / "fresh" / "converted")
    assert load_planetoid("cora", download=False).fingerprint == expected  # from the raw files in the cache


def test_every_file_is_pinned_once() -> None:
    files = [file for name in FOLDERS for file in published_files(name)]
    assert len(files) == 24 == len({file.sha256 for file in files}) == len({file.path for file in files})
    assert all(file.origin.startswith("https://") and len(file.sha256) == 64 for file in files)


@needs_real_data
def test_the_pins_agree_with_the_list_beside_the_data() -> None:
    listed = dict(reversed(line.split()) for line in (real_data() / "SHA256SUMS").read_text().splitlines())  # type: ignore[operator]
    assert {file.path: file.sha256 for name in FOLDERS for file in published_files(name)}.items() <= listed.items()


class Harmful:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("protocol", [0, 2, 4])
def test_the_unpickler_calls_nothing_that_it_does_not_know(tmp_path: Path, protocol: int) -> None:
    content = pickle.dumps(Harmful(tmp_path / "made"), protocol=protocol)
    with pytest.raises(BadInput, match="mkdir") as caught:
        read_pickle(content, "ind.cora.x")
    assert caught.value.code == "E-PICKLE"
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("content", [b"", b"\x80\x02", b"cbuiltins\neval\n.", b"cnumpy\nload\n.", b"garbage"])
def test_the_unpickler_answers_anything_else_with_an_error(content: bytes) -> None:
    with pytest.raises(BadInput):
        read_pickle(content, "ind.cora.x")


def test_an_empty_conversion_is_no_conversion(own_cache: Path) -> None:
    assert read_converted("nothing") is None
    write_converted("one", {"a": np.arange(3)})
    assert read_converted("one")["a"].tolist() == [0, 1, 2]  # type: ignore[index]
    write_converted("two", {"a": np.arange(4)})
    shutil.copyfile(own_cache / "converted" / "two.npz", own_cache / "converted" / "one.npz")  # whole, but another
    assert read_converted("one") is None
    write_converted("one", {"a": np.arange(3)})
    (own_cache / "converted" / "one.npz.sha256").unlink()
    assert read_converted("one") is None


def test_a_cache_that_is_a_file_is_done_without(own_cache: Path) -> None:
    own_cache.write_text("in the way")
    write_converted("one", {"a": np.arange(3)})
    assert read_converted("one") is None


def test_where_the_cache_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("GRAPHSDE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "graphsde"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "graphsde"


def test_conversion_of_a_hand_made_graph() -> None:
    """Four known nodes, test rows in shuffled order, node 5 missing from the test index."""

    def csr(rows: list[list[float]]) -> bytes:
        dense = np.array(rows, dtype=np.float32)
        taken = np.nonzero(dense)
        state = {
            "data": dense[taken],
            "indices": taken[1].astype(np.int32),
            "indptr": np.concatenate([[0], np.cumsum((dense != 0).sum(axis=1))]).astype(np.int32),
            "_shape": dense.shape,
        }
        return csr_as_python_2_wrote_it(state)

    allx, tx = [[1, 0], [0, 1], [1, 1], [0, 2]], [[7, 0], [0, 6], [0, 4]]
    contents = {
        "ind.toy.y": array(np.eye(2, dtype=np.int32)),
        "ind.toy.allx": csr(allx),
        "ind.toy.ally": array(np.eye(2, dtype=np.int32)[[0, 1, 1, 0]]),
        "ind.toy.tx": csr(tx),
        "ind.toy.ty": array(np.eye(2, dtype=np.int32)[[1, 0, 1]]),
        "ind.toy.graph": pickle.dumps({node: [(node + 1) % 8] for node in range(8)}, protocol=2),
        "ind.toy.test.index": b"7\n6\n4\n",
    }
    arrays = convert(contents, "toy", validation=1)
    assert arrays["labels"].tolist() == [0, 1, 1, 0, 1, -1, 0, 1]
    assert arrays["train"].nonzero()[0].tolist() == [0, 1] and arrays["val"].nonzero()[0].tolist() == [2]
    assert arrays["test"].nonzero()[0].tolist() == [4, 6, 7]
    dense = np.zeros((8, 2), dtype=np.float32)
    rows = np.repeat(np.arange(8), np.diff(arrays["indptr"]))
    dense[rows, arrays["indices"]] = arrays["data"]
    assert dense.tolist() == [[1, 0], [0, 1], [1, 1], [0, 2], [0, 4], [0, 0], [0, 6], [7, 0]]
    assert arrays["edges"].T.tolist() == [[node, (node + 1) % 8] for node in range(8)]


def array(values: np.ndarray) -> bytes:
    return pickle.dumps(values, protocol=3).replace(b"numpy._core.multiarray", b"numpy.core.multiarray")


def csr_as_python_2_wrote_it(state: dict[str, object]) -> bytes:
    """An object of the old module: its class, an empty instance (NEWOBJ), its state (BUILD)."""
    body = array(state)  # type: ignore[arg-type]
    return b"\x80\x03cscipy.sparse.csr\ncsr_matrix\n)\x81" + body[2:-1] + b"b."
