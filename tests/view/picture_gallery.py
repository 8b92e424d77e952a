"""One picture of every kind, made from small invented data."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphsde as gs
from graphsde.bench.cells import Cell
from graphsde.bench.compare import compare
from graphsde.bench.reproduce import Beside
from graphsde.bench.theory import TheoryOptions, measure_theory
from graphsde.prediction import Trajectories
from graphsde.view.figures.bench import BesidePaper, CostPanel, CriticalDifference, Curves, MetricIntervals, gather
from graphsde.view.figures.dynamics import EntropyByModel, PhasePortrait, SamplePaths
from graphsde.view.figures.evaluation import (
    Confusion,
    DetectionCurves,
    EntropyHistogram,
    PerClass,
    ReliabilityDiagram,
    RiskCoverageCurves,
    UncertaintyScatter,
)
from graphsde.view.figures.nodes import UncertaintyGraph
from graphsde.view.figures.picture import Picture
from graphsde.view.figures.theory import NoiseRobustness, TheoryPanel
from graphsde.view.figures.training_curve import TrainingCurve

from support import block_graph

MODELS = ("gcn", "lgnsde", "ensemble", "bgcn-meanfield", "gnode", "lgnsde@paper", "graph-gp", "gat", "gpn", "appnp")


def record(
    task: str,
    model: str,
    seed: int,
    metrics: dict[str, float] | None = None,
    curves: dict[str, list[float]] | None = None,
    options: dict[str, Any] | None = None,
    cause: str | None = None,
) -> dict[str, Any]:
    """A line of a journal as readers get it."""
    name, _, preset = model.partition("@")
    cell = Cell(task, options or {}, "digits", name, {"preset": preset} if preset else {}, seed)
    status = "failed" if cause else "done"
    return {
        "id": cell.id, "address": cell.address, "cell": cell.as_dict(), "status": status, "cause": cause, "attempts": 1,
        "metrics": metrics or {}, "curves": curves or {}, "seconds": {"cpu": 1.0, "wall": 1.0}, "engine": "serial",
        "environment": {},
    }  # fmt: skip


def bench_records(task: str = "misclassification", seeds: int = 6) -> list[dict[str, Any]]:
    rng = np.random.default_rng(0)
    found = []
    for place, model in enumerate(MODELS):
        for seed in range(seeds):
            good = 0.82 - 0.012 * place + 0.01 * rng.normal()
            metrics = {"accuracy": good, "micro_auroc": 0.9 + 0.1 * good, "aurc": 0.4 * (1 - good), "nll": 2 - good}
            found.append(record(task, model, seed, metrics | {"ece": 0.03 + 0.01 * rng.random()}))
    return [*found, record(task, "mlp", 0, cause="E-DIVERGED: the loss is <not> finite")]


def _series_records(task: str, x: str, values: list[float]) -> list[dict[str, Any]]:
    rng = np.random.default_rng(1)
    found = []
    for place, model in enumerate(MODELS[:6]):
        for seed in range(4):
            y = (
                0.6
                + 0.2 * (1 - np.exp(-np.arange(len(values)) / 4))
                - 0.02 * place
                + 0.01 * rng.normal(size=len(values))
            )
            found.append(record(task, model, seed, curves={x: values, "accuracy": y.tolist()}))
    return found


def _entropy_records() -> list[dict[str, Any]]:
    rng = np.random.default_rng(2)
    found = []
    for groups in ("errors", "ood"):
        for model in MODELS[:6]:
            sure, unsure = (np.histogram(rng.beta(a, 3, 400), 30, (0, 1))[0].astype(float) for a in (0.7, 2.0))
            metrics = {"num_classes": 7.0, "entropy_gap": 0.35}
            curves = {"sure": sure.tolist(), "unsure": unsure.tolist()}
            found.append(record("entropies", model, 0, metrics, curves, {"groups": groups}))
    return found


def _dynamics_records() -> list[dict[str, Any]]:
    from graphsde.bench.tasks.dynamics import averaged

    rng = np.random.default_rng(3)
    found = []
    for model in ("lgnsde@paper", "lgnsde"):
        kinds = rng.integers(0, 7, 300)
        spot = rng.normal(size=(300, 2)) + np.column_stack([np.cos(kinds), np.sin(kinds)])
        along = np.cumsum(rng.normal(size=(11, 10)), axis=0)
        curves = {"times": np.linspace(0, 1, 11).tolist(), "class": kinds.astype(float).tolist(), "node": [5.0]}
        for when, size in (("begin", 0.6), ("middle", 1.0), ("end", 1.5)):
            cells = averaged(size * spot, spot, np.linalg.norm(spot, axis=1), 8)
            curves |= {f"{when}_{key}": values.tolist() for key, values in cells.items()}
            curves |= {f"{when}_x": (size * spot[:, 0]).tolist(), f"{when}_y": (size * spot[:, 1]).tolist()}
        curves |= {f"path_{k}": along[:, k].tolist() for k in range(10)}
        curves |= {"path_mean": along.mean(1).tolist(), "path_low": along.min(1).tolist()}
        curves |= {"path_high": along.max(1).tolist()}
        shares = {f"separation_{when}": 0.2 for when in ("begin", "middle", "end")}
        found.append(record("dynamics", model, 0, shares, curves))
    return found


def _beside(count: int = 14) -> list[Beside]:
    rng, rows = np.random.default_rng(4), []
    for graph in ("cora", "citeseer", "computers"):
        for metric in ("auroc", "aurc", "accuracy"):
            for place in range(count):
                printed, ours = rng.random() * 0.3 + 0.6, rng.random() * 0.3 + 0.6
                name = f"system {place}"
                rows.append(
                    Beside(
                        "standard",
                        graph,
                        name,
                        name,
                        metric,
                        printed,
                        0.01,
                        "",
                        ours,
                        0.02,
                        5,
                        ours,
                        ours,
                        0,
                        "agrees",
                        "",
                    )
                )
    return rows


def every_picture() -> dict[str, Picture]:
    rng = np.random.default_rng(5)
    nodes = 600
    errors = rng.random(nodes) < 0.25
    doubt = 0.5 * rng.random(nodes) + 0.4 * errors * rng.random(nodes)
    probs = rng.dirichlet(np.ones(4) * 0.5, nodes)
    raw = rng.random((6, 40, 1, 5)) ** 3 + 0.1
    paths = Trajectories(
        np.linspace(0, 1, 6), raw / raw.sum(-1, keepdims=True), np.array([7]), tuple(f"kind $x_{i}" for i in range(5))
    )
    history = [
        {"epoch": e, "train_loss": 2.0 / e, "val_nll": 1.0 + abs(e - 17) / 10, "val_accuracy": 0.5 + e / 90}
        for e in range(1, 41)
    ]
    graph = block_graph()
    model = gs.LGNSDE(epochs=3, hidden=4).fit(graph)
    theory = measure_theory(model, graph, TheoryOptions(samples=4, paths=2, directions=1, power_steps=1))
    bench = bench_records()
    noise = _series_records("noise", "severity", [0.0, 0.1, 0.25, 0.5, 1.0, 2.0])
    active = _series_records("active", "labels", [float(v) for v in range(140, 285, 5)])
    cost = [
        record(
            "cost",
            name,
            0,
            {"epoch_seconds": 0.01 * 1.7**k, "predict_seconds": 0.02 * 1.3**k, "peak_bytes": 1e7 * 2**k},
        )
        for k, name in enumerate(MODELS)
    ]
    start = np.array([0.1, 0.3, 1.0, 3.0])
    scores = {
        name: (rng.normal(size=400), rng.normal(size=150) + shift) for name, shift in (("entropy", 1.2), ("energy", 2))
    }
    return {
        "entropy-histogram": EntropyHistogram.of(doubt, ~errors, 4),
        "entropy-by-model": EntropyByModel.of(_entropy_records()),
        "risk-coverage": RiskCoverageCurves.of({"this model": (doubt, errors)}),
        "risk-coverage-two": RiskCoverageCurves.of({"gcn": (doubt, errors), "chance": (rng.random(nodes), errors)}),
        "reliability": ReliabilityDiagram.of(probs, rng.integers(0, 4, nodes)),
        "confusion": Confusion.of(probs.argmax(axis=1), rng.integers(0, 4, nodes), ("a", "$c_1", "c" * 50, "d")),
        "per-class": PerClass.of(
            probs.argmax(axis=1), rng.integers(0, 4, nodes), probs.max(axis=1), ("a", "b" * 60, "c", "d")
        ),
        "detection": DetectionCurves.of(scores),
        "active": Curves(
            (*gather(active, "labels", "accuracy", "at random"), *gather(active, "labels", "accuracy", "by entropy")),
            "labels", "accuracy", percent=True,
        ),
        "sample-paths": SamplePaths(paths),
        "phase-portrait": PhasePortrait.of(_dynamics_records()),
        "uncertainty-graph": UncertaintyGraph.of(graph, model.predict(graph, samples=8)),
        "uncertainty-scatter": UncertaintyScatter(doubt, 0.2 * doubt * rng.random(nodes), ~errors, np.arange(nodes)),
        "noise-robustness": NoiseRobustness(
            gather(noise, "severity", "accuracy", "accuracy"), start, start, 0.8 * start,
            {"exponential": 50 * start, "chain": 9 * start, "contractive": 1.2 * start},
        ),
        "theory": TheoryPanel(theory),
        "cost": CostPanel.of(cost, "digits"),
        "beside-paper": BesidePaper.of(_beside()),
        "critical-difference": CriticalDifference(
            MODELS, np.array([2.1, 1.6, 3.3, 5.0, 4.4, 6.1, 9.5, 8.0, 7.2, 7.8]), 2.6, "mean rank over 30 runs"
        ),
        "training": TrainingCurve.of(history),
        "metric-intervals": MetricIntervals.of(bench, compare(bench), "digits", "accuracy"),
    }  # fmt: skip
