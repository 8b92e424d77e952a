"""Mean and spread over seeds of the simple models on one benchmark graph.

Run: python examples/02_models_on_a_benchmark.py [--graph cora] [--split planetoid] [--seeds 10] [--models gcn,mlp]
"""

from __future__ import annotations

import argparse

import numpy as np

import graphsde as gs
from graphsde.data.splits import default_split
from graphsde.models import MODELS

METRICS = ("accuracy", "micro_auroc", "misclassification_auroc", "aurc", "nll", "ece")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--graph", default="digits")
    parser.add_argument("--split", default=None)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--models", default="label-propagation,mlp,gcn")
    options = parser.parse_args()

    whole = gs.load(options.graph)
    split = options.split or default_split(whole)
    print(f"{whole}, split {split}, {options.seeds} seeds: mean ± standard deviation over seeds, test nodes only\n")
    print("| model | " + " | ".join(METRICS) + " | n |\n|---" + "|---" * (len(METRICS) + 1) + "|")
    for name in options.models.split(","):
        rows = []
        for seed in range(options.seeds):
            graph = gs.make_split(whole, split, seed=seed).apply(whole)
            prediction = MODELS.get(name)(seed=seed).fit(graph).predict(graph)
            metrics = gs.evaluate(prediction, graph)
            rows.append([metrics[metric] for metric in METRICS])
        mean, std = np.mean(rows, axis=0), np.std(rows, axis=0, ddof=1) if len(rows) > 1 else np.zeros(len(METRICS))
        cells = " | ".join(f"{m:.4f} ± {s:.4f}" for m, s in zip(mean, std, strict=True))
        print(f"| {name} | {cells} | {len(rows)} |", flush=True)


if __name__ == "__main__":
    main()
