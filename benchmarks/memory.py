"""Memory that one training epoch adds, by the way gradients reach back; each figure from a process of its own.

    python benchmarks/memory.py [--json] [--quick] [--out DIR] [--graph cora]
    python benchmarks/memory.py --computers [--json] [--out DIR]

Added memory is the peak resident set during an epoch minus the resident set before it, after a short epoch has made the
optimiser's state and everything else that stays. Every tensor is mapped by itself (``MALLOC_MMAP_THRESHOLD_``), so that
what is freed is gone at once and the figure is that of live tensors, not of the allocator's pools.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import subprocess
import sys
from typing import Any

from _report import answer, arguments
from _usage import MEBIBYTE, forget_the_peak, resident

STEPS = (10, 40, 100)
WIDTH = 64
COMPUTERS = {"graph": "computers", "width": 128, "steps": 20, "kind": "checkpoint"}
COMPUTERS_LIMIT = 3e9
GOAL = 1.5


def added_memory(kind: str, graph: str, width: int, steps: int) -> dict[str, float]:
    """Bytes that an epoch adds and the process's peak, measured in a fresh process.

    Args:
        kind: ``store``, ``checkpoint``, ``reversible`` or ``torchsde``.
        graph: name of the graph.
        width: d.
        steps: L.
    """
    done = subprocess.run(
        [sys.executable, __file__, "--one", kind, graph, str(width), str(steps)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536"},
    )
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout)


def checkpoint_peak_ratio(graph: str = "cora", width: int = WIDTH) -> float:
    """Memory added by an epoch with √L checkpoints: 100 steps over 10 steps."""
    long, short = (added_memory("checkpoint", graph, width, steps)["added"] for steps in (100, 10))
    return round(long / max(short, 1.0), 3)  # on a tiny graph an epoch may add nothing that can be seen


def measure_here(kind: str, graph: str, width: int, steps: int) -> dict[str, float]:
    import torch
    from _peers import ReferenceSDE
    from _workload import LatentSDE, epochs_of, make_task

    torch.set_num_threads(1)
    task = make_task(graph)
    model: Any
    if kind == "torchsde":
        model = ReferenceSDE(task, width, steps)
    else:
        solver = "reversible-heun" if kind == "reversible" else "sra1"
        model = LatentSDE(task, width, steps, solver=solver, gradients=kind)  # type: ignore[arg-type]
    epoch = epochs_of(model, model.loss)
    model.steps = 2
    epoch()
    model.zero_grad()
    model.steps = steps
    gc.collect()
    forget_the_peak()
    before = resident("VmRSS")
    epoch()
    peak = resident("VmHWM")
    return {"added": peak - before, "peak": peak, "before": before, "nodes": task.nodes}


def table(graph: str, width: int) -> dict[str, Any]:
    """Added MiB by kind and number of steps, and the ratio that the goal is about."""
    added = {
        kind: {f"L{steps}": round(added_memory(kind, graph, width, steps)["added"] / MEBIBYTE, 1) for steps in STEPS}
        for kind in ("store", "checkpoint", "reversible")
    }
    added["torchsde"] = {"L10": round(added_memory("torchsde", graph, width, 10)["added"] / MEBIBYTE, 1)}
    ratio = round(added["checkpoint"]["L100"] / added["checkpoint"]["L10"], 3)
    return {"graph": graph, "width": width, "n": 1, "added_mib": added, "peak_ratio_L100_L10": ratio}


def computers() -> dict[str, Any]:
    """One epoch with √L checkpoints on Computers: 13,752 nodes, 491,722 edges, d = 128, L = 20."""
    found = added_memory(COMPUTERS["kind"], COMPUTERS["graph"], COMPUTERS["width"], COMPUTERS["steps"])  # type: ignore[arg-type]
    return {
        **COMPUTERS,
        "nodes": int(found["nodes"]),
        "added_gb": round(found["added"] / 1e9, 3),
        "peak_gb": round(found["peak"] / 1e9, 3),
        "limit_gb": COMPUTERS_LIMIT / 1e9,
        "within_limit": found["peak"] < COMPUTERS_LIMIT,
    }


def print_table(result: dict[str, Any]) -> None:
    added = result["added_mib"]
    print(f"Added MiB of one epoch, {result['graph']}, d = {result['width']}\n")
    print("| gradients | " + " | ".join(f"L = {steps}" for steps in STEPS) + " |")
    print("|---|" + "---|" * len(STEPS))
    for kind, figures in added.items():
        print(f"| {kind} | " + " | ".join(str(figures.get(f"L{steps}", "")) for steps in STEPS) + " |")
    print(f"\ncheckpoints, L = 100 over L = 10: {result['peak_ratio_L100_L10']} (goal: at most {GOAL})")


def print_computers(result: dict[str, Any]) -> None:
    print(", ".join(f"{name} {value}" for name, value in result.items() if name != "machine"))


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--graph", default="cora")
    parser.add_argument("--computers", action="store_true", help="the Computers graph instead, within 3 GB")
    parser.add_argument("--one", nargs=4, metavar=("KIND", "GRAPH", "WIDTH", "STEPS"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        kind, graph, width, steps = given.one
        print(json.dumps(measure_here(kind, graph, int(width), int(steps))))
    elif given.computers:
        answer("memory-computers", computers, given, print_computers)
    else:
        answer("memory", lambda: table("tiny" if given.quick else given.graph, WIDTH), given, print_table)


if __name__ == "__main__":
    main()
