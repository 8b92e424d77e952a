"""The table of docs/ood.md: AUROC of telling OOD nodes with a plain GCN, by the score ``ood``, its parts and rivals.

    python studies/ood_score.py cora citeseer

A minute per graph. Classes left out by GNNSafe's rule (three seeds), each class in turn (one seed), mixed features
(three seeds).
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

import graphsde as gs
from graphsde.datasets.shifts import SHIFTS
from graphsde.metrics import fpr95, ood_auroc
from graphsde.prediction import ClassPrediction

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
        if title == "ood":
            found["ood, FPR95"] = fpr95(inside, outside)
    return found


def main(names: list[str]) -> None:
    for name in names:
        graph = gs.load(name)
        runs = {
            "label leave-out": [left_out(graph, "label-leave-out", seed) for seed in range(3)],
            "each class": [left_out(graph, "leave-class-out", 0, leave=one) for one in range(graph.num_classes)],
            "mixed features": [mixed(graph, seed) for seed in range(3)],
        }
        print(f"| {name} | {' | '.join(runs)} |")
        for title in runs["each class"][0]:
            means = (np.mean([run[title] for run in rows]) for rows in runs.values())
            print(f"| {title} | {' | '.join(f'{mean:.3f}' for mean in means)} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:] or ["cora"])
