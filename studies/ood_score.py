"""The table of docs/ood.md: AUROC of detecting OOD nodes with a plain GCN, by the score ``ood``, its parts and rivals.

    python studies/ood_score.py [cora citeseer]

A minute per graph; what results/ood-score/runs.jsonl has is not run again. Classes left out by GNNSafe's rule (three
seeds), each class in turn (one seed), mixed features (three seeds).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import numpy as np
from study_table import append_line, read_lines, with_table

import graphsde as gs
from graphsde.bench.reproduce import markdown_table
from graphsde.datasets.shifts import SHIFTS
from graphsde.metrics import ood_auroc
from graphsde.prediction import ClassPrediction

ROOT = Path(__file__).resolve().parents[1]
JOURNAL, PAGE = ROOT / "results" / "ood-score" / "runs.jsonl", ROOT / "docs" / "ood.md"
COMMAND = "python studies/ood_score.py"
SEEDS = 3

TWO = ("energy", "evidence")
SCORES: dict[str, tuple[str, dict[str, Any]]] = {
    "entropy": ("entropy", {}),
    "gnnsafe": ("gnnsafe", {}),
    "ood": ("ood", {}),
    "energy and evidence": ("ood", {"parts": TWO}),
    "evidence": ("ood", {"parts": ("evidence",)}),
    "allowance 2": ("ood", {"allowance": 2.0}),
    "allowance 0": ("ood", {"allowance": 0.0}),
    "ood, alone": ("ood", {"alone": True}),
    "energy and evidence, alone": ("ood", {"parts": TWO, "alone": True}),
}
Side = tuple[ClassPrediction, gs.Graph]


def predict(graph: gs.Graph, seed: int) -> tuple[gs.GCN, ClassPrediction]:
    model = gs.GCN(seed=seed).fit(graph)
    return model, model.predict(graph).untempered()


def left_out(graph: gs.Graph, split: str, seed: int, **options: Any) -> dict[str, float]:
    graph = gs.make_split(graph, split, seed=seed, **options).apply(graph)
    clean = (predict(graph, seed)[1], graph)
    return figures(clean, clean, graph.test_mask & ~graph.ood_nodes, graph.ood_nodes)


def mixed(graph: gs.Graph, seed: int) -> dict[str, float]:
    split = "uniform-10-10-80" if graph.train_mask is None else "given"
    graph = gs.make_split(graph, split, seed=0).apply(graph)
    model, prediction = predict(graph, seed)
    shifted = SHIFTS.get("interpolate-features")(graph, seed=seed)
    moved = (model.predict(shifted).untempered(), shifted)
    return figures((prediction, graph), moved, graph.test_mask, np.ones(graph.num_nodes, dtype=bool))


def figures(clean: Side, moved: Side, familiar: np.ndarray, ood: np.ndarray) -> dict[str, float]:
    found = {}
    for title, (name, options) in SCORES.items():
        inside = gs.score(name, *clean, reference=clean, **options)[familiar]
        outside = gs.score(name, *moved, reference=clean, **options)[ood]
        found[title] = ood_auroc(inside, outside)
    return found


def parts(graph: gs.Graph) -> dict[str, Callable[[int], dict[str, float]]]:
    """What is measured on a graph; a part is called with a seed or, where classes take turns, with a class."""
    return {
        "several classes": lambda seed: left_out(graph, "label-leave-out", seed),
        "each class": lambda one: left_out(graph, "leave-class-out", 0, leave=one),
        "mixed features": lambda seed: mixed(graph, seed),
    }


def run(names: list[str]) -> None:
    """Measure what the journal does not have yet."""
    known = {(line["graph"], line["part"], line["turn"]) for line in read_lines(JOURNAL)}
    for name in names:
        graph = gs.load(name)
        for part, measure in parts(graph).items():
            for turn in range(graph.num_classes if part == "each class" else SEEDS):
                if (name, part, turn) not in known:
                    append_line(JOURNAL, {"graph": name, "part": part, "turn": turn, "figures": measure(turn)})


def table() -> str:
    """Means, ± the standard deviation over seeds or classes."""
    found: dict[str, dict[str, list[float]]] = {}
    for line in read_lines(JOURNAL):
        for title, value in line["figures"].items():
            found.setdefault(title, {}).setdefault(f"{line['graph']}: {line['part']}", []).append(value)
    rows = [
        {"score": title} | {what: f"{fmean(own):.3f} ± {stdev(own):.3f}" for what, own in found[title].items()}
        for title in SCORES
    ]
    return markdown_table(rows)


if __name__ == "__main__":
    run(sys.argv[1:] or ["cora", "citeseer"])
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8"), COMMAND, table()), encoding="utf-8")
