from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from graphsde.cli.options import JSON
from graphsde.cli.output import print_json, print_table, say


def search(
    datasets: Annotated[str, typer.Option("--datasets", help="Names of benchmarks or paths, with commas between.")],
    models: Annotated[str, typer.Option("--models", help="With commas between; MODEL@PRESET where it has presets.")],
    out: Annotated[Path, typer.Option("--out", help="The folder of the search; one that exists is gone on with.")],
    trials: Annotated[int, typer.Option("--trials", min=1, help="Settings to try per model and graph.")] = 8,
    cpu_minutes: Annotated[float, typer.Option("--cpu-minutes", help="The budget per model and graph.")] = 20.0,
    sampler: Annotated[str, typer.Option("--sampler", help="random or tpe.")] = "random",
    select: Annotated[str, typer.Option("--select", help="nll or accuracy, on validation nodes.")] = "nll",
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the trainings and of the sampler.")] = 0,
    engine: Annotated[str, typer.Option("--engine", help="See: graphsde list engines.")] = "processes",
    address: Annotated[str | None, typer.Option("--address", help="Of a Ray cluster, HOST:PORT.")] = None,
    configs: Annotated[
        Path | None, typer.Option("--configs", help="Also keep the best settings here, one file per model and graph.")
    ] = None,
    json: Annotated[bool, JSON] = False,
) -> None:
    """Choose hyperparameters on validation nodes, with the same budget for every model. Run it again to go on."""
    from graphsde.base.errors import BadUsage
    from graphsde.bench.cells import ModelSpec
    from graphsde.bench.search import SearchRequest, best_trial, place_of, run_search, write_best
    from graphsde.cli.bench import names_of
    from graphsde.datasets.source import GraphSource

    if sampler not in ("random", "tpe") or select not in ("nll", "accuracy"):
        raise BadUsage("unknown way to search", found=f"{sampler}, {select}", expected="random or tpe, nll or accuracy")
    texts = names_of(models, "--models")
    asked: dict[str, tuple[str, SearchRequest]] = {}
    for dataset in names_of(datasets, "--datasets"):
        for text in texts:
            request = SearchRequest(
                GraphSource.typed(dataset).graph,
                ModelSpec.parse(text),
                trials=trials,
                seed=seed,
                sampler=sampler,  # type: ignore[arg-type]
                select=select,  # type: ignore[arg-type]
                cpu_minutes=cpu_minutes,
                engine=engine,
                address=address,
            )
            if place_of(text, dataset) in asked:
                raise BadUsage(
                    "two of the graphs have the same name",
                    found=datasets,
                    fix="search them one by one, each with --out",
                )
            asked[place_of(text, dataset)] = text, request
    found: list[dict[str, Any]] = []
    for place, (text, request) in asked.items():
        done = run_search(request, out / place, say=say)
        best = best_trial(done, request.select)
        found.append(
            {
                "dataset": Path(request.dataset).name,
                "model": text,
                "trials": len(done),
                f"val_{select}": best.value,
                f"val_{select}_of_defaults": done[0].value,
                "best": best.chosen or "defaults",
            }
        )
        if configs is not None:
            write_best(configs / f"{place}.yaml", request, best, len(done))
    if json:
        print_json(found)
    else:
        print_table(found)
