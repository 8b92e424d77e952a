from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from graphsde.cli.options import JSON
from graphsde.cli.output import print_json, print_table, say


def compare(
    folder: Annotated[Path, typer.Argument(help="The folder of a bench.")],
    metric: Annotated[
        list[str], typer.Option("--metric", help="Which metrics; the task's own few if none is named.")
    ] = [],  # noqa: B006
    pair: Annotated[
        str | None, typer.Option("--pair", metavar="A,B", help="All tests between two models instead of the table.")
    ] = None,
    diagram: Annotated[
        Path | None, typer.Option("--diagram", help="Draw the critical-difference diagram of the first metric here.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Also write the rows here (.csv or .parquet).")] = None,
    json: Annotated[bool, JSON] = False,
) -> None:
    """Say what the runs of a bench show: mean, spread, interval, rank, and who is best, tied or behind."""
    from graphsde.base.errors import BadUsage
    from graphsde.bench.compare import causes_of
    from graphsde.bench.compare import compare as compare_records
    from graphsde.bench.direction import first_judged
    from graphsde.bench.folder import BenchFolder
    from graphsde.runs.export import write_table

    _, contents = BenchFolder(folder).read()
    for sentence in contents.warnings:
        say(sentence)
    records = list(contents.records)
    rows = compare_records(records, metric or None)
    if diagram is not None:
        judged = first_judged(row.metric for row in rows)
        if judged is None:
            raise BadUsage("none of these figures says who is better", fix="name one that does with --metric")
        _draw(records, judged, diagram)
    if pair is not None:
        _print_pair(records, rows, pair, json)
        return
    plain = [row.as_dict() for row in rows]
    if out is not None:
        columns = [name for name in plain[0] if name != "causes"]
        write_table({name: [row[name] for row in plain] for name in columns}, out)
    if json:
        print_json(plain)
        return
    print_table([_line(row) for row in plain])
    typer.echo(
        "best: p < .05 against every rival (paired t, Holm). tied: can't be told from the leader. "
        "Intervals are bootstrap 95 % of the mean."
    )
    print_causes(causes_of(records))


def print_causes(causes: dict[str, int], most: int = 5) -> None:
    """Why cells have no result, one line each."""
    for cause, count in list(causes.items())[:most]:
        typer.echo(f"failed, {count:,} ×: {cause}")
    if len(causes) > most:
        typer.echo(f"and {len(causes) - most:,} other causes; the journal has them all")


def _line(row: dict[str, Any]) -> dict[str, Any]:
    """Narrow enough for a terminal; rows are in the order of their rank."""
    mean = "—" if row["mean"] is None else f"{row['mean']:.4f}"
    spread = "" if row["std"] is None else f" ± {row['std']:.4f}"
    interval = "" if row["ci_low"] is None else f"{row['ci_low']:.3f} to {row['ci_high']:.3f}"
    causes = ", ".join(f"{count} {cause}" for cause, count in row["causes"].items())
    verdict = f"{row['verdict']}; failed: {causes}" if causes else row["verdict"]
    shown = {key: row[key] for key in ("dataset", "metric", "model")}
    return {**shown, "mean": mean + spread, "n": row["n"], "interval": interval, "verdict": verdict}


def _print_pair(records: list[Any], rows: list[Any], pair: str, json: bool) -> None:
    from dataclasses import asdict

    from graphsde.base.errors import BadUsage
    from graphsde.bench.compare import pairwise

    known = {row.model for row in rows}
    parts = pair.split(",")
    # a label may have commas of its own: gcn[epochs=5,hidden=8]
    splits = [(",".join(parts[:place]), ",".join(parts[place:])) for place in range(1, len(parts))]
    named = [(one, two) for first, second in splits if (one := _meant(first, known)) and (two := _meant(second, known))]
    if not named:
        raise BadUsage("--pair names two models", found=pair, expected="two of " + " and ".join(sorted(known)))
    first, second = named[0]
    found = []
    for dataset, metric in dict.fromkeys((row.dataset, row.metric) for row in rows):
        compared = pairwise(records, dataset, metric, first, second)
        found.append({"dataset": dataset, "metric": metric, **asdict(compared)})
    if json:
        print_json(found)
    else:
        print_table(found)


def _meant(name: str, known: set[str]) -> str | None:
    """A label of the table, or the plain name of a model where only one label has it."""
    own = [label for label in known if label == name] or [label for label in known if label.startswith(f"{name}[")]
    return own[0] if len(own) == 1 else None


def _draw(records: list[Any], metric: str, path: Path) -> None:
    from graphsde.base.errors import BadInput
    from graphsde.bench.compare import rank_models
    from graphsde.view.figures.bench import CriticalDifference
    from graphsde.view.figures.style import save_figure

    ranking = rank_models(records, metric)
    if ranking is None:
        raise BadInput("there are too few common runs for a diagram", code="E-EMPTY", fix="run more seeds")
    title = f"mean rank by {metric} over {ranking.blocks} {ranking.over}"
    picture = CriticalDifference(tuple(ranking.models), ranking.ranks, ranking.distance, title)
    save_figure(picture.matplotlib(), path)
