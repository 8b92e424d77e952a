from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from graphsde.cli.options import JSON, RUN, SAMPLES
from graphsde.cli.output import print_json, print_table


def ask(
    run: Annotated[Path, RUN],
    budget: Annotated[int, typer.Option("--budget", min=1, help="How many nodes to ask for.")] = 20,
    by: Annotated[str, typer.Option("--by", help="Who chooses; see: graphsde list acquisitions.")] = "entropy",
    out: Annotated[
        Path | None, typer.Option("--out", help="A .csv or .parquet file with an empty label column to fill in.")
    ] = None,
    samples: Annotated[int, SAMPLES] = 64,
    seed: Annotated[int, typer.Option("--seed", min=0, help="For acquisitions that draw.")] = 0,
    plain: Annotated[
        bool, typer.Option("--plain", help="The plain ranking, even if it asks for one spot many times over.")
    ] = False,
    json: Annotated[bool, JSON] = False,
) -> None:
    """Choose the nodes whose labels would help most, with the reason for each."""
    from graphsde.acting.acquisition import ACQUISITIONS
    from graphsde.acting.ask import ask as choose
    from graphsde.runs.export import write_table
    from graphsde.runs.folder import RunFolder

    ACQUISITIONS.entry(by)  # a wrong name is told before the work begins
    folder = RunFolder(run)
    model, graph = folder.load_model(), folder.load_graph()
    questions = choose(model.predict(graph, samples=samples), graph, budget, by, seed, diverse=not plain)
    if out is not None:
        write_table(questions.columns(), out)
    if json:
        print_json({"run": str(run), "model": model.name, "graph": graph.name, **questions.as_dict()})
        return
    rows = [
        {"rank": one.rank, "id": str(one.id), "predicted": one.predicted, questions.score: one.score, "why": one.reason}
        for one in questions
    ]
    print_table(rows)
    if questions.note is not None:
        typer.echo(questions.note)
    if out is not None:
        then = f"Fill in the column label, then: graphsde learn {run} {out}"
        typer.echo(f"{len(questions)} questions are in {out}. {then}")
