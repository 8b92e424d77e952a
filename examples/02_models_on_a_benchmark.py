"""Mean and spread over seeds of models on one benchmark graph, test nodes only.

Run: python examples/02_models_on_a_benchmark.py [--graph cora] [--split planetoid] [--seeds 10] [--models gcn,mlp]
     python examples/02_models_on_a_benchmark.py --graph cora --models lgnsde --presets universal,closed-world
"""

from __future__ import annotations

import argparse

import numpy as np

import graphsde as gs
from graphsde.datasets.splits import default_split
from graphsde.models import MODELS

METRICS = ("accuracy", "micro_auroc", "misclassification_auroc", "aurc", "nll", "ece")
FOREIGN = ("accuracy", "nll", "ood_auroc", "ood_fpr95", "ood_auroc_propagated", "ood_fpr95_propagated")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--graph", default="digits")
    parser.add_argument("--split", default=None)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--models", default="label-propagation,mlp,gcn")
    parser.add_argument("--presets", default=None, help="of lgnsde and gnode, separated by commas")
    options = parser.parse_args()

    whole = gs.load(options.graph)
    split = options.split or default_split(whole)
    print(f"{whole}, split {split}, {options.seeds} seeds: mean ± standard deviation over seeds, test nodes only\n")
    names = FOREIGN if split.endswith("-out") else METRICS
    print("| model | " + " | ".join(names) + " | n |\n|---" + "|---" * (len(names) + 1) + "|")
    for model in options.models.split(","):
        for preset in options.presets.split(",") if options.presets else [None]:
            rows = []
            for seed in range(options.seeds):
                graph = gs.make_split(whole, split, seed=seed).apply(whole)
                settings = {} if preset is None else {"preset": preset}
                prediction = MODELS.get(model)(seed=seed, **settings).fit(graph).predict(graph)
                metrics = gs.evaluate(prediction, graph)
                rows.append([metrics[name] for name in names])
            mean = np.mean(rows, axis=0)
            std = np.std(rows, axis=0, ddof=1) if len(rows) > 1 else np.zeros(len(names))
            cells = " | ".join(f"{m:.4f} ± {s:.4f}" for m, s in zip(mean, std, strict=True))
            print(f"| {model}{'' if preset is None else ' ' + preset} | {cells} | {len(rows)} |", flush=True)


if __name__ == "__main__":
    main()
