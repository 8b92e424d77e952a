"""How large halos are: real and made graphs in 2 to 64 parts, by METIS and by streaming.

    python studies/halos.py [--out FILE] [--graphs NAME,NAME] [--parts 2,4,8] [--table]

One line of JSON for each graph, number of parts and method, in results/scale/halos.jsonl; what is there already is not
computed again. Sizes are counts and the same on every machine; the seconds are CPU time of this one. --table prints the
table of docs/scale.md.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

ROOT = Path(__file__).resolve().parents[1]
DATA = Path(os.environ.get("GRAPHSDE_DATA", ROOT.parent / "shared" / "data"))
JOURNAL = ROOT / "results" / "scale" / "halos.jsonl"
FILES = {
    "wisconsin": "wisconsin.npz",
    "chameleon": "chameleon_filtered.npz",
    "minesweeper": "minesweeper.npz",
    "tolokers": "tolokers.npz",
    "facebook": "facebook",
    "coauthor-cs": "ms_academic_cs.npz",
    "coauthor-physics": "ms_academic_phy.npz",
}
BENCHMARKS = ("cora", "citeseer", "pubmed", "photo", "computers")
MADE = ("synthetic:10000", "synthetic:100000", "synthetic:1000000")
GRAPHS = (*BENCHMARKS, *FILES, *MADE)
PARTS = (2, 4, 8, 16, 32, 64)
METHODS = ("metis", "stream")


def adjacency_of(name: str) -> Any:
    import graphsde as gs

    if name.startswith("synthetic:"):
        return gs.synthetic(int(name.partition(":")[2]), features=8).adjacency
    return gs.read(DATA / "more" / FILES[name]).adjacency if name in FILES else gs.load(name).adjacency


def measure(name: str, adjacency: Any, parts: int, method: Any) -> dict[str, Any]:
    from graphsde.graph.partition import halo_sizes, partition

    begin = time.process_time()
    part = partition(adjacency, parts, method=method)
    seconds = time.process_time() - begin
    sizes = halo_sizes(adjacency, part)
    return {
        "graph": name,
        "nodes": adjacency.num_nodes,
        "entries": adjacency.num_edges,
        "parts": parts,
        "method": method,
        "halo": sum(one.halo for one in sizes),
        "largest_halo": max(one.halo for one in sizes),
        "largest_own": max(one.own for one in sizes),
        "cut": sum(one.cut for one in sizes),
        "seconds": round(seconds, 3),
    }


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.is_file() else []


def fill(path: Path, graphs: Iterable[str], parts: Iterable[int]) -> None:
    counts = list(parts)
    have = {(one["graph"], one["parts"], one["method"]) for one in read(path)}
    path.parent.mkdir(parents=True, exist_ok=True)
    for name in graphs:
        left = [(count, method) for count in counts for method in METHODS if (name, count, method) not in have]
        adjacency = adjacency_of(name) if left else None
        for count, method in left:
            found = measure(name, adjacency, count, method)
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(found) + "\n")
            print(found, file=sys.stderr, flush=True)


def table(rows: list[dict[str, Any]]) -> str:
    """Rows fetched for every product over the graph's nodes, METIS / streaming, by the number of parts."""
    found = {(one["graph"], one["parts"], one["method"]): one for one in rows}
    parts = sorted({one["parts"] for one in rows})
    lines = [
        "| graph | nodes | entries | " + " | ".join(f"P = {count}" for count in parts) + " |",
        "|---|---|---|" + "---|" * len(parts),
    ]
    for name in dict.fromkeys(one["graph"] for one in rows):
        cells = []
        for count in parts:
            each = [found.get((name, count, method)) for method in METHODS]
            cells.append(" / ".join("–" if one is None else f"{one['halo'] / one['nodes']:.2f}" for one in each))
        first = next(one for one in rows if one["graph"] == name)
        lines.append(f"| {name} | {first['nodes']:,} | {first['entries']:,} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=JOURNAL)
    parser.add_argument("--graphs", default=",".join(GRAPHS))
    parser.add_argument("--parts", default=",".join(map(str, PARTS)))
    parser.add_argument("--table", action="store_true", help="measure nothing, print the table")
    given = parser.parse_args()
    if not given.table:
        fill(given.out, given.graphs.split(","), map(int, given.parts.split(",")))
    print(table(read(given.out)))


if __name__ == "__main__":
    main()
