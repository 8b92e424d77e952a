"""The pictures of docs/gallery.md, and the paper's figures under docs/images.

    python studies/gallery.py [NAME …]

From `digits` and `diabetes`, which come with the package, and from the journals under results. It trains an LGNSDE on
`digits` for a few seconds and runs nothing else. Every picture is a PNG of at most 150 kB, and the same every time.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from results_pages import CONFIGS, rows_of

import graphsde as gs
from graphsde.bench.compare import compare
from graphsde.bench.folder import BenchFolder
from graphsde.bench.paper import TABLES
from graphsde.bench.reproduce import with_found
from graphsde.bench.theory import TheoryOptions, measure_theory
from graphsde.prediction.plots import PLOTS
from graphsde.view.figures import of_prediction  # noqa: F401  (importing it registers the plots)
from graphsde.view.figures.bench import CostPanel, MetricIntervals
from graphsde.view.figures.dynamics import SamplePaths
from graphsde.view.figures.nodes import ExplanationBars
from graphsde.view.figures.paper import PAPER_FIGURES
from graphsde.view.figures.picture import Picture
from graphsde.view.figures.theory import TheoryPanel
from graphsde.view.figures.training_curve import TrainingCurve

ROOT = Path(__file__).resolve().parents[1]
RESULTS, OUT = ROOT / "results", ROOT / "docs" / "images" / "gallery"
MOST_BYTES = 150_000
DOTS_PER_INCH = (150, 120, 100, 80)
GRAPH = "cora"


@cache
def digits(left_out: bool = False) -> tuple[Any, Any, Any]:
    """The graph, an LGNSDE of fixed settings, and its prediction; one class left out where asked."""
    graph = gs.load("digits")
    if left_out:
        graph = gs.make_split(graph, "leave-class-out").apply(graph)
    model = gs.LGNSDE(epochs=60, race=False).fit(graph)
    return graph, model, model.predict(graph, samples=32)


@cache
def diabetes() -> tuple[Any, Any]:
    graph = gs.load("diabetes")
    return graph, gs.GCN(epochs=60).fit(graph).predict(graph)


def of_digits(name: str, left_out: bool = False, **options: Any) -> Picture:
    graph, _, prediction = digits(left_out)
    return PLOTS[name].of(prediction)(prediction, graph, **options)  # type: ignore[return-value]


def of_numbers(name: str) -> Picture:
    graph, prediction = diabetes()
    return PLOTS[name].of(prediction)(prediction, graph)  # type: ignore[return-value]


def paper(name: str) -> Picture:
    """A figure of the paper from its journals."""
    journals = []
    for plan in (with_found(one, CONFIGS) for one in TABLES.get(name)):
        folders = [RESULTS / "figures" / plan.name.replace(":", "-"), RESULTS / plan.name.replace(":", "-")]
        home = next(folder for folder in folders if (folder / "journal.jsonl").is_file())
        records = [one for one in BenchFolder(home).read()[1].records if one["cell"]["dataset"] == GRAPH]
        journals.append((plan, rows_of(plan, records)))
    return PAPER_FIGURES[name](journals)


def intervals() -> Picture:
    (plan,) = (with_found(one, CONFIGS) for one in TABLES.get("standard"))
    records = rows_of(plan, BenchFolder(RESULTS / "standard").read()[1].records)
    return MetricIntervals.of(records, compare(records), GRAPH, "accuracy")


def cost() -> Picture:
    return CostPanel.of(BenchFolder(RESULTS / "time").read()[1].records, GRAPH)


def paths() -> Picture:
    graph, model, prediction = digits()
    most = int(np.flatnonzero(graph.test_mask)[np.argmax(prediction.total[graph.test_mask])])
    return SamplePaths(model.trajectories(graph, [most], samples=32))


def training() -> Picture:
    history = [{**one.as_dict(), "train_loss": one.loss} for one in digits()[1].history]
    return TrainingCurve.of(history)


def explanation() -> Picture:
    graph, model, prediction = digits()
    most = int(np.flatnonzero(graph.test_mask)[np.argmax(prediction.total[graph.test_mask])])
    return ExplanationBars.of(gs.explain(model, graph, graph.node_ids[most].item(), samples=16))


def theory() -> Picture:
    graph, model, _ = digits()
    return TheoryPanel(measure_theory(model, graph, TheoryOptions(samples=16, paths=2, directions=1, power_steps=3)))


PICTURES: dict[str, Callable[[], Picture]] = {
    "figure-dynamics": lambda: paper("figure-dynamics"),
    "figure-entropy": lambda: paper("figure-entropy"),
    "figure-active": lambda: paper("figure-active"),
    "risk-coverage": lambda: of_digits("risk_coverage"),
    "reliability": lambda: of_digits("reliability"),
    "entropy": lambda: of_digits("entropy"),
    "entropy-ood": lambda: of_digits("entropy", left_out=True, by="ood"),
    "detection": lambda: of_digits("detection", left_out=True),
    "confusion": lambda: of_digits("confusion"),
    "per-class": lambda: of_digits("per_class"),
    "uncertainty": lambda: of_digits("uncertainty"),
    "graph": lambda: of_digits("graph"),
    "explanation": explanation,
    "paths": paths,
    "training": training,
    "numbers-fit": lambda: of_numbers("fit"),
    "numbers-reliability": lambda: of_numbers("reliability"),
    "numbers-risk-coverage": lambda: of_numbers("risk_coverage"),
    "theory": theory,
    "intervals": intervals,
    "cost": cost,
}


def small_png(picture: Picture) -> bytes:
    """The picture with 256 colours, at the highest resolution that stays below :data:`MOST_BYTES`."""
    for dpi in DOTS_PER_INCH:
        drawn, packed = io.BytesIO(), io.BytesIO()
        picture.matplotlib().savefig(drawn, format="png", dpi=dpi)
        whole = Image.open(drawn).convert("RGB")
        whole.quantize(256, dither=Image.Dither.NONE).save(packed, format="png", optimize=True)
        if packed.tell() < MOST_BYTES:
            break
    return packed.getvalue()


def main() -> None:
    OUT.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[1:] or PICTURES:
        data = small_png(PICTURES[name]())
        (OUT / f"{name}.png").write_bytes(data)
        if name.startswith("figure-"):  # docs/figures.md shows these too
            (OUT.parent / f"{name}.png").write_bytes(data)
        print(f"{name}: {len(data) / 1000:.0f} kB")


if __name__ == "__main__":
    main()
