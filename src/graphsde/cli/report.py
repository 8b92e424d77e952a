from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from graphsde.cli.options import SAMPLES


def report(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder of a run or of a bench.")],
    out: Annotated[Path | None, typer.Option("--out", help="Default: report.html in that folder.")] = None,
    samples: Annotated[int, SAMPLES] = 64,
    figures: Annotated[
        Path | None,
        typer.Option("--figures", metavar="DIR", help="Also write every figure here, as PNG for print and as CSV."),
    ] = None,
) -> None:
    """Write one self-contained HTML page about a run, or about all runs of a bench."""
    from graphsde.bench.folder import BenchFolder

    bench = BenchFolder(folder)
    if bench.question.is_file():
        from graphsde.view.report.bench import report_on_bench

        path = report_on_bench(bench, out, figures=figures)
    else:
        from graphsde.runs.folder import RunFolder
        from graphsde.view.report.run import report_on_run

        path = report_on_run(RunFolder(folder), out, samples=samples, figures=figures)
    typer.echo(f"The report is in {path}. Open it in a browser; it needs no network.")
    if figures is not None:
        typer.echo(f"Its figures are in {figures}, as PNG and CSV.")
