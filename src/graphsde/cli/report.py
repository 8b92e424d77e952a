from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from graphsde.cli.options import RUN, SAMPLES


def report(
    run: Annotated[Path, RUN],
    out: Annotated[Path | None, typer.Option("--out", help="Default: report.html in the run's folder.")] = None,
    samples: Annotated[int, SAMPLES] = 64,
) -> None:
    """Write one self-contained HTML page about a run."""
    from graphsde.runs.folder import RunFolder
    from graphsde.view.report.run import report_on_run

    path = report_on_run(RunFolder(run), out, samples=samples)
    typer.echo(f"The report is in {path}. Open it in a browser; it needs no network.")
