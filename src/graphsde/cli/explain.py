from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from graphsde.cli.options import JSON, RUN
from graphsde.cli.output import print_json, print_table


def explain(
    run: Annotated[Path, RUN],
    node: Annotated[str, typer.Argument(help="The id of a node.")],
    out: Annotated[
        Path | None, typer.Option("--out", help="A picture (.png, .svg, .pdf) or its numbers (.csv, .parquet).")
    ] = None,
    neighbours: Annotated[int, typer.Option("--neighbours", min=0, help="Try at most so many.")] = 20,
    features: Annotated[int, typer.Option("--features", min=0, help="Name at most so many.")] = 10,
    samples: Annotated[
        int | None, typer.Option("--samples", min=1, help="Samples per prediction; default: as many as the fit took.")
    ] = None,
    json: Annotated[bool, JSON] = False,
) -> None:
    """Show which neighbours and which features move a node's uncertainty."""
    from graphsde.acting.explain import explain as measure
    from graphsde.runs.folder import RunFolder

    folder = RunFolder(run)
    model, graph = folder.load_model(), folder.load_graph()
    drawn = samples or int(folder.read_config()["samples"])  # else an unsure node could have another class here
    found = measure(model, graph, node, neighbours=neighbours, features=features, samples=drawn)
    if out is not None:
        from graphsde.view.figures.nodes import ExplanationBars

        ExplanationBars.of(found).save(out)
    if json:
        print_json({"run": str(run), "model": model.name, "graph": graph.name, **found.as_dict()})
        return
    for sentence in found.sentences:
        typer.echo(sentence)
    if found.neighbours:
        shown = len(found.neighbours)
        which = f"{shown} of {found.degree:,} neighbours" if shown < found.degree else "Neighbours"
        typer.echo(f"{which}, one edge taken away at a time ({found.words.unit}; above 0: makes the node less sure):")
        print_table(found.neighbour_rows())
        typer.echo(found.words.note)
    if found.features:
        typer.echo("\nFeatures that are not at their average:")
        print_table(found.feature_rows())
    typer.echo(f"The effect of features was found {found.how}.")
    if out is not None:
        typer.echo(f"The picture is in {out}")
