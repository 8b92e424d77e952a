from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

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
    from graphsde.acting.explain import explain as of_classes
    from graphsde.acting.explain_numbers import explain_numbers
    from graphsde.runs.folder import RunFolder

    folder = RunFolder(run)
    model, graph = folder.load_model(), folder.load_graph()
    drawn = samples or int(folder.read_config()["samples"])  # else an unsure node could have another class here
    measure: Any = of_classes if model.target_scale is None else explain_numbers
    found = measure(model, graph, node, neighbours=neighbours, features=features, samples=drawn)
    if out is not None:
        from graphsde.view.figures.nodes import ExplanationBars

        ExplanationBars.of(found).save(out)
    if json:
        print_json({"run": str(run), "model": model.name, "graph": graph.name, **found.as_dict()})
        return
    for sentence in found.sentences:
        typer.echo(sentence)
    numeric = model.target_scale is not None
    if found.neighbours:
        shown = len(found.neighbours)
        which = f"{shown} of {found.degree:,} neighbours" if shown < found.degree else "Neighbours"
        unit = "standard deviation" if numeric else "nats"
        typer.echo(f"{which}, one edge taken away at a time ({unit}; above 0: makes the node less sure):")
        print_table([_number(one) if numeric else _class(one) for one in found.neighbours])
        what, whose = ("value", "values") if numeric else ("class", "labels")
        typer.echo(f"A {what} with ? is predicted, the others are training {whose}.")
    if found.features:
        typer.echo("\nFeatures that are not at their average:")
        adds = "adds deviation" if numeric else "adds entropy"
        print_table(
            [
                {"feature": one.name, "value": one.value, "average": one.average, adds: _effect(one.adds)}
                | ({"moves the mean": _effect(one.moves)} if one.moves is not None else {})
                for one in found.features
            ]
        )
    typer.echo(f"The effect of features was found {found.how}.")
    if out is not None:
        typer.echo(f"The picture is in {out}")


def _class(one: Any) -> dict[str, Any]:
    return {
        "neighbour": str(one.id),
        "class": one.label or f"{one.predicted}?",
        "adds entropy": _effect(one.adds),
        "adds to p": _effect(one.supports),
        "without it": one.without,
    }


def _number(one: Any) -> dict[str, Any]:
    return {
        "neighbour": str(one.id),
        "value": f"{one.mean:.4g}?" if one.value is None else f"{one.value:.4g}",
        "adds deviation": _effect(one.adds),
        "moves the mean": _effect(one.moves),
    }


def _effect(value: float) -> str:
    """With its sign, and with digits where four after the point would show none."""
    return f"{value:+.4f}" if value == 0 or abs(value) >= 5e-5 else f"{value:+.0e}"
