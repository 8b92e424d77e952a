"""What ``graphsde fit`` says it will take, and what it took: peak memory and time, each graph in a process of its own.

    python benchmarks/estimates.py [--json] [--quick] [--out DIR] [--graphs cora,synthetic:10000] [--epochs 20]
        [--settings preset=universal]

The estimate is the one that is printed before a fit. The peak is that of the whole process (VmHWM): libraries, reading,
training, validation, prediction, controls, writing. Time is from the estimate to the prediction, with as many epochs as
the estimate is for: nothing stops early. Ratios are estimate over measured; those of time mean little while others use
the same cores.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from _report import answer, arguments

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
GRAPHS = ("synthetic:1000", "cora", "synthetic:10000", "computers", "coauthor-physics", "synthetic:100000")
LARGEST = "synthetic:1000000"
FILES = {"coauthor-physics": DATA / "more" / "ms_academic_phy.npz"}
WITHIN = 0.3


def measure(
    graph: str, *, epochs: int = 20, model: str = "lgnsde", settings: dict[str, Any] | None = None
) -> dict[str, Any]:
    """One fit in a fresh process: estimate, peak and ratio of memory and of time."""
    asked = json.dumps({"graph": graph, "epochs": epochs, "model": model, "settings": settings or {"race": False}})
    done = subprocess.run([sys.executable, __file__, "--one", asked], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def measure_here(graph: str, epochs: int, model: str, settings: dict[str, Any]) -> dict[str, Any]:
    from graphsde.base.memory import peak_bytes
    from graphsde.datasets.source import GraphSource
    from graphsde.models.base import Estimate, Model
    from graphsde.runs import fit as runs
    from graphsde.runs.folder import RunFolder

    estimates: list[Estimate] = []
    moments: list[float] = []
    plain_estimate = runs.estimate_run

    def kept(*given: Any) -> Estimate:
        begin = time.perf_counter()
        estimates.append(plain_estimate(*given))
        moments.extend([begin, time.perf_counter()])
        return estimates[-1]

    plain_evaluate = runs.evaluate

    def noted(*given: Any) -> dict[str, Any]:
        moments.append(time.perf_counter())
        return plain_evaluate(*given)

    runs.estimate_run, runs.evaluate = kept, noted  # type: ignore[assignment]
    source = GraphSource.typed(str(FILES.get(graph, graph)))
    values = {"epochs": epochs, "patience": epochs, **settings}
    with tempfile.TemporaryDirectory() as folder:
        request = runs.FitRequest(source, model, values)
        outcome = runs.fit_run(request, RunFolder(Path(folder) / "run"), with_controls=True)
    assert isinstance(outcome.model, Model)
    peak, (begin, told, predicted) = peak_bytes(), moments
    estimate = estimates[0]
    assert estimate.peak is not None
    return {
        "graph": graph,
        "nodes": outcome.graph.num_nodes,
        "edges": outcome.graph.num_edges,
        "estimated_bytes": estimate.peak,
        "peak_bytes": peak,
        "memory_ratio": round(estimate.peak / peak, 3),
        "estimated_seconds": round(estimate.seconds, 2),
        "seconds": round(predicted - told, 2),
        "time_ratio": round(estimate.seconds / (predicted - told), 3),
        "estimating_seconds": round(told - begin, 2),
        "epochs": epochs,
    }


def measure_all(graphs: list[str], epochs: int, model: str, settings: dict[str, Any]) -> dict[str, Any]:
    rows = []
    for graph in graphs:
        try:
            rows.append(measure(graph, epochs=epochs, model=model, settings=settings))
        except RuntimeError as error:  # files that are not there, not enough memory
            print(f"{graph} is left out: {str(error).strip().splitlines()[-1]}", file=sys.stderr)
    return {"model": model, "settings": settings, "epochs": epochs, "within": WITHIN, "graphs": rows}


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--graphs", default=",".join((*GRAPHS, LARGEST)), help="with commas between")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--model", default="lgnsde")
    parser.add_argument("--settings", default="race=False", help="with commas between, e.g. preset=universal")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(measure_here(**json.loads(given.one))))
        return
    settings: dict[str, Any] = dict(part.split("=", 1) for part in filter(None, given.settings.split(",")))
    settings = {name: {"True": True, "False": False}.get(value, value) for name, value in settings.items()}
    graphs = ["synthetic:300"] if given.quick else given.graphs.split(",")
    found = lambda: measure_all(graphs, given.epochs, given.model, settings)  # noqa: E731
    answer("estimates", found, given, lambda result: print(*map(line, result["graphs"]), sep="\n"))


def line(row: dict[str, Any]) -> str:
    """One graph in words."""
    said, taken = (row[name] / 1e6 for name in ("estimated_bytes", "peak_bytes"))
    memory = f"{said:8,.0f} MB said, {taken:8,.0f} MB taken ({row['memory_ratio']:.2f})"
    seconds = f"{row['estimated_seconds']:7.1f} s said, {row['seconds']:7.1f} s taken ({row['time_ratio']:.2f})"
    return (
        f"{row['graph']:18} {row['nodes']:9,} nodes: {memory}; {seconds}; estimating {row['estimating_seconds']:.1f} s"
    )


if __name__ == "__main__":
    main()
