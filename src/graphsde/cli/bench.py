"""Commands about many runs: ``bench`` with a progress bar over its cells, ``compare``, ``search``."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

import typer

from graphsde.base.errors import BadInput, BadUsage, GraphsdeError
from graphsde.base.terminal import make_console, printable
from graphsde.cli.options import (
    ADDRESS,
    CELL_MINUTES,
    DATASETS,
    DEVICE,
    ENGINE,
    JSON,
    RETRY_FAILED,
    WORKERS,
    key_values,
    names_in,
    on_its_device,
    run_folders,
)
from graphsde.cli.output import print_json, print_rows, print_table, say, tell

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

    from graphsde.bench.cells import ModelSpec
    from graphsde.bench.journal import Record
    from graphsde.bench.run import BenchSummary, Progress
    from graphsde.bench.table import TableRow


# cells may take minutes: measure speed over hours, not over the half minute that is usual for files
ESTIMATE_SECONDS = 6 * 3600


class CellBar:
    """Cells, failures and time left on standard error; messages appear above the bar."""

    def __init__(self, title: str) -> None:
        self.title = title
        self._bar: RichProgress | None = None
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *details: object) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def show(self, state: Progress) -> None:
        if self._bar is None or self._task is None:
            if state.skipped:
                self.say(f"{state.skipped:,} cells already done, {state.total:,} to run")
            self._bar = _make_bar()
            self._task = self._bar.add_task(printable(self.title), total=state.total, status="")
            self._bar.start()
        failures = sum(state.failed.values())
        self._bar.update(self._task, completed=state.finished, status=f"{failures} failed" if failures else "")

    def say(self, text: str) -> None:
        if self._bar is None:
            say(text)
            return
        from rich.text import Text

        self._bar.console.print(Text(printable(text)), soft_wrap=True)


def _make_bar() -> RichProgress:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[status]}"),
        TimeRemainingColumn(),
        console=make_console(stderr=True),
        transient=True,
        speed_estimate_period=ESTIMATE_SECONDS,
    )


@on_its_device
def bench(
    task: Annotated[str, typer.Argument(help="The task; see: graphsde list tasks.", autocompletion=names_in("tasks"))],
    datasets: Annotated[str, DATASETS],
    models: Annotated[
        str,
        typer.Option(
            "--models",
            help="Comma-separated models, or MODEL@PRESET: gcn,lgnsde@paper.",
            autocompletion=names_in("models"),
        ),
    ],
    out: Annotated[Path, typer.Option("--out", help="The folder of the bench; an existing one is resumed.")],
    seeds: Annotated[str, typer.Option("--seeds", help="How many seeds (20 means 0 to 19), or which: 0,3,7.")] = "5",
    engine: Annotated[str, ENGINE] = "processes",
    address: Annotated[str | None, ADDRESS] = None,
    workers: Annotated[int | None, WORKERS] = None,
    settings: Annotated[
        list[str], typer.Option("--set", metavar="[MODEL.]KEY=VALUE", help="A setting of one model, or of all.")
    ] = [],  # noqa: B006
    option: Annotated[list[str], typer.Option("--option", metavar="KEY=VALUE", help="An option of the task.")] = [],  # noqa: B006
    configs: Annotated[
        Path | None,
        typer.Option("--configs", help="Take settings found by 'graphsde search' from this folder, for every model."),
    ] = None,
    retry_failed: Annotated[bool, RETRY_FAILED] = False,
    cell_minutes: Annotated[float, CELL_MINUTES] = 10.0,
    device: Annotated[str | None, DEVICE] = None,
    json: Annotated[bool, JSON] = False,
) -> None:
    """Run one task for many models on many graphs. Run it again to resume, or to add models, graphs or seeds."""
    from graphsde.base.lock import refuse_if_held

    refuse_if_held(out)
    from graphsde.bench.compare import causes_of
    from graphsde.bench.engines import Limits
    from graphsde.bench.run import BenchRequest, run_bench
    from graphsde.bench.table import tabulate
    from graphsde.datasets.source import GraphSource

    values = key_values(settings, "--set")
    graphs = tuple(GraphSource.typed(name).graph for name in names_of(datasets, "--datasets"))
    texts = names_of(models, "--models")
    specs = _models(texts, values)
    if configs is not None:
        from graphsde.bench.search import tuned

        specs = tuple(tuned(spec, text, graphs, configs) for spec, text in zip(specs, texts, strict=True))
    request = BenchRequest(
        task=task,
        datasets=graphs,
        models=specs,
        seeds=seeds_of(seeds),
        options=key_values(option, "--option"),
        engine=engine,
        workers=workers,
        address=address,
        limits=Limits(cpu_seconds=60 * cell_minutes),
        retry_failed=retry_failed,
    )
    with CellBar(f"bench {task}") as bar:
        summary = run_bench(request, out, progress=bar.show, say=bar.say)
    question, contents = summary.folder.read()
    rows = tabulate(contents.records, question["options"])
    if json:
        facts = {"out": str(out), "done": summary.done, "skipped": summary.skipped, "failed": summary.failed}
        print_json({**facts, "failed_before": summary.failed_before, "rows": [row.as_dict() for row in rows]})
        _refuse_silence(summary, contents.records)
        return
    _print_means(task, rows)
    _print_summary(summary.done, summary.skipped, summary.failed, summary.failed_before)
    print_causes(causes_of(contents.records))
    tell("", f"Results are in {out}. Next: graphsde compare {shlex.quote(str(out))}")
    _refuse_silence(summary, contents.records)


def _refuse_silence(summary: BenchSummary, records: list[Record]) -> None:
    """A bench without a single result is a failure, and the exit code says so."""
    from graphsde.bench.compare import causes_of

    if summary.failed and not any(record["status"] == "done" for record in records):
        raise GraphsdeError(
            "no cell has a result",
            code="E-NO-RESULT",
            found="; ".join(list(causes_of(records))[:3]),
            fix="fix the cause, then run the same command with --retry-failed",
        )


def names_of(text: str, option: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise BadUsage(f"{option} is empty", found=text)
    if len(set(names)) != len(names):
        raise BadUsage(f"{option} has a duplicate", found=text)
    return names


def seeds_of(text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts or not all(part.isdecimal() for part in parts):
        raise BadUsage(
            f"--seeds {text!r} is not valid", found=text, expected="a count such as 20, or a list such as 0,3,7"
        )
    if "," in text:
        if max(int(part) for part in parts) >= 2**63:
            raise BadUsage(f"--seeds {text!r} has a seed that is too large", found=text, expected="less than 2^63")
        return tuple(int(part) for part in parts)
    if not 1 <= int(text) <= 100_000:
        raise BadUsage(f"--seeds {text} is out of range", expected="1 to 100,000")
    return tuple(range(int(text)))


def _models(texts: list[str], values: dict[str, Any]) -> tuple[ModelSpec, ...]:
    """``lgnsde@paper.steps=5`` applies to that entry, ``lgnsde.steps=5`` to that model, ``steps=5`` to all."""
    from graphsde.bench.cells import ModelSpec
    from graphsde.models.parameters import merge_settings

    named = set(texts) | {text.partition("@")[0] for text in texts}
    for name in named & set(values):
        if not isinstance(values[name], dict):
            raise BadUsage(f"--set {name}={values[name]} names a model, not a setting", expected=f"{name}.KEY=VALUE")
    common = {name: value for name, value in values.items() if name not in named}
    specs = []
    for text in texts:
        own = merge_settings(common, values.get(text.partition("@")[0], {}))
        if "@" in text:
            own = merge_settings(own, values.get(text, {}))
        specs.append(ModelSpec.parse(text, own))
    return tuple(specs)


def _print_means(task: str, rows: list[TableRow]) -> None:
    """One line per model on a graph, the task's headline in columns: mean ± standard deviation over n seeds."""
    from graphsde.bench.tasks.task import TASKS

    groups: dict[tuple[str, str, str], list[TableRow]] = {}
    for row in rows:
        groups.setdefault((row.dataset, row.variant, row.model), []).append(row)
    lines: list[dict[str, Any]] = []
    for (dataset, variant, model), group in groups.items():
        n = max(row.n for row in group)
        means = {row.metric: _mean(row, n) for row in group}
        line = {"dataset": dataset, "variant": variant, "model": model, "n": n, "failed": group[0].failed}
        lines.append(line | {name: means.get(name, "—") for name in TASKS.get(task).headline})
    empty = {name for name in ("variant", "failed") if not any(line[name] for line in lines)}
    print_table(lines, [name for line in lines[:1] for name in line if name not in empty])


