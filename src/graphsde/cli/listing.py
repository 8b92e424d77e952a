from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer

from graphsde.base.registry import unknown_name
from graphsde.cli.options import JSON
from graphsde.cli.output import print_json, print_table


def listing(
    what: Annotated[
        str,
        typer.Argument(
            help="models, drifts, priors, diffusions, solvers, scores, calibrators, conformal, metrics, datasets, "
            "splits, shifts, tasks, acquisitions, tables or engines."
        ),
    ],
    json: Annotated[bool, JSON] = False,
) -> None:
    """List what there is, with one line about each."""
    if what not in KINDS:
        raise unknown_name("list", what, list(KINDS))
    rows = KINDS[what]()
    if json:
        print_json(rows)
    else:
        print_table(rows, COLUMNS.get(what))


def _models() -> list[dict[str, Any]]:
    from graphsde.models import MODELS

    return MODELS.describe()


def _drifts() -> list[dict[str, Any]]:
    from graphsde.sde.drift import DRIFTS

    return DRIFTS.describe()


def _priors() -> list[dict[str, Any]]:
    from graphsde.sde.prior import PRIORS

    return PRIORS.describe()


def _diffusions() -> list[dict[str, Any]]:
    from graphsde.sde.diffusion import DIFFUSIONS

    return DIFFUSIONS.describe()


def _solvers() -> list[dict[str, Any]]:
    from graphsde.sde.solvers import SOLVERS

    return SOLVERS.describe()


def _scores() -> list[dict[str, Any]]:
    from graphsde.uncertainty.scores import SCORES

    return SCORES.describe()


def _metrics() -> list[dict[str, Any]]:
    from graphsde.metrics import METRICS

    return METRICS.describe()


def _datasets() -> list[dict[str, Any]]:
    from graphsde.datasets.benchmarks import DATASETS

    return DATASETS.describe()


def _splits() -> list[dict[str, Any]]:
    from graphsde.datasets.splits import SPLITS

    return SPLITS.describe()


def _shifts() -> list[dict[str, Any]]:
    from graphsde.datasets.shifts import SHIFTS

    return SHIFTS.describe()


def _tasks() -> list[dict[str, Any]]:
    from graphsde.bench.tasks import TASKS

    return TASKS.describe()


def _acquisitions() -> list[dict[str, Any]]:
    from graphsde.acting.acquisition import ACQUISITIONS

    return ACQUISITIONS.describe()


def _tables() -> list[dict[str, Any]]:
    from graphsde.bench.paper import TABLES

    return TABLES.describe()


def _calibrators() -> list[dict[str, Any]]:
    from graphsde.uncertainty.calibration import CALIBRATORS

    return CALIBRATORS.describe()


def _conformal() -> list[dict[str, Any]]:
    from graphsde.uncertainty.conformal import CONFORMAL_SCORES

    return CONFORMAL_SCORES.describe()


def _engines() -> list[dict[str, Any]]:
    from graphsde.bench.engines import ENGINES

    return ENGINES.describe()


KINDS: dict[str, Callable[[], list[dict[str, Any]]]] = {
    "models": _models,
    "drifts": _drifts,
    "priors": _priors,
    "diffusions": _diffusions,
    "solvers": _solvers,
    "scores": _scores,
    "calibrators": _calibrators,
    "conformal": _conformal,
    "metrics": _metrics,
    "datasets": _datasets,
    "splits": _splits,
    "shifts": _shifts,
    "tasks": _tasks,
    "acquisitions": _acquisitions,
    "tables": _tables,
    "engines": _engines,
}
COLUMNS = {
    "models": ["name", "year", "summary"],
    "drifts": ["name", "year", "summary"],
    "priors": ["name", "year", "summary"],
    "diffusions": ["name", "year", "summary"],
    "solvers": ["name", "year", "summary"],
    "scores": ["name", "summary"],
    "calibrators": ["name", "year", "summary"],
    "conformal": ["name", "year", "summary"],
    "metrics": ["name", "better", "summary"],
    "datasets": ["name", "nodes", "edges", "features", "classes", "default_split"],
    "tasks": ["name", "summary"],
    "acquisitions": ["name", "summary"],
    "engines": ["name", "summary"],
}
