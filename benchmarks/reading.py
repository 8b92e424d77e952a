"""CPU seconds and memory of reading a folder of Parquet tables, with ids that are numbers and ids that are text.

    python benchmarks/reading.py [--json] [--quick] [--out DIR] [--nodes 1000000] [--edges-per-node 10] [--columns 64]

The tables are made up: random edges, float32 features, five classes, a split. Each figure is of a process of its own
that has read a small folder before, so that imports count for nothing. Memory is the peak resident set while reading
less the one before, over the size of the finished graph: features, edges, labels, masks and ids.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from _report import answer, arguments

CLASSES = ("alpha", "beta", "gamma", "delta", "epsilon")
IDS = ("numbers", "text")
GOALS = {"cpu_seconds": 15.0, "peak_over_size": 1.5}
GOAL_NODES = 1_000_000


def write_tables(folder: Path, ids: str, nodes: int, edges_per_node: int, columns: int) -> None:
    """``nodes.parquet`` and ``edges.parquet``."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    folder.mkdir()
    numbers = rng.permutation(nodes) * 7 + 3  # neither in order nor without gaps
    names = pa.array(numbers) if ids == "numbers" else pa.array([f"node-{number}" for number in numbers.tolist()])
    table = {
        "id": names,
        "label": pa.array(np.array(CLASSES, dtype=object)[rng.integers(len(CLASSES), size=nodes)]),
        "split": pa.array(np.array(["train", "val", "test"], dtype=object)[rng.choice(3, nodes, p=[0.1, 0.1, 0.8])]),
    }
    for column in range(columns):
        table[f"x{column}"] = pa.array(rng.standard_normal(nodes, dtype=np.float32))
    pq.write_table(pa.table(table), folder / "nodes.parquet")
    ends = rng.integers(nodes, size=(2, edges_per_node * nodes))
    source, target = (names.take(pa.array(end)) for end in ends)
    pq.write_table(pa.table({"source": source, "target": target}), folder / "edges.parquet")


def resident(what: str) -> int:
    """Bytes that ``/proc`` says: ``VmRSS`` now, ``VmHWM`` at the peak."""
    found = re.search(rf"{what}:\s+(\d+) kB", Path("/proc/self/status").read_text(encoding="ascii"))
    assert found is not None
    return int(found[1]) * 1024


def size_of(graph: Any) -> int:
    """Bytes of a graph's arrays, and of its ids where these are text."""
    matrix, ids = graph.adjacency.matrix, graph.node_ids
    arrays = [graph.features, matrix.data, matrix.indices, matrix.indptr, ids, graph.labels, *graph.masks.values()]
    texts = sum(map(sys.getsizeof, ids.tolist())) if ids.dtype == object else 0
    return sum(array.nbytes for array in arrays) + texts


def measure_here(folder: str) -> dict[str, float]:
    import torch

    import graphsde as gs

    with tempfile.TemporaryDirectory() as small:
        gs.write_tables(gs.synthetic(200, classes=2), small, "parquet")
        gs.read(small)
    torch.zeros(1)
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak so far is forgotten
    before, started = resident("VmRSS"), time.process_time()
    graph = gs.read(folder)
    seconds, peak = time.process_time() - started, resident("VmHWM") - before
    size = size_of(graph)
    return {
        "cpu_seconds": round(seconds, 2),
        "size_bytes": size,
        "peak_bytes": peak,
        "peak_over_size": round(peak / size, 2),
    }


def measure(folder: Path) -> dict[str, float]:
    """In a process of its own."""
    command = [sys.executable, __file__, "--one", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout)


def measure_all(nodes: int, edges_per_node: int, columns: int) -> dict[str, Any]:
    found: dict[str, Any] = {
        "nodes": nodes,
        "edges": nodes * edges_per_node,
        "columns": columns,
        "goals": {"nodes": GOAL_NODES, **GOALS},
        "ids": {},
    }
    with tempfile.TemporaryDirectory() as folder:
        for ids in IDS:
            write_tables(Path(folder) / ids, ids, nodes, edges_per_node, columns)
            found["ids"][ids] = measure(Path(folder) / ids)
    return found


def show(found: dict[str, Any]) -> None:
    for ids, one in found["ids"].items():
        print(
            f"{found['nodes']:,} nodes, {found['edges']:,} edges, ids are {ids}: {one['cpu_seconds']:.2f} s of CPU, "
            f"peak {one['peak_over_size']:.2f} times the graph's {one['size_bytes'] / 1e6:,.0f} MB"
        )
    print(f"goals at {GOAL_NODES:,} nodes: {GOALS['cpu_seconds']:.0f} s, {GOALS['peak_over_size']} times")


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--nodes", type=int, default=GOAL_NODES)
    parser.add_argument("--edges-per-node", type=int, default=10)
    parser.add_argument("--columns", type=int, default=64)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one is not None:
        print(json.dumps(measure_here(given.one)))
        return
    nodes = 300 if given.quick else given.nodes
    answer("reading", lambda: measure_all(nodes, given.edges_per_node, given.columns), given, show)


if __name__ == "__main__":
    main()
