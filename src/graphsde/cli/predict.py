from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from graphsde.base.errors import BadUsage
from graphsde.cli.options import READ, RUN, SAMPLES, key_values


def predict(
    run: Annotated[Path, RUN],
    out: Annotated[Path, typer.Option("--out", help="A .csv or .parquet file.")],
    graph: Annotated[
        str | None, typer.Option("--graph", help="Another graph with the same columns; default: the run's own.")
    ] = None,
    samples: Annotated[int, SAMPLES] = 64,
    seed: Annotated[int | None, typer.Option("--seed", help="Of the samples; default: the model's.")] = None,
    read: Annotated[list[str], READ] = [],  # noqa: B006
) -> None:
    """Predict every node of the run's graph, or of another one, with its uncertainty."""
    from graphsde.datasets.source import is_benchmark, open_graph
    from graphsde.runs.export import prediction_columns, write_table
    from graphsde.runs.folder import RunFolder

    folder = RunFolder(run)
    model = folder.load_model()
    given = key_values(read, "--read")
    if graph is None:
        if given:
            raise BadUsage("--read is for another graph: the run's own is read as it was", fix="leave it out")
        target = folder.load_graph()
    else:
        # as the run's own files were read, unless said otherwise
        own = {} if is_benchmark(graph) else folder.source().options
        target = open_graph(graph, **{**own, **given})
    prediction = model.predict(target, samples=samples, seed=seed)
    write_table(prediction_columns(prediction, target), out)
    typer.echo(f"{prediction.num_items:,} predictions in {out}")
