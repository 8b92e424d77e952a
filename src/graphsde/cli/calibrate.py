from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from graphsde.cli.options import JSON, RUN
from graphsde.cli.output import print_json, print_table

SHOWN = ("nll", "ece", "brier", "accuracy", "aurc")


def calibrate(
    run: Annotated[Path, RUN],
    by: Annotated[
        str, typer.Option("--by", help="See: graphsde list calibrators; none takes the present one away.")
    ] = "temperature",
    samples: Annotated[
        int | None, typer.Option("--samples", min=1, help="Samples per node; default: as many as the fit took.")
    ] = None,
    json: Annotated[bool, JSON] = False,
) -> None:
    """Make a run's probabilities mean what they say: fit a calibrator on its validation nodes and keep it."""
    from graphsde.runs.calibrate import calibrate_run
    from graphsde.runs.folder import RunFolder
    from graphsde.scores.calibrate import CALIBRATORS

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
        print_table([{"metric": name, "before": outcome.before[name], "after": outcome.after[name]} for name in SHOWN])
    done = "The calibrator is gone" if chosen is None else f"{chosen} was fitted on the validation nodes"
    typer.echo(f"{done}; the model and predictions in {run} are written anew.")
