from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from graphsde.base.errors import BadUsage, GraphsdeError
from graphsde.cli.bench import CellBar, names_of, seeds_of
from graphsde.cli.options import ADDRESS, CELL_MINUTES, ENGINE, JSON, RETRY_FAILED, WORKERS, names_in, refuse_given
from graphsde.cli.output import print_json, print_table, say, tell

# what a plan file says itself
OF_THE_PLAN = ("seeds", "models", "engine", "address", "cell_minutes", "retry_failed", "renew", "show")


def reproduce(
    context: typer.Context,
    table: Annotated[
        str | None,
        typer.Argument(
            help="A table or figure of the paper; see: graphsde list tables. With --plan: only these of its tables, "
            "comma-separated; its searches are called search.",
            autocompletion=names_in("tables"),
        ),
    ] = None,
    out: Annotated[Path, typer.Option("--out", help="The folder for journals and results.")] = Path("results"),
    seeds: Annotated[
        str | None, typer.Option("--seeds", help="How many seeds, or which ones: 0,3,7; default: the table's own.")
    ] = None,
    datasets: Annotated[str | None, typer.Option("--datasets", help="Only these graphs, comma-separated.")] = None,
    models: Annotated[
        str | None, typer.Option("--models", help="Only these models, by our name or the paper's, comma-separated.")
    ] = None,
    engine: Annotated[str, ENGINE] = "processes",
    workers: Annotated[int | None, WORKERS] = None,
    address: Annotated[str | None, ADDRESS] = None,
    cell_minutes: Annotated[float, CELL_MINUTES] = 10.0,
    retry_failed: Annotated[bool, RETRY_FAILED] = False,
    renew: Annotated[
        bool,
        typer.Option("--renew", help="Run rows again that earlier versions or settings made; records are set aside."),
    ] = False,
    configs: Annotated[
        Path, typer.Option("--configs", help="Where searches have left settings, for the tuned rows.")
    ] = Path("configs/equal"),
    plan: Annotated[
        Path | None, typer.Option("--plan", help="A file of many tables: list what is done and what is missing.")
    ] = None,
    hours: Annotated[
        float, typer.Option("--hours", min=0.0, help="With --plan: run what is missing for so long.")
    ] = 0.0,
    show: Annotated[bool, typer.Option("--show", help="Run nothing; show the results so far.")] = False,
    json: Annotated[bool, JSON] = False,
) -> None:
    """Reproduce a table or figure of the paper and print both results, cell by cell. Run it again to resume."""
    if plan is not None:
        refuse_given(context, OF_THE_PLAN, "a plan file says this itself", "change the file, or leave out --plan")
        tables = names_of(table, "TABLE") if table else []
        graphs = names_of(datasets, "--datasets") if datasets else []
        _follow(plan, out, configs, tables, graphs, hours, workers, json)
        return
    refuse_given(context, ("hours",), "only a plan is run for some hours", "name a file with --plan")
    if table is None:
        raise BadUsage("name a table, or a file with --plan", fix="graphsde list tables")
    from graphsde.bench.engines import Limits
    from graphsde.bench.folder import BenchFolder
    from graphsde.bench.paper import TABLES
    from graphsde.bench.reproduce import Beside, beside, records_of, specs_of, with_found
    from graphsde.bench.run import BenchRequest, run_bench
    from graphsde.datasets.source import GraphSource
    from graphsde.view.figures.paper import PAPER_FIGURES

    asked = names_of(models, "--models") if models else []
    systems = {name for part in TABLES.get(table) for s in part.systems for name in (s.name, s.printed) if name}
    if strange := [name for name in asked if name not in systems]:
        raise BadUsage(
            f"the table '{table}' has no model of this name", found=strange, expected=", ".join(sorted(systems))
        )
    rows: list[Beside] = []
    journals: dict[str, list[tuple[Any, list[Any]]]] = {}
    chosen = [GraphSource.typed(name).graph for name in names_of(datasets, "--datasets")] if datasets else []
    for part in (with_found(one, configs, chosen) for one in TABLES.get(table)):
        graphs = chosen or [GraphSource.typed(name).graph for name in part.datasets]
        wanted = seeds_of(seeds) if seeds else tuple(range(part.seeds))
        folder = out / part.name.replace(":", "-")
        for graph in () if show else graphs:  # one at a time: a tuned row is only on graphs that have been searched
            if not (specs := specs_of(part, graph, asked)):
                continue
            request = BenchRequest(
                task=part.task,
                datasets=(graph,),
                models=tuple(specs),
                seeds=wanted,
                options=part.options,
                engine=engine,
                workers=workers,
                address=address,
                limits=Limits(cpu_seconds=60 * cell_minutes),
                retry_failed=retry_failed,
                renew=renew,
            )
            with CellBar(f"reproduce {part.name} on {Path(graph).name}") as bar:
                run_bench(request, folder, progress=bar.show, say=bar.say)
        _, contents = BenchFolder(folder).read()
        for sentence in contents.warnings:
            say(sentence)
        found = beside(part, contents.records, graphs, asked, wanted)
        if table not in PAPER_FIGURES:  # a figure may share its journals with a table, whose files it must leave alone
            write_results(folder, part.about, everything(part, contents.records))
        rows += found
        for graph in graphs:
            records = records_of(part, contents.records, graph, asked, wanted)
            journals.setdefault(graph, []).append((part, records))
    if table in PAPER_FIGURES:
        _draw_figure(table, out / table, journals, rows)
    if json:
        print_json([row.as_dict() for row in rows])
        return
    lines = [_line(row) for row in rows]
    # a figure has no printed values and a table is one plan: drop columns that would be empty
    told = [n for line in lines[:1] for n in line if not all(other[n] in ("", line["part"]) for other in lines)]
    print_table(lines, told)
    tell("", f"Wrote Markdown, CSV and a figure to {out}.")


