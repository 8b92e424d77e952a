"""Which OOD classes a model is uncertain about: entropy by class under label leave-out, one seed.

python studies/ood_by_class.py computers gcn
"""

from __future__ import annotations

import sys

import numpy as np

from graphsde.bench.tasks.task import TASKS
from graphsde.cli.output import print_table
from graphsde.datasets.source import open_graph
from graphsde.metrics import ood_auroc
from graphsde.models import MODELS


def main(dataset: str, model: str, seed: int = 0) -> None:
    whole = open_graph(dataset)
    assert whole.labels is not None
    graph = TASKS.get("ood")(protocol="label-leave-out").prepare(whole, seed)
    assert graph.test_mask is not None and graph.ood_mask is not None and graph.num_nodes == whole.num_items
    doubt = MODELS.get(model)(seed=seed).fit(graph).predict(graph).untempered().total
    familiar = graph.test_mask & ~graph.ood_mask
    rows = [_row("in-distribution test nodes", doubt, familiar, familiar, graph.adjacency.degree)]
    for position, name in enumerate(whole.class_names):
        own = graph.ood_mask & (whole.labels == position)
        if own.any():
            rows.append(_row(name, doubt, familiar, own, graph.adjacency.degree))
    rows.append(_row("all OOD", doubt, familiar, graph.ood_mask, graph.adjacency.degree))
    print_table(rows)


def _row(name: str, doubt: np.ndarray, familiar: np.ndarray, own: np.ndarray, degree: np.ndarray) -> dict[str, object]:
    return {
        "class": name,
        "nodes": int(own.sum()),
        "median degree": int(np.median(degree[own])),
        "mean entropy": float(doubt[own].mean()),
        "AUROC": None if own is familiar else ood_auroc(doubt[familiar], doubt[own]),
    }


if __name__ == "__main__":
    main(*sys.argv[1:3])
