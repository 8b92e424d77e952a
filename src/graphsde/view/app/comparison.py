"""Several runs side by side."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphsde.base.registry import Rules
from graphsde.bench.direction import turned
from graphsde.graph.graph import Graph
from graphsde.metrics import METRICS, risk_coverage
from graphsde.prediction import ClassPrediction, RegressionPrediction
from graphsde.runs.folder import RunFolder
from graphsde.view.app.library import OpenRun, RunFacts
from graphsde.view.app.words import plain
from graphsde.view.figures.chart import Axis, Chart, Line, Panel
from graphsde.view.figures.evaluation import HOVER, KEPT, WRONG_AMONG, thin_kept
from graphsde.view.figures.picture import Picture
from graphsde.view.figures.regression import ErrorWhenKeeping
from graphsde.view.figures.style import look
from graphsde.view.report.content import judge

SHOWN = (
    "accuracy", "rmse", "nll", "crps", "ece", "coverage90", "aurc", "misclassification_auroc", "brier", "fit_seconds",
)  # fmt: skip


@dataclass(frozen=True)
class Comparison:
    """A table of runs.

    Args:
        columns: one array per column, one entry per run.
        best: for each metric, the rows that have the best value.
        caution: why the metrics may not be comparable, in words.
    """

    columns: dict[str, list[Any]]
    best: dict[str, list[int]]
    caution: list[str]


def compare_runs(runs: Sequence[RunFacts]) -> Comparison:
    """The test metrics of some runs; those of one graph and split can be compared."""
    columns: dict[str, list[Any]] = {
        "run": [plain(run.name) for run in runs],
        "graph": [plain(run.graph) for run in runs],
        "model": [run.model for run in runs],
        "seed": [run.seed for run in runs],
    }
    best: dict[str, list[int]] = {}
    same = _same_nodes(runs)
    for name in SHOWN:
        values = [_number(run.metrics.get(name)) for run in runs]
        known = [value for value in values if value is not None]
        if not known:
            continue  # a figure of the other kind of prediction
        columns[name] = values
        if name in METRICS and len(known) > 1 and same:
            top = max(known, key=functools.partial(turned, name))
            best[name] = [row for row, value in enumerate(values) if value == top]
    columns["test nodes"] = [run.metrics.get("n_test") for run in runs]
    return Comparison(columns, best, _caution(runs))


def _caution(runs: Sequence[RunFacts]) -> list[str]:
    if len(runs) < 2:
        return []
    if not _same_nodes(runs):
        return ["These runs are not about the same test nodes: their figures can't be compared with each other."]
    return [
        "One run each: a small difference may be chance. For paired tests over seeds: graphsde bench, graphsde compare."
    ]


def _same_nodes(runs: Sequence[RunFacts]) -> bool:
    return len({(run.graph, _split_hash(run)) for run in runs}) <= 1


def _split_hash(run: RunFacts) -> str:
    return str(RunFolder(run.path).read_facts()["split_hash"])


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and np.isfinite(value) else None


@dataclass(frozen=True, eq=False)
class RunCurves(Picture):
    """Error among the nodes kept against the share kept, one line per run.

    Args:
        curves: coverage and risk by name of the run.
        error: what the risk is; a share of wrong answers is shown in percent.
    """

    curves: dict[str, tuple[np.ndarray, np.ndarray]]
    error: Axis = WRONG_AMONG

    def chart(self) -> Chart:
        marks, factor = [], 100 if self.error is WRONG_AMONG else 1
        for place, (name, (coverage, risk)) in enumerate(self.curves.items()):
            rows, how = thin_kept(len(risk), 100), look(place)
            hover = HOVER if self.error is WRONG_AMONG else "keeping %{x:.1f} %: RMSE %{y:.4g}"
            x, y = 100 * coverage[rows], factor * risk[rows]
            marks.append(Line(name, x, y, how.colour, how.dash, 2.5, hover=hover))
        return Chart((Panel(KEPT, self.error, tuple(marks)),))


def run_curves(runs: Mapping[str, OpenRun]) -> list[RunCurves]:
    """The curves of some runs, those of classes apart from those of numbers; runs without test nodes have none."""
    found: dict[str, dict[str, tuple[np.ndarray, np.ndarray]]] = {}
    for name, run in runs.items():
        curve = CURVES.of(run.prediction)(run.graph, run.prediction)
        if curve is not None:
            found.setdefault(run.prediction.target_kind, {})[plain(name)] = curve
    error = {"regression": Axis("RMSE among them", zero=True)}
    return [RunCurves(curves, error.get(kind, WRONG_AMONG)) for kind, curves in sorted(found.items())]


Curve = tuple[np.ndarray, np.ndarray]
CURVES: Rules[Callable[[Graph, Any], Curve | None]] = Rules("errors among the nodes kept")


@CURVES.register("classification")
def _class_curve(graph: Graph, prediction: ClassPrediction) -> Curve | None:
    judged = judge(graph, prediction)
    if not len(judged):
        return None
    curve = risk_coverage(prediction.total[judged.rows], ~judged.right)
    return curve.coverage, curve.risk


@CURVES.register("regression")
def _number_curve(graph: Graph, prediction: RegressionPrediction) -> Curve | None:
    rows = np.flatnonzero(graph.role("test") & graph.labelled)
    if not len(rows) or graph.values is None:
        return None
    kept = ErrorWhenKeeping.of(prediction.subset(rows), graph.values[rows])
    return kept.kept, kept.error
