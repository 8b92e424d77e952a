"""The levels that the documentation states, over all their seeds: `make slow`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphsde as gs
from graphsde.models import MODELS

from support import needs_real_data

pytestmark = [pytest.mark.slow, needs_real_data]


def mean_metrics(graph_name: str, split: str, model: str, seeds: int, **settings: Any) -> dict[str, float]:
    whole = gs.load(graph_name)
    rows = []
    for seed in range(seeds):
        graph = gs.make_split(whole, split, seed=seed).apply(whole)
        rows.append(gs.evaluate(MODELS.get(model)(seed=seed, **settings).fit(graph).predict(graph), graph))
    return {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}


def test_gcn_on_cora() -> None:
    metrics = mean_metrics("cora", "planetoid", "gcn", 10)
    assert metrics["accuracy"] >= 0.805 and metrics["n_test"] == 1000


@pytest.mark.parametrize(
    ("graph", "preset", "limits"),
    [
        ("cora", "universal", {"accuracy": 0.832, "micro_auroc": 0.973, "aurc": 0.054, "nll": 0.53, "ece": 0.045}),
        ("cora", "closed-world", {"accuracy": 0.838, "aurc": 0.052, "nll": 0.52}),
        ("citeseer", "closed-world", {"accuracy": 0.745, "aurc": 0.116}),
    ],
)
def test_lgnsde_on_the_public_splits(graph: str, preset: str, limits: dict[str, float]) -> None:
    metrics = mean_metrics(graph, "planetoid", "lgnsde", 10, preset=preset)
    for name, limit in limits.items():
        reached = metrics[name] >= limit if name in ("accuracy", "micro_auroc") else metrics[name] <= limit
        assert reached, f"{name} is {metrics[name]:.4f}, the limit {limit}"


@pytest.mark.parametrize(
    ("preset", "auroc", "fpr95", "propagated"), [("open-world", 0.93, 0.30, 0.95), ("universal", 0.915, 1, 0)]
)
def test_foreign_nodes_on_cora(preset: str, auroc: float, fpr95: float, propagated: float) -> None:
    metrics = mean_metrics("cora", "label-leave-out", "lgnsde", 5, preset=preset)
    assert metrics["ood_auroc"] >= auroc and metrics["ood_fpr95"] <= fpr95
    assert metrics["ood_auroc_propagated"] >= propagated
    assert (metrics["n_id"], metrics["n_ood"]) == (316, 986)


@pytest.mark.parametrize("model", ["gnode", "bgcn-meanfield"])
def test_rivals_on_photo_are_trained(model: str) -> None:
    assert mean_metrics("photo", "shchur", model, 2)["accuracy"] >= 0.88