def _mean(row: TableRow, usual: int) -> str:
    if row.mean is None:
        return "—"
    text = f"{row.mean:.4f}" if row.std is None else f"{row.mean:.4f} ± {row.std:.4f}"
    return text if row.n == usual else f"{text} ({row.n})"


def _print_summary(done: int, skipped: int, failed: dict[str, int], failed_before: int) -> None:
    tell(f"{done:,} cells done, {skipped:,} already there.")
    if failed:
        causes = ", ".join(f"{count} × {cause}" for cause, count in sorted(failed.items()))
        tell(f"{sum(failed.values()):,} cells failed ({causes}); retry them with --retry-failed.")
    if failed_before:
        tell(f"{failed_before:,} cells failed in an earlier run; retry them with --retry-failed.")


def compare(
    folder: Annotated[Path, typer.Argument(help="The folder of a bench.", autocompletion=run_folders)],
    metric: Annotated[
        list[str], typer.Option("--metric", help="Metrics to show, repeatable; default: the task's headline metrics.")
    ] = [],  # noqa: B006
    pair: Annotated[
        str | None,
        typer.Option("--pair", metavar="A,B", help="Show all tests between two models instead of the table."),
    ] = None,
    diagram: Annotated[
        Path | None, typer.Option("--diagram", help="Draw the critical-difference diagram of the first metric here.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Also write the rows here (.csv or .parquet).")] = None,
    json: Annotated[bool, JSON] = False,
) -> None:
    """Summarise a bench: mean, spread, interval and rank of each model, and which is best, tied or behind."""
    from graphsde.bench.compare import causes_of
    from graphsde.bench.compare import compare as compare_records
    from graphsde.bench.direction import first_judged
    from graphsde.bench.folder import BenchFolder
    from graphsde.io.table_export import write_table

    _, contents = BenchFolder(folder).read()
    for sentence in contents.warnings:
        say(sentence)
    records = list(contents.records)
    rows = compare_records(records, metric or None)
    if diagram is not None:
        judged = first_judged(row.metric for row in rows)
        if judged is None:
            raise BadUsage("none of these metrics can be ranked", fix="choose another one with --metric")
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
    tell(
        "best: p < .05 against every rival (paired t, Holm). tied: statistically tied with the leader. "
        "Intervals are 95 % bootstrap intervals of the mean."
    )
    print_causes(causes_of(records))