def _follow(
    file: Path,
    out: Path,
    configs: Path,
    tables: list[str],
    graphs: list[str],
    hours: float,
    workers: int | None,
    json: bool,
) -> None:
    """The plan with what is there and what is missing, after running for some hours."""
    from graphsde.bench.plan import Study, read_plan
    from graphsde.view.figures.paper import PAPER_FIGURES

    wanted = read_plan(file)
    wanted = wanted.of(tables) if tables else wanted
    wanted = wanted.on(graphs) if graphs else wanted
    study = Study(wanted, out, configs)
    if hours:
        for step, part in study.run(hours, workers, say):
            folder = study.folder(step, part)
            if step.table in PAPER_FIGURES:
                tell(f"Draw it with: graphsde reproduce {step.table} --show --out {out / step.folder}")
            else:
                write_results(folder.path, part.about, everything(part, folder.read()[1].records))
    lines = study.status()
    if json:
        print_json([line.as_dict() for line in lines])
        return
    print_table([line.as_dict() | {"hours": f"{line.hours:.1f}"} for line in lines])
    missing, left = sum(line.missing for line in lines), sum(line.hours for line in lines)
    tell(
        "",
        f"{missing:,} cells and trials are missing, about {left:.0f} hours of one processor by what such cells took.",
    )


def everything(plan: Any, records: Any, kept: dict[str, Any] | None = None) -> list[Any]:
    """All graphs, models and seeds in the journal, including those of earlier runs; graphs are kept in ``kept``."""
    from graphsde.bench.reproduce import beside

    here = dict.fromkeys(record["cell"]["dataset"] for record in records)
    graphs = [graph for graph in plan.datasets if graph in here]
    graphs += [graph for graph in here if graph not in graphs]
    seeds = sorted({record["cell"]["seed"] for record in records})
    rows = []
    for graph in graphs:
        try:
            rows += beside(plan, records, [graph], [], seeds, kept)
        except GraphsdeError as error:
            say(f"{graph} is left out of the table: {error}")
    return rows


def write_results(folder: Path, about: str, rows: list[Any]) -> None:
    """``table.md``, ``table.csv`` and, of figures that can be compared, ``beside.png`` next to the journal."""
    from graphsde.base import storage
    from graphsde.bench.reproduce import beside_table
    from graphsde.io.table_export import write_table
    from graphsde.view.figures.bench import beside_picture

    if not rows:
        return
    storage.write_text(folder / "table.md", f"{about}\n\n{beside_table(rows)}")
    plain = [row.as_dict() for row in rows]
    write_table({name: [row[name] for row in plain] for name in plain[0]}, folder / "table.csv")
    picture = beside_picture(rows)
    if picture is not None:
        picture.save(folder / "beside.png")


def _draw_figure(name: str, folder: Path, journals: dict[str, list[tuple[Any, list[Any]]]], rows: list[Any]) -> None:
    """A figure of the paper: an image and a table for every graph, and one page of Markdown."""
    from graphsde.base import storage
    from graphsde.bench.reproduce import beside_table
    from graphsde.view.figures.paper import PAPER_FIGURES

    parts = []
    for graph, found in journals.items():
        if not any(record["status"] == "done" for _, records in found for record in records):
            continue
        stem = Path(graph).name.replace(":", "-")
        picture = PAPER_FIGURES[name](found)
        picture.save(folder / f"{stem}.png")
        picture.save(folder / f"{stem}.csv")
        parts.append(f"![{name} on {stem}]({stem}.png)\n")
        for plan, _ in found:
            own = [row for row in rows if row.table == plan.name and row.dataset == graph]
            parts.append(f"{plan.about}\n\n{beside_table(own)}")
    if parts:
        storage.write_text(folder / "figure.md", "\n".join(parts))


def _line(row: Any) -> dict[str, Any]:
    ours = "—" if row.mean is None else f"{row.mean:.4f}" + (f" ± {row.std:.4f}" if row.std is not None else "")
    printed = row.printed_text + (f" ± {row.printed_std:.4f}" if row.printed_std is not None else "")
    interval = "—" if row.ci_low is None else f"{row.ci_low:.4f} to {row.ci_high:.4f}"
    return {
        "part": row.table.partition(":")[2] or row.table,
        "graph": row.dataset,
        "published as": row.system,
        "ours": row.model,
        "metric": row.metric,
        "mean": ours,
        "interval": interval,
        "n": row.n,
        "failed": row.failed,
        "published": printed,
        "agreement": row.agreement,
    }
