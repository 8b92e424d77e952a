from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from graphsde.cli.options import JSON, RUN
from graphsde.cli.output import print_json, print_table

SHOWN = ("nll", "ece", "brier", "accuracy", "aurc", "crps", "coverage90", "interval_width90", "calibration_error")


def calibrate(
    run: Annotated[Path, RUN],
    by: Annotated[
        str | None,
        typer.Option(
            "--by",
            help="See: graphsde list calibrators; none takes the present one away. Default: temperature, for numbers "
            "deviation.",
        ),
    ] = None,
    samples: Annotated[
        int | None, typer.Option("--samples", min=1, help="Samples per node; default: as many as the fit took.")
    ] = None,
    json: Annotated[bool, JSON] = False,
) -> None:
    """Make a run's uncertainty mean what it says: fit a calibrator on its validation nodes and keep it."""
    from graphsde.runs.calibrate import calibrate_run
    from graphsde.runs.folder import RunFolder
    from graphsde.uncertainty.calibration import CALIBRATORS, DEFAULT_CALIBRATOR

    if by is None:
        by = DEFAULT_CALIBRATOR.of(RunFolder(run).load_model())
    chosen = None if by == "none" else CALIBRATORS.entry(by).name
    outcome = calibrate_run(RunFolder(run), chosen, samples=samples)
    if json:
        keep = lambda figures: {name: figures[name] for name in (*SHOWN, "n_test") if name in figures}  # noqa: E731
        print_json(
            {
                "run": str(run),
                "model": outcome.model.name,
                "graph": outcome.graph.name,
                "calibrator": chosen,
                "before": keep(outcome.before),
                "after": keep(outcome.after),
            }
        )
        return
    if outcome.after:
        typer.echo(f"{outcome.after['n_test']:,} test nodes")
        shown = [name for name in SHOWN if name in outcome.after]
        print_table([{"metric": name, "before": outcome.before[name], "after": outcome.after[name]} for name in shown])
    done = "The calibrator is gone" if chosen is None else f"{chosen} was fitted on the validation nodes"
    typer.echo(f"{done}; the model and predictions in {run} are written anew.")
