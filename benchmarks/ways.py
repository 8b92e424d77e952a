"""An epoch of each way to train on a graph of a million nodes: CPU seconds, and anonymous memory under a limit.

    python benchmarks/ways.py [--json] [--quick] [--out DIR [--add]]
        [--nodes N] [--memory 2G] [--models a,b] [--ways a,b]

Each way is a process of its own: the graph is made and settled in files, then trained for three epochs (the first,
which also makes what is made once, does not count) and predicted by ``fit`` and ``predict``. ``full`` has no limit: it
is what the others are compared to. ``default`` is the default LGNSDE by its rule (a state of one number per class),
``wide`` has a state of 64 numbers; both take 10 steps. Agreement among paths is asked of all nodes, without evidence,
which is the same for all ways and is made before them.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

from _machine import machine, revision
from _report import answer, arguments, keep, kept, of_source
from _usage import MEBIBYTE

MODELS: dict[str, dict[str, Any]] = {
    "default": {},
    "wide": {"state": "wide", "hidden": 64, "steps": 10, "horizon": 10.0},
}
WAYS: dict[str, dict[str, Any]] = {
    "full": {},
    "partitioned": {"way": "partitioned"},
    "batched": {"way": "batched"},
}
NODES, FEW_NODES, SAMPLES = 1_000_000, 2_000, 8
GOAL = 1.5
"""Times an epoch of the whole graph, at most."""


class Watch:
    """The most anonymous memory since it was last asked."""

    def __init__(self) -> None:
        self.peak = 0
        threading.Thread(target=self._look, daemon=True).start()

    def _look(self) -> None:
        from graphsde.base.memory import anonymous_bytes

        while True:
            self.peak = max(self.peak, anonymous_bytes())
            time.sleep(0.02)

    def read(self) -> int:
        found, self.peak = self.peak, 0
        return round(found / MEBIBYTE)


def measure_here(model: str, way: str, nodes: int, memory: str) -> dict[str, Any]:
    """One way, in a process that does nothing else."""
    import graphsde as gs
    from graphsde.base.memory import give_back_free_memory, parse_bytes, within_memory
    from graphsde.graph.settled import settled
    from graphsde.nn.callbacks import Callback

    watch, epochs = Watch(), list[float]()

    class Clock(Callback):
        """CPU seconds of every epoch."""

        def on_start(self, epochs: int, first: int) -> None:
            self.last = time.process_time()

        def on_epoch(self, record: Any) -> None:
            now = time.process_time()
            epochs.append(now - self.last)
            self.last = now

    agreement = {"kind": "confident", "weight": 1.0, "begin": 1}
    given = {"preset": "auto", "race": False, "epochs": 3, "consistency": agreement, **MODELS[model], **WAYS[way]}
    with tempfile.TemporaryDirectory() as folder, within_memory(None if way == "full" else parse_bytes(memory)):
        graph = settled(gs.split(gs.load(f"synthetic:{nodes}"), "fractions"), Path(folder))
        give_back_free_memory()
        made = watch.read()
        begin = time.process_time()
        fitted = gs.LGNSDE(**given).fit(graph, callbacks=[Clock()])
        fit = time.process_time() - begin
        trained = watch.read()
        give_back_free_memory()
        watch.read()
        begin = time.process_time()
        fitted.predict(graph, samples=SAMPLES)
        return {
            "epoch_seconds": round(min(epochs[1:]), 2),
            "fit_seconds": round(fit, 1),
            "predict_seconds": round(time.process_time() - begin, 1),
            "graph_mib": made,
            "fit_mib": trained,
            "predict_mib": watch.read(),
        }


def measure(given: argparse.Namespace, nodes: int) -> dict[str, Any]:
    found: dict[str, Any] = {"nodes": nodes, "memory": given.memory, "goal": GOAL}
    before = kept("ways", given, any_source=given.add)
    rows: dict[str, Any] = before.get("rows", {}) if before.get("nodes") == nodes else {}
    of_source(rows, before)
    for model in given.models.split(","):
        for way in given.ways.split(","):
            if f"{model} {way}" in rows:
                continue
            command = [sys.executable, __file__, "--here", model, way, "--nodes", str(nodes), "--memory", given.memory]
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                raise RuntimeError(done.stderr[-2000:])
            rows[f"{model} {way}"] = json.loads(done.stdout.splitlines()[-1]) | {"revision": revision()}
            keep(
                "ways", {"benchmark": "ways", **found, "rows": rows, "quick": given.quick, "machine": machine()}, given
            )
    return {**found, "rows": rows}


def show(result: dict[str, Any]) -> None:
    print("| model | way | CPU s an epoch | of a fit | anonymous MiB: fit | prediction |\n|---|---|---|---|---|---|")
    for name, row in result["rows"].items():
        figures = (row[key] for key in ("epoch_seconds", "fit_seconds", "fit_mib", "predict_mib"))
        print(f"| {' | '.join([*name.split(' '), *map(str, figures)])} |")


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--nodes", type=int, help=f"default: {NODES}")
    parser.add_argument("--memory", default="2G")
    parser.add_argument("--add", action="store_true", help="keep rows of other sources, each with its revision")
    parser.add_argument("--models", default=",".join(MODELS), help="which, with commas between")
    parser.add_argument("--ways", default=",".join(WAYS), help="which, with commas between")
    parser.add_argument("--here", nargs=2, metavar=("MODEL", "WAY"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    nodes = given.nodes or (FEW_NODES if given.quick else NODES)
    if given.here:
        print(json.dumps(measure_here(*given.here, nodes, given.memory)))
        return
    answer("ways", lambda: measure(given, nodes), given, show)


if __name__ == "__main__":
    main()
