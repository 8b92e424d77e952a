"""Time and memory of the default LGNSDE and of the paper's network as graphs and horizons grow.

    python benchmarks/scale.py [--json] [--quick] [--out DIR] [--journal FILE] [--again] [--only TEXT] [--picture FILE]
    python benchmarks/scale.py --workers [--json] [--quick] [--out DIR]   # 1, 2 and 4 workers beside the whole graph

Made graphs (``synthetic``, 64 features, 5 classes): 10³ to 10⁶ nodes, 5 to 50 edges a node, L = 4 to 100. Each point is
a process of its own, one thread: CPU seconds, page faults and peak memory of an epoch (without validation) and of a
prediction, by ``fit`` and ``predict`` as anybody calls them. The default is measured with noise (σ = 0.25), as without
it 64 samples would be one.

Every point is one line of the journal. One that was measured by the same source on the same CPU is not measured again,
unless --again asks for it; the last line of a point counts.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import _workers
import numpy as np
from _machine import machine
from _report import RESULTS, answer, arguments, same_source
from _scale_picture import draw
from _usage import Meter, resident, usage_of

FEATURES, CLASSES = 64, 5
SAMPLES = 64
GIBIBYTE = 2**30
LIMIT = 8 * GIBIBYTE
# state entries (nodes · width · steps · samples) that a prediction may have before it takes fewer samples: some 20 s
PREDICTED_ENTRIES = 500_000_000
# the same of the states that an epoch may store before it keeps √L checkpoints
STORED_ENTRIES = 200_000_000
LONG_EPOCH = 300_000_000  # entries from which on one epoch says as much as the second


@dataclass(frozen=True)
class Point:
    """A model on a graph: what is measured in one process."""

    model: str  # default or paper
    nodes: int
    degree: int
    steps: int

    @property
    def width(self) -> int:
        return CLASSES if self.model == "default" else 64

    @property
    def entries(self) -> int:
        return self.nodes * self.width * self.steps

    @property
    def samples(self) -> int:
        return max(1, min(SAMPLES, PREDICTED_ENTRIES // self.entries)) if self.model == "paper" else SAMPLES

    def settings(self) -> dict[str, Any]:
        common: dict[str, Any] = {"race": False, "early_stop": False, "steps": self.steps}
        if self.model == "default":
            # agreement among paths from the first epoch on, as in all but the first five of a training
            agreement = {"kind": "confident", "weight": 1.0, "by_evidence": True, "begin": 1}
            return common | {"preset": "auto", "sigma": 0.25, "horizon": float(self.steps), "consistency": agreement}
        stored = self.entries <= STORED_ENTRIES
        return common | {"preset": "paper", "gradients": "store" if stored else "checkpoint"}


SWEEPS: dict[str, dict[str, list[Point]]] = {
    "nodes": {
        "default": [Point("default", nodes, 10, 10) for nodes in (1_000, 10_000, 100_000, 1_000_000)],
        "paper": [Point("paper", nodes, 10, 10) for nodes in (1_000, 10_000, 100_000, 1_000_000)],
    },
    "degree": {
        "default": [Point("default", 100_000, degree, 10) for degree in (5, 10, 20, 50)],
        "paper": [Point("paper", 10_000, degree, 10) for degree in (5, 10, 20, 50)],
    },
    "steps": {
        "default": [Point("default", 100_000, 10, steps) for steps in (4, 10, 30, 100)],
        "paper": [Point("paper", 10_000, 10, steps) for steps in (4, 10, 30, 100)],
    },
}
QUICK: dict[str, dict[str, list[Point]]] = {
    "nodes": {"default": [Point("default", nodes, 5, 2) for nodes in (100, 200)]},
    "steps": {"paper": [Point("paper", 100, 5, 2)]},
}
LARGE = Point("paper", 1_000_000, 10, 10)
"""10⁶ nodes, 10⁷ edges, d = 64, L = 10: to be trained on the whole graph within 8 GiB."""


def measure_here(point: Point) -> dict[str, Any]:
    """One point, in a process that does nothing else."""
    import torch

    import graphsde as gs
    from graphsde.base.errors import GraphsdeError
    from graphsde.datasets.splits import default_split, make_split
    from graphsde.datasets.synthetic import synthetic
    from graphsde.nn.callbacks import Callback

    meter = Meter()
    epochs: list[dict[str, float]] = []

    class Watch(Callback):
        """A reading after every epoch."""

        def on_start(self, epochs: int, first: int) -> None:
            meter.start()

        def on_epoch(self, record: Any) -> None:
            epochs.append(meter.read())
            meter.start()

    torch.set_num_threads(1)
    begin = time.process_time()
    whole = synthetic(point.nodes, classes=CLASSES, features=FEATURES, degree=float(point.degree))
    graph = make_split(whole, default_split(whole)).apply(whole)
    built = time.process_time() - begin
    model = gs.LGNSDE(epochs=1 if point.entries > LONG_EPOCH else 3, **point.settings())
    before, begin = resident("VmRSS"), time.process_time()
    model.fit(graph, callbacks=[Watch()])
    fitted = time.process_time() - begin
    # later epochs are what a training is made of; the peak is that of any, as the first also allocates what stays
    epoch = min(epochs[1:] or epochs, key=lambda one: one["seconds"])
    epoch = {**epoch, "peak_bytes": max(one["peak_bytes"] for one in epochs)}
    prediction: dict[str, Any]
    try:
        prediction = usage_of(lambda: model.predict(graph, samples=point.samples))
    except (GraphsdeError, MemoryError) as error:
        prediction = {"failed": f"{type(error).__name__}: {error}".splitlines()[0]}
    return {
        "edges": graph.num_edges,
        "graph_seconds": round(built, 3),
        "before_bytes": before,
        "first_epoch_seconds": epochs[0]["seconds"],
        "epoch": epoch,
        "fit_seconds": round(fitted, 3),
        "gradients": model.settings.gradients,
        "prediction": {**prediction, "samples": point.samples},
    }


def measured(point: Point) -> dict[str, Any]:
    """The same from a fresh process; where that ends badly, how."""
    words = [sys.executable, __file__, "--point", json.dumps(asdict(point))]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        return {"failed": last[0]}
    return json.loads(done.stdout.splitlines()[-1])


class Journal:
    """Lines of measured points, in the order in which they were measured."""

    def __init__(self, path: Path) -> None:
        self.path = path
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        self.lines: list[dict[str, Any]] = []
        for line in lines:
            with contextlib.suppress(json.JSONDecodeError):  # half a line, of a process that was stopped
                self.lines.append(json.loads(line))

    def last(self, point: Point) -> dict[str, Any] | None:
        found = [line for line in self.lines if line["point"] == asdict(point)]
        return found[-1] if found else None

    def has(self, point: Point, here: dict[str, Any]) -> bool:
        last = self.last(point)
        return last is not None and "failed" not in last and same_source({"quick": False, **last}, here)

    def add(self, point: Point, found: dict[str, Any], here: dict[str, Any]) -> None:
        line = {"point": asdict(point), **found, "machine": here}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a+b") as file:
            # half a line must not swallow this one
            if file.seek(0, os.SEEK_END) and not _ends_a_line(file):
                file.write(b"\n")
            file.write(json.dumps(line).encode() + b"\n")
        self.lines.append(line)


def _ends_a_line(file: IO[bytes]) -> bool:
    file.seek(-1, os.SEEK_END)
    return file.read(1) == b"\n"


def exponents(sizes: list[float], values: list[float]) -> dict[str, Any]:
    """Powers of growth: by least squares over all sizes, and from each size to the next.

    Example:
        >>> exponents([1.0, 2.0, 4.0], [3.0, 6.0, 12.0])
        {'overall': 1.0, 'steps': [1.0, 1.0]}
    """
    if len(sizes) < 2:
        return {"overall": None, "steps": []}
    x, y = np.log(sizes), np.log(values)
    steps = [round(float(one), 3) for one in np.diff(y) / np.diff(x)]
    return {"overall": round(float(np.polyfit(x, y, 1)[0]), 3), "steps": steps}


def rows_of(sweep: str, points: list[Point], journal: Journal) -> list[dict[str, Any]]:
    """What the journal has of a sweep, failures left out."""
    rows = []
    for point in points:
        line = journal.last(point)
        if line is None or "failed" in line:
            continue
        predicted = line["prediction"]
        per_sample = predicted["seconds"] / predicted["samples"] if "seconds" in predicted else None
        rows.append(
            {
                "size": getattr(point, sweep),
                **asdict(point),
                "epoch_seconds": line["epoch"]["seconds"],
                "system_share": round(line["epoch"]["system_seconds"] / max(line["epoch"]["seconds"], 1e-9), 3),
                "page_faults": line["epoch"]["page_faults"],
                "epoch_peak_gb": round(line["epoch"]["peak_bytes"] / 1e9, 3),
                "epoch_added_gb": round((line["epoch"]["peak_bytes"] - line["before_bytes"]) / 1e9, 3),
                "samples": predicted["samples"],
                "sample_seconds": None if per_sample is None else round(per_sample, 5),
                "prediction_peak_gb": round(predicted["peak_bytes"] / 1e9, 3) if "peak_bytes" in predicted else None,
                "gradients": line["gradients"],
            }
        )
    return rows


def summary(sweeps: dict[str, dict[str, list[Point]]], journal: Journal) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for sweep, models in sweeps.items():
        for model, points in models.items():
            rows = rows_of(sweep, points, journal)
            sizes = [float(row["size"]) for row in rows]
            growth = {"epoch": exponents(sizes, [row["epoch_seconds"] for row in rows])}
            known = [row for row in rows if row["sample_seconds"] is not None]
            growth["sample"] = exponents(
                [float(row["size"]) for row in known], [row["sample_seconds"] for row in known]
            )
            found.setdefault(sweep, {})[model] = {"rows": rows, "exponents": growth}
    large = journal.last(LARGE)
    within = None
    if large is not None and "epoch" in large:
        peak = large["epoch"]["peak_bytes"]
        within = {"peak_gib": round(peak / GIBIBYTE, 2), "limit_gib": 8, "within": peak < LIMIT}
    return {"sweeps": found, "million_nodes": within}


def measure(sweeps: dict[str, dict[str, list[Point]]], journal: Journal, given: argparse.Namespace) -> dict[str, Any]:
    here = machine()
    points = dict.fromkeys(point for models in sweeps.values() for found in models.values() for point in found)
    # the cheap ones first: a picture of most is there soon
    for point in sorted(points, key=lambda one: one.entries * (math.log2(one.degree) + 1)):
        label = " ".join(f"{name}={value}" for name, value in asdict(point).items())
        if given.only not in label or (journal.has(point, here) and not given.again):
            continue
        found = measured(point)
        journal.add(point, found, here)
        if not given.json:
            told = found.get("failed") or "{seconds:.3f} s, peak {peak_bytes:,} bytes".format(**found["epoch"])
            print(f"{label}: {told}", flush=True)
    return summary(sweeps, journal)


def print_table(result: dict[str, Any]) -> None:
    for sweep, models in result["sweeps"].items():
        for model, found in models.items():
            print(f"\n{model}, by {sweep}: exponents {found['exponents']}")
            print("| size | epoch s | of it system | page faults | peak GB | a sample s | samples | its peak GB |")
            print("|---|---|---|---|---|---|---|---|")
            for row in found["rows"]:
                names = ("epoch_seconds", "system_share", "page_faults", "epoch_peak_gb", "sample_seconds", "samples")
                figures = [row["size"], *(row[name] for name in names), row["prediction_peak_gb"]]
                print("| " + " | ".join("–" if one is None else f"{one:,}" for one in figures) + " |")
    print(f"\n10⁶ nodes, 10⁷ edges, d = 64, L = 10: {result['million_nodes']}")


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--journal", type=Path, default=RESULTS / "scale.jsonl")
    parser.add_argument("--again", action="store_true", help="measure what the journal has already")
    parser.add_argument("--only", default="", metavar="TEXT", help="points whose label has it, as in model=paper")
    parser.add_argument("--picture", type=Path, metavar="FILE", help="draw the curves (.png, .svg, .pdf)")
    parser.add_argument("--workers", action="store_true", help="1, 2 and 4 processes that train one model in parts")
    parser.add_argument("--point", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.workers:
        cases = _workers.QUICK if given.quick else _workers.CASES
        answer("workers", lambda: _workers.measure(cases), given, _workers.print_table)
        return
    if given.point:
        print(json.dumps(measure_here(Point(**json.loads(given.point)))))
        return
    sweeps = QUICK if given.quick else SWEEPS
    result = answer("scale", lambda: measure(sweeps, Journal(given.journal), given), given, print_table)
    if given.picture is not None:
        draw(result, given.picture)


if __name__ == "__main__":
    main()