def print_causes(causes: dict[str, int], most: int = 5) -> None:
    """Why cells have no result, one line each."""
    for cause, count in list(causes.items())[:most]:
        tell(f"failed, {count:,} ×: {cause}")
    if len(causes) > most:
        tell(f"and {len(causes) - most:,} other causes; see the journal")


def _line(row: dict[str, Any]) -> dict[str, Any]:
    """Rows that fit into a terminal, ordered by rank."""
    mean = "—" if row["mean"] is None else f"{row['mean']:.4f}"
    spread = "" if row["std"] is None else f" ± {row['std']:.4f}"
    interval = "" if row["ci_low"] is None else f"{row['ci_low']:.3f} to {row['ci_high']:.3f}"
    causes = ", ".join(f"{count} {cause}" for cause, count in row["causes"].items())
    verdict = f"{row['verdict']}; failed: {causes}" if causes else row["verdict"]
    shown = {key: row[key] for key in ("dataset", "metric", "model")}
    return {**shown, "mean": mean + spread, "n": row["n"], "interval": interval, "verdict": verdict}


def _print_pair(records: list[Any], rows: list[Any], pair: str, json: bool) -> None:
    from dataclasses import asdict

    from graphsde.bench.compare import pairwise

    known = {row.model for row in rows}
    parts = pair.split(",")
    # a label may itself contain commas: gcn[epochs=5,hidden=8]
    splits = [(",".join(parts[:place]), ",".join(parts[place:])) for place in range(1, len(parts))]
    named = [(one, two) for first, second in splits if (one := _meant(first, known)) and (two := _meant(second, known))]
    if not named:
        raise BadUsage("--pair needs two models", found=pair, expected="two of " + " and ".join(sorted(known)))
    first, second = named[0]
    found = []
    for dataset, metric in dict.fromkeys((row.dataset, row.metric) for row in rows):
        compared = pairwise(records, dataset, metric, first, second)
        found.append({"dataset": dataset, "metric": metric, **asdict(compared)})
    print_rows(found, json)


def _meant(name: str, known: set[str]) -> str | None:
    """A label of the table, or a model's plain name if only one label has it."""
    own = [label for label in known if label == name] or [label for label in known if label.startswith(f"{name}[")]
    return own[0] if len(own) == 1 else None


