"""A hostile file of up to ten megabytes costs at most 200 MB, whatever it is; honest graphs of the same look pass."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from file_makers import Build
from hostile_files import HOSTILE, MILLION, NO_EDGES, ONES, packed

from graphsde.base.errors import BadInput, GraphsdeError
from graphsde.io.opening import refuse_cost
from graphsde.io.read import read

LARGEST = 200_000  # kB

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
    "a million nodes": lambda: packed(features=ONES, labels=np.arange(MILLION) % 7, node_ids=np.arange(MILLION)),
    "ten splits": lambda: packed(
        features=ONES[:200_000],
        **{f"{role}_masks": np.zeros((10, 200_000), dtype=bool) for role in ("train", "val", "test")},
    ),
    "a million edges": lambda: packed(features=ONES[:30_000], edge_index=distinct(MILLION, 30_000)),
    "text": lambda: packed(
        features=ONES[:300_000],
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
    monkeypatch.setattr("graphsde.base.memory.available_bytes", lambda device=None: 2_000_000_000_000)
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
