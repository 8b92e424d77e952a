"""Several runs side by side."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphsde.bench.direction import turned
from graphsde.metrics import METRICS, risk_coverage
from graphsde.runs.folder import RunFolder
from graphsde.view.app.library import OpenRun, RunFacts
from graphsde.view.app.words import plain
from graphsde.view.figures.chart import Chart, Line, Panel
from graphsde.view.figures.evaluation import HOVER, KEPT, WRONG_AMONG, thin_kept
from graphsde.view.figures.picture import Picture
from graphsde.view.figures.style import look
from graphsde.view.report.content import judge

SHOWN = ("accuracy", "nll", "ece", "aurc", "misclassification_auroc", "brier", "fit_seconds")


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
    for name in SHOWN:
        values = [_number(run.metrics.get(name)) for run in runs]
        columns[name] = values
        known = [value for value in values if value is not None]
        if name in METRICS and len(known) > 1:
            top = max(known, key=functools.partial(turned, name))
            best[name] = [row for row, value in enumerate(values) if value == top]
    columns["test nodes"] = [run.metrics.get("n_test") for run in runs]
    return Comparison(columns, best, _caution(runs))


def _caution(runs: Sequence[RunFacts]) -> list[str]:
    if len(runs) < 2:
        return []
    if len({(run.graph, _split_hash(run)) for run in runs}) > 1:
        return ["These runs have different test nodes: their metrics can't be compared."]
    return [
        "One run each: a small difference may be chance. For paired tests over seeds: graphsde bench, graphsde compare."
    ]


def _split_hash(run: RunFacts) -> str:
    return str(RunFolder(run.path).read_facts()["split_hash"])


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and np.isfinite(value) else None


@dataclass(frozen=True, eq=False)
class RunCurves(Picture):
    """Error among the nodes kept against the share kept, one line per run.

    Args:
        curves: coverage and risk by name of the run.
    """

    curves: dict[str, tuple[np.ndarray, np.ndarray]]

    def chart(self) -> Chart:
        marks = []
        for place, (name, (coverage, risk)) in enumerate(self.curves.items()):
            rows, how = thin_kept(len(risk), 100), look(place)
            marks.append(Line(name, 100 * coverage[rows], 100 * risk[rows], how.colour, how.dash, 2.5, hover=HOVER))
        return Chart((Panel(KEPT, WRONG_AMONG, tuple(marks)),))


def run_curves(runs: Mapping[str, OpenRun]) -> RunCurves:
    """The curves of some runs; those without test nodes have none."""
    curves = {}
    for name, run in runs.items():
        judged = judge(run.graph, run.prediction)
        if len(judged):
            curve = risk_coverage(run.prediction.total[judged.rows], ~judged.right)
            curves[plain(name)] = (curve.coverage, curve.risk)
    return RunCurves(curves)