def _draw(records: list[Any], metric: str, path: Path) -> None:
    from graphsde.bench.compare import rank_models
    from graphsde.view.figures.bench import CriticalDifference
    from graphsde.view.figures.style import save_figure

    ranking = rank_models(records, metric)
    if ranking is None:
        raise BadInput("too few runs in common for a diagram", code="E-EMPTY", fix="run more seeds")
    title = f"mean rank by {metric} over {ranking.blocks} {ranking.over}"
    picture = CriticalDifference(tuple(ranking.models), ranking.ranks, ranking.distance, title)
    save_figure(picture.matplotlib(), path)


@on_its_device
def search(
    datasets: Annotated[str, DATASETS],
    models: Annotated[
        str,
        typer.Option(
            "--models",
            help="Comma-separated models, or MODEL@PRESET.",
            autocompletion=names_in("models"),
        ),
    ],
    out: Annotated[Path, typer.Option("--out", help="The folder of the search; an existing one is resumed.")],
    trials: Annotated[int, typer.Option("--trials", min=1, help="Settings to try per model and graph.")] = 8,
    around: Annotated[
        int, typer.Option("--around", min=0, help="Then this many more, next to the best one in the grid.")
    ] = 0,
    runs: Annotated[
        int, typer.Option("--runs", min=1, help="Trainings of each trial, with seeds from --seed on; the mean counts.")
    ] = 1,
    also: Annotated[
        list[str],
        typer.Option("--also", metavar="[MODEL.]KEY=[A,B]", help="Values of a setting to try besides the grid."),
    ] = [],  # noqa: B006
    cpu_minutes: Annotated[float, typer.Option("--cpu-minutes", help="CPU minutes per model and graph.")] = 20.0,
    sampler: Annotated[str, typer.Option("--sampler", help="random, tpe or near.")] = "random",
    prune: Annotated[
        bool, typer.Option("--prune/--no-prune", help="Give up trials that are behind the median of earlier ones.")
    ] = True,
    select: Annotated[str, typer.Option("--select", help="nll or accuracy, on validation nodes.")] = "nll",
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of training and of the sampler.")] = 0,
    engine: Annotated[str, ENGINE] = "processes",
    workers: Annotated[int | None, WORKERS] = 1,
    address: Annotated[str | None, ADDRESS] = None,
    configs: Annotated[
        Path | None, typer.Option("--configs", help="Also write the best settings here, one file per model and graph.")
    ] = None,
    device: Annotated[str | None, DEVICE] = None,
    json: Annotated[bool, JSON] = False,
) -> None:
    """Tune hyperparameters on validation nodes, with the same budget for every model. Run it again to resume."""
    from graphsde.bench.cells import ModelSpec
    from graphsde.bench.search import SearchRequest, best_trial, place_of, run_search, write_best
    from graphsde.datasets.source import GraphSource

    if sampler not in ("random", "tpe", "near") or select not in ("nll", "accuracy"):
        raise BadUsage(
            "unknown --sampler or --select",
            found=f"{sampler}, {select}",
            expected="random, tpe or near; nll or accuracy",
        )
    texts = names_of(models, "--models")
    beside = {text: spec.settings for text, spec in zip(texts, _models(texts, key_values(also, "--also")), strict=True)}
    asked: dict[str, tuple[str, SearchRequest]] = {}
    for dataset in names_of(datasets, "--datasets"):
        for text in texts:
            request = SearchRequest(
                GraphSource.typed(dataset).graph,
                ModelSpec.parse(text),
                trials=trials,
                around=around,
                seed=seed,
                runs=runs,
                also=_values(beside[text]),
                sampler=sampler,  # type: ignore[arg-type]
                prune=prune,
                select=select,  # type: ignore[arg-type]
                cpu_minutes=cpu_minutes,
                engine=engine,
                workers=workers,
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
    print_rows(found, json)


def _values(also: dict[str, Any]) -> dict[str, list[Any]]:
    """``sigma: [1, 2]`` of ``--also``; the preset that a model's name holds is no part of it."""
    found = {name: values for name, values in also.items() if name != "preset"}
    if wrong := [name for name, values in found.items() if not isinstance(values, list) or not values]:
        raise BadUsage("--also takes a list of values", found=", ".join(wrong), expected="sigma=[1,2,4]")
    return found
