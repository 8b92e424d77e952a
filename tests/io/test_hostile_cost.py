"""A hostile file of up to ten megabytes costs at most 200 MB, whatever it is; honest graphs of the same look pass."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from file_makers import GRAPHML, Build, declared_size, file, member, npy, tables

from graphsde.base.errors import BadInput, GraphsdeError
from graphsde.io.opening import refuse_cost
from graphsde.io.read import read

LARGEST = 200_000  # kB
SIZE = 5_000_000

MEASURE = """
import sys
import psutil, pyarrow.compute, pyarrow.parquet, yaml
from graphsde.io.read import read
from graphsde.io import csv_table, graphml, npz, tables
from graphsde.base.errors import GraphsdeError

def peak():
    return int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1])

for path in sys.argv[1:]:
    open("/proc/self/clear_refs", "w").write("5")
    before = peak()
    try:
        read(path)
        code = "ok"
    except GraphsdeError as error:
        code = error.code
    print(peak() - before, code)
"""

MILLION = 10**6
NO_EDGES = np.zeros((2, 0), dtype=np.int64)


def packed(**arrays: np.ndarray) -> Build:
    """A compressed ``.npz`` file."""

    def build(folder: Path) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(folder / "graph.npz", **({"edge_index": NO_EDGES} | arrays))  # type: ignore[arg-type]
        return folder / "graph.npz"

    return build


def parquet(nodes: dict[str, object], edges: dict[str, object] | None = None, **options: object) -> Build:
    def build(folder: Path) -> Path:
        import pyarrow as pa
        import pyarrow.parquet as pq

        folder.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table(nodes), folder / "nodes.parquet", compression="zstd", **options)
        pq.write_table(pa.table(edges or {"source": [0], "target": [1]}), folder / "edges.parquet", compression="zstd")
        return folder

    return build


def decimals(count: int) -> object:
    import pyarrow as pa

    return pa.array(np.zeros(count)).cast(pa.decimal128(38, 0))


_few = {"id": [0, 1, 2], "x": [1.0, 2.0, 3.0]}
_one = np.ones((MILLION, 1), dtype=np.uint8)
_words = np.full(2 * MILLION, "a")
_wide = ",".join(f"c{column}" for column in range(1000))
_keys = "".join(f'<key id="k{n}"><default>a</default></key>' for n in range(60_000))
_columns = ",".join(f"c{column}" for column in range(99_999))
_defaults = "".join(f'<key id="k{n}" for="node" attr.type="int"><default>1</default></key>' for n in range(20_000))
_many = "".join(f'<node id="{n}"/>' for n in range(100_000))
HOSTILE: dict[str, tuple[Build, str]] = {
    "line": (tables(nodes="id,x\n" + "a" * SIZE), "E-LINE-LEN"),
    "wide": (tables(nodes=f"id,{_columns}\n" + f"a{',1' * 99_999}\n" * 20), "E-NODE-DUP"),
    "wide text": (tables(nodes=f"id,{_columns}\n" + f"a{',b' * 99_999}\n" * 20), "E-FEAT-TYPE"),
    "blank": (tables(nodes="id,x\n" + "\n" * SIZE), "E-EMPTY"),
    "quotes": (tables(nodes="id,x\n" + '"\n' * (SIZE // 2)), "E-ROW-LEN"),
    "open quote": (tables(nodes='id,x\n"' + "a\n" * (SIZE // 2)), "E-QUOTE"),
    "ragged": (tables(nodes="id,x\n" + "1\n" * (SIZE // 2)), "E-ROW-LEN"),
    "settings": (tables(settings="classes:\n" + "- a\n" * 240_000), "E-YAML"),
    "zip directory": (declared_size(1_600_000_000), "E-BOMB"),
    "array header": (member("features.npy", npy((10**6, 10**6))), "E-HEADER-LIE"),
    "defaults": (file("g.graphml", f"{GRAPHML}{_defaults}<graph>{_many}</graph></graphml>".encode()), "E-BOMB"),
    "tag": (file("g.graphml", f"{GRAPHML}<graph><node id='{'a' * SIZE}'/></graph></graphml>".encode()), "E-LINE-LEN"),
    "rows of nothing": (packed(features=np.zeros((24 * MILLION, 1), dtype=np.uint8)), "E-BOMB"),
    "rows without a column": (packed(features=np.zeros((9 * MILLION, 0), dtype=np.uint8)), "E-BOMB"),
    "edges of nothing": (packed(features=np.eye(3), edge_index=np.zeros((2, 8 * MILLION), dtype=np.int8)), "E-BOMB"),
    "labels of text": (packed(features=_one[:2], labels=_words), "E-BOMB"),
    "ids of text": (packed(features=_one[:2], node_ids=_words.astype("S")), "E-BOMB"),
    "names of classes": (packed(features=_one[:2], class_names=_words), "E-BOMB"),
    "long names": (packed(features=_one[:2], class_names=np.full(3, "a" * 10 * MILLION)), "E-BOMB"),
    "many splits": (packed(features=_one, train_masks=np.zeros((90, MILLION), dtype=bool)), "E-BOMB"),
    "split by text": (packed(features=_one[:2], train_mask=_words), "E-BOMB"),
    "sparse rows": (
        packed(
            features_data=np.ones(0, dtype=np.int8),
            features_indices=np.ones(0, dtype=np.int8),
            features_indptr=np.zeros(20 * MILLION + 1, dtype=np.int8),
            features_shape=np.array([20 * MILLION, 2]),
        ),
        "E-BOMB",
    ),
    "sparse adjacency": (
        packed(
            features=np.eye(2),
            adj_data=np.ones(8 * MILLION, dtype=np.int8),
            adj_indices=np.zeros(8 * MILLION, dtype=np.int8),
            adj_indptr=np.array([0, 0, 8 * MILLION]),
            adj_shape=np.array([2, 2]),
        ),
        "E-BOMB",
    ),
    "missing everywhere": (lambda folder: packed(features=np.full((15_000, 1000), np.nan))(folder), "E-FEAT-NAN"),
    "short rows": (tables(edges="source,target\n" + "a,b\n" * 2_400_000), "E-BOMB"),
    "empty cells": (tables(nodes=f"id,{_wide}\n" + "".join(f"{n}{',' * 1000}\n" for n in range(9900))), "E-BOMB"),
    "missing cells": (
        tables(nodes=f"id,{_wide}\n" + "".join(f"{n}{',' * 1000}\n" for n in range(8000)), edges="source,target\n"),
        "E-FEAT-NAN",
    ),
    "parquet rows": (parquet({"id": np.zeros(12 * MILLION, dtype=np.int64)}), "E-BOMB"),
    "parquet decimals": (parquet(_few, {"source": decimals(MILLION), "target": decimals(MILLION)}), "E-BOMB"),
    "parquet truth": (
        parquet(_few, {"source": np.zeros(9 * MILLION, dtype=bool), "target": np.zeros(9 * MILLION, dtype=bool)}),
        "E-BOMB",
    ),
    "parquet lists": (parquet({**_few, "y": [[0] * 8 * MILLION, [], []]}), "E-DTYPE"),
    "parquet columns": (parquet({"id": np.arange(900)} | {f"c{n}": np.zeros(900) for n in range(8000)}), "E-BOMB"),
    "parquet groups": (parquet({"id": np.arange(8000), "x": np.zeros(8000)}, row_group_size=1), "E-BOMB"),
    "keys": (file("g.graphml", f"{GRAPHML}{_keys}<graph/></graphml>".encode()), "E-LINE-LEN"),
    "drawings": (file("g.graphml", f"{GRAPHML}{'<a/>' * (SIZE // 4)}</graphml>".encode()), "E-BOMB"),
}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the peak of memory is read from /proc")
def test_memory(tmp_path: Path) -> None:
    paths = [str(build(tmp_path / name)) for name, (build, _) in HOSTILE.items()]
    done = subprocess.run([sys.executable, "-c", MEASURE, *paths], capture_output=True, text=True, check=True)
    for (name, (_, code)), line in zip(HOSTILE.items(), done.stdout.splitlines(), strict=True):
        grown, found = line.split()
        assert found == code, name
        assert int(grown) < LARGEST, f"{name} took {grown} kB"


def one_hot(nodes: int, columns: int, kind: str) -> np.ndarray:
    features = np.zeros((nodes, columns), dtype=kind)
    features[np.arange(nodes), np.arange(nodes) % columns] = 1
    return features


def distinct(edges: int, nodes: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, nodes, (2, edges))


# made when they are needed: together they take a few hundred megabytes
HONEST: dict[str, Callable[[], Build]] = {
    "one-hot": lambda: packed(features=one_hot(20_000, 1000, "f4"), edge_index=distinct(50_000, 20_000)),
    "one-hot in double precision": lambda: packed(
        features=one_hot(20_000, 500, "f8"), edge_index=distinct(50_000, 20_000)
    ),
    "one-hot bytes": lambda: packed(features=one_hot(20_000, 1000, "u1"), edge_index=distinct(50_000, 20_000)),
    "a million nodes": lambda: packed(features=_one, labels=np.arange(MILLION) % 7, node_ids=np.arange(MILLION)),
    "ten splits": lambda: packed(
        features=_one[:200_000],
        **{f"{role}_masks": np.zeros((10, 200_000), dtype=bool) for role in ("train", "val", "test")},
    ),
    "a million edges": lambda: packed(features=_one[:30_000], edge_index=distinct(MILLION, 30_000)),
    "text": lambda: packed(
        features=_one[:300_000],
        node_ids=np.arange(300_000).astype(str),
        labels=np.array(["yes", "no"])[np.arange(300_000) % 2],
    ),
}


@pytest.mark.parametrize("name", HONEST)
def test_what_packs_well_is_no_bomb(tmp_path: Path, name: str) -> None:
    path = HONEST[name]()(tmp_path)
    assert path.stat().st_size < 10_000_000
    assert read(path).num_nodes > 10_000


def test_a_large_graph_comes_in_a_large_file(tmp_path: Path) -> None:
    """What is refused in a small file is read from one that is not compressed."""
    features = np.zeros((30_000, 1500), dtype=np.float32)
    np.savez_compressed(tmp_path / "small.npz", features=features, edge_index=NO_EDGES)
    with pytest.raises(BadInput) as caught:
        read(tmp_path / "small.npz")
    assert caught.value.code == "E-BOMB" and "numpy.savez" in str(caught.value.fix)
    np.savez(tmp_path / "large.npz", features=features, edge_index=NO_EDGES)
    assert read(tmp_path / "large.npz").num_nodes == 30_000


@pytest.mark.parametrize(
    ("cost", "size", "code"),
    [
        (200_000_000, 10, None),
        (200_000_001, 10, "E-BOMB"),
        (200_000_001, 10_000_000, "E-BOMB"),
        (1_200_000_000, 20_000_000, None),
        (1_200_000_001, 20_000_000, "E-BOMB"),
        (3_000_000_000_000, 10**11, "E-MEM"),
    ],
)
def test_what_a_file_may_cost(monkeypatch: pytest.MonkeyPatch, cost: int, size: int, code: str | None) -> None:
    monkeypatch.setattr("graphsde.base.memory.available_bytes", lambda: 2_000_000_000_000)
    try:
        refuse_cost(Path("graph.npz"), cost=cost, size=size, fix="…")
        found = None
    except GraphsdeError as error:
        found = error.code
    assert found == code


def test_costs_are_judged_from_headers_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = HOSTILE["rows of nothing"][0](tmp_path)
    unpacked: list[int] = []
    whole = zipfile.ZipExtFile.read

    def counted(self: zipfile.ZipExtFile, n: int | None = -1) -> bytes:
        piece = whole(self, n)
        unpacked.append(len(piece))
        return piece

    monkeypatch.setattr(zipfile.ZipExtFile, "read", counted)
    with pytest.raises(BadInput):
        read(path)
    assert 0 < sum(unpacked) < 1000
