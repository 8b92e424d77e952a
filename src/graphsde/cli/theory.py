from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from graphsde.cli.options import JSON, RUN
from graphsde.cli.output import print_json, print_table


def theory(
    run: Annotated[Path, RUN],
    samples: Annotated[int, typer.Option("--samples", min=4, help="Paths of proposition 1, an even number.")] = 64,
    out: Annotated[Path | None, typer.Option("--out", help="A folder for theory.png and theory.csv.")] = None,
    json: Annotated[bool, JSON] = False,
) -> None:
    """Measure both sides of the paper's two propositions on a run of lgnsde."""
    from graphsde.bench.theory import TheoryOptions, measure_theory
    from graphsde.runs.folder import RunFolder

    folder = RunFolder(run)
    model, graph = folder.load_model(), folder.load_graph()
    report = measure_theory(model, graph, TheoryOptions(samples=samples))
    if out is not None:
        from graphsde.base import storage
        from graphsde.runs.export import write_table
        from graphsde.view.figures.theory import theory_png

        storage.write_bytes(out / "theory.png", theory_png(report))
        write_table(report.columns(), out / "theory.csv")
    if json:
        print_json({"run": str(run), "model": model.name, "graph": graph.name, **report.as_dict()})
        return
    known = report.constants
    typer.echo(
        f"Certified constants: L_f = {known.l_f:.4g} (drift), L_h = {known.l_h_logits:.4g} (logits), "
        f"{known.l_h_probabilities:.4g} (probabilities); "
        f"horizon {report.horizon:g} in {report.steps} steps of {report.solver}."
    )
    print_table(report.rows())
    typer.echo(report.proposition_1.sentence)
    typer.echo(report.proposition_2.sentence)
    if out is not None:
        typer.echo(f"theory.png and theory.csv are in {out}")
