"""Levels of GNNSafe's benchmark on Cora that the documentation states: `make slow`."""

from __future__ import annotations

import numpy as np
import pytest

import graphsde as gs
from graphsde.acting.shifted import detect_shift

from support import needs_real_data

pytestmark = [pytest.mark.slow, needs_real_data]

SEEDS = 3
# the backbone of that benchmark
BACKBONE = {
    "hidden": 64,
    "batch_norm": True,
    "decay_all": True,
    "dropout": 0.0,
    "weight_decay": 0.01,
    "patience": 200,
    "scaling": "row",
}


def test_foreign_classes() -> None:
    """Printed: MSP 91.4, energy 91.4, GNNSafe 92.8."""
    whole, found = gs.load("cora"), []
    for seed in range(SEEDS):
        graph = gs.make_split(whole, "label-leave-out", seed=seed).apply(whole)
        model = gs.GCN(seed=seed, **BACKBONE).fit(graph)
        names = ["msp", "energy", "gnnsafe", "odin", "mahalanobis", "gebm"]
        found.append(gs.evaluate(model.predict(graph), graph, scores=names, model=model))
    assert all((f["n_id"], f["n_ood"]) == (316, 986) for f in found)
    auroc = {name: np.mean([f["scores"][name]["ood_auroc"] for f in found]) for name in found[0]["scores"]}
    assert auroc["msp"] > 0.90 and auroc["energy"] > 0.905 and auroc["gnnsafe"] > 0.92
    assert auroc["odin"] > auroc["msp"] - 0.005 and auroc["mahalanobis"] > 0.80 and auroc["gebm"] > 0.90


def test_mixed_features() -> None:
    """Printed, features: MSP 85.4, GNNSafe 93.4."""
    whole, found = gs.load("cora"), []
    for seed in range(SEEDS):
        graph = gs.make_split(whole, "planetoid", seed=seed).apply(whole)
        model = gs.GCN(seed=seed, **BACKBONE).fit(graph)
        found.append(detect_shift(model, graph, "interpolate-features", ["msp", "gnnsafe", "odin"], 1, seed))
    assert all((f["n_id"], f["n_ood"]) == (1000, 2708) for f in found)
    auroc = {name: np.mean([f["scores"][name]["ood_auroc"] for f in found]) for name in found[0]["scores"]}
    assert auroc["msp"] > 0.84 and auroc["gnnsafe"] > 0.92 and auroc["odin"] > auroc["msp"]
