"""What a verb costs after a fit: CPU seconds beyond importing, with what the run keeps and without it.

    python benchmarks/kept.py [RUN] [--node ID] [--json] [--quick] [--out DIR]

Without a run, one of the default model on a made graph is fitted for it. Each figure is of a process of its own, which
runs the verb on a small run first, so that nothing is imported later.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import itertools
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

from _report import answer, arguments

from graphsde.cli.app import app
from graphsde.datasets.source import GraphSource
from graphsde.runs.fit import FitRequest, fit_run
from graphsde.runs.folder import RunFolder

KEPT = ("graph.safetensors", "prediction.safetensors", "evidence.safetensors")
ROUNDS = 3
VERBS = ("evaluate", "predict", "decide", "ask", "report", "calibrate", "explain")


def words(verb: str, run: Path, node: str, aside: Path) -> list[str]:
    more = {
        "predict": ["--out", str(aside / "p.csv")],
        "decide": ["--out", str(aside / "d.csv")],
        "report": ["--out", str(aside / "r.html")],
        "explain": [node],
    }
    return [verb, str(run), *more.get(verb, [])]


def without_kept(run: Path) -> None:
    """Make a run one of the versions that kept none of this."""
    manifest = run / "manifest.json"
    content = json.loads(manifest.read_text())
    content["files"] = {name: guard for name, guard in content["files"].items() if name not in KEPT}
    manifest.write_text(json.dumps(content))
    for name in KEPT:
        (run / name).unlink(missing_ok=True)


def seconds(verb: str, run: Path, node: str) -> float:
    """CPU time of a verb in this process, everything imported."""
    with tempfile.TemporaryDirectory() as place:
        small = Path(place) / "small"
        fit_run(FitRequest(GraphSource("synthetic:200"), "lgnsde", {"epochs": 2, "race": False}), RunFolder(small))
        for target, name in ((small, "0"), (run, node)):
            begin = time.process_time()
            with contextlib.redirect_stdout(io.StringIO()):
                app(words(verb, target, name, Path(place)), standalone_mode=False)
            taken = time.process_time() - begin
    return taken


def measured(verb: str, run: Path, node: str, kept: bool) -> float:
    with tempfile.TemporaryDirectory() as place:
        copy = Path(shutil.copytree(run, Path(place) / "run"))
        if not kept:
            without_kept(copy)
        command = [sys.executable, __file__, str(copy), "--node", node, "--verb", verb]
        return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[-1])


def measure(given: argparse.Namespace) -> dict[str, Any]:
    verbs, rounds = (VERBS[:1], 1) if given.quick else (VERBS, ROUNDS)
    with tempfile.TemporaryDirectory() as place:
        run, graph = given.run, ""
        if run is not None:
            graph = str(json.loads((run / "graph.json").read_text(encoding="utf-8"))["name"])
        else:
            run, graph = Path(place) / "run", f"synthetic:{200 if given.quick else 5000}"
            settings = {"race": False, "epochs": 5 if given.quick else 100}
            fit_run(FitRequest(GraphSource(graph), "lgnsde", settings), RunFolder(run))
        found: dict[str, dict[str, list[float]]] = {verb: {"solved": [], "kept": []} for verb in verbs}
        for _, verb, name in itertools.product(range(rounds), verbs, ("solved", "kept")):
            found[verb][name].append(round(measured(verb, run, given.node, name == "kept"), 2))
        sizes = {name.partition(".")[0]: (run / name).stat().st_size for name in KEPT if (run / name).is_file()}
    return {"seconds": found, "graph": graph, "bytes": sizes}


def print_table(result: dict[str, Any]) -> None:
    for verb, row in result["seconds"].items():
        solved, kept = (statistics.fmean(row[name]) for name in ("solved", "kept"))
        print(f"{verb:10} {solved:6.2f} without, {kept:6.2f} with what is kept")


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("run", type=Path, nargs="?")
    parser.add_argument("--node", default="0")
    parser.add_argument("--verb", choices=VERBS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.verb:
        print(seconds(given.verb, given.run, given.node))
    else:
        answer("kept", lambda: measure(given), given, print_table)


if __name__ == "__main__":
    main()
