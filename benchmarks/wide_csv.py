"""CPU seconds of ``graphsde check`` on a CSV table of words: a row per node, thousands of columns of zeros and ones.

    python benchmarks/wide_csv.py [--json] [--quick] [--out DIR] [--nodes 22470] [--words 4714] [--sparse]

The table is made up, with the size and the share of ones of the Facebook pages. Each figure is of a process of its own,
imports included; CPU time of the system counts, waiting does not.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from _report import answer, arguments

SHARE = 0.003
EDGES_PER_NODE = 8
GOAL = 5.0


def write_tables(folder: Path, nodes: int, words: int) -> None:
    """``nodes.csv`` and ``edges.csv``, row by row, so that the benchmark itself takes no memory to speak of."""
    rng = np.random.default_rng(0)
    with open(folder / "nodes.csv", "wb") as file:
        file.write(("id,label," + ",".join(f"w{word}" for word in range(words)) + "\n").encode())
        row = np.full(2 * words, ord(","), dtype=np.uint8)
        for node in range(nodes):
            row[1::2] = ord("0") + (rng.random(words) < SHARE)
            file.write(f"{node},class {node % 4}".encode() + row.tobytes() + b"\n")
    ends = rng.integers(nodes, size=(EDGES_PER_NODE * nodes, 2))
    rows = "".join(f"{source},{target}\n" for source, target in ends.tolist())
    (folder / "edges.csv").write_text(f"source,target\n{rows}", encoding="utf-8")


def cpu_seconds(words: list[str]) -> float:
    """User and system time of one process of the command line."""
    before = os.times()
    subprocess.run([sys.executable, "-m", "graphsde", *words], capture_output=True, text=True, check=True)
    after = os.times()
    return round(after.children_user + after.children_system - before.children_user - before.children_system, 2)


def measure(nodes: int, words: int, repeats: int, *, sparse: bool) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        write_tables(Path(folder), nodes, words)
        options = ["--read", "sparse=true"] if sparse else []
        times = [cpu_seconds(["check", folder, *options]) for _ in range(repeats)]
    return {"nodes": nodes, "words": words, "sparse": sparse, "cpu_seconds": times, "goal": GOAL}


def print_line(found: dict[str, Any]) -> None:
    times = found["cpu_seconds"]
    print(f"{found['nodes']:,} × {found['words']:,}: {min(times):.2f} s of CPU at best of {times}; goal {GOAL} s")


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--nodes", type=int, default=22_470)
    parser.add_argument("--words", type=int, default=4_714)
    parser.add_argument("--sparse", action="store_true", help="keep the features sparse (--read sparse=true)")
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    nodes, words, repeats = (60, 300, 1) if given.quick else (given.nodes, given.words, given.repeats)
    answer("wide_csv", lambda: measure(nodes, words, repeats, sparse=given.sparse), given, print_line)


if __name__ == "__main__":
    main()
