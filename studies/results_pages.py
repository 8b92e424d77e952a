"""Pages under docs/results from the journals under results: our figures and the paper's, wins, ties and losses.

    python studies/results_pages.py

Runs nothing: `graphsde reproduce TABLE --out results` does. A table without a journal gets no page.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from graphsde.bench.cells import Cell
from graphsde.bench.compare import Row, compare, headline
from graphsde.bench.folder import BenchFolder
from graphsde.bench.paper import TABLES, PaperTable
from graphsde.bench.reproduce import beside_table, cells_of, markdown_table, with_found
from graphsde.cli.reproduce import everything, write_results
from graphsde.io.table_export import write_table
from graphsde.view.figures.bench import MetricIntervals
from graphsde.view.figures.style import save_figure

ROOT = Path(__file__).resolve().parents[1]
RESULTS, PAGES, CONFIGS = ROOT / "results", ROOT / "docs" / "results", ROOT / "configs" / "equal"
MACHINE = "two cores of an AMD EPYC, 24 GB, torch 2.13 on the CPU"
OURS = ("lgnsde", "lgnsde@paper", "lgnsde@open-world", "lgnsde@universal")


def page(table: str, pages: Path, draw: bool = True) -> str:
    """All parts of one table, with their CSV files and pictures in ``pages``; nothing where there is no journal."""
    parts = []
    for plan in (with_found(one, CONFIGS) for one in TABLES.get(table)):
        name = plan.name.replace(":", "-")
        folder = BenchFolder(RESULTS / name)
        if not folder.question.is_file():
            continue
        records = folder.read()[1].records
        graphs = {record["cell"]["dataset"] for record in records}
        command = f"graphsde reproduce {table} --datasets {{graphs}} --seeds {{seeds}} --out results"
        rows = everything(plan, records)
        write_rows([row.as_dict() for row in rows], pages / f"{name}.csv")
        drawn = any(row.mean is not None and row.printed is not None for row in rows)
        if draw:
            write_results(folder.path, plan.about, rows)
            if drawn:
                shutil.copy(folder.path / "beside.png", pages / f"{name}.png")
        missing = [graph for graph in plan.datasets if graph not in graphs]
        text = [f"## {plan.name}", plan.about, beside_table(rows)]
        if missing:
            text.append(f"Not run yet: {', '.join(missing)}.")
        if drawn:
            text.append(f"![Our figures and the published ones]({name}.png)")
        compared = compare(records, figures_of(plan, records))
        if len({row.model for row in compared}) > 1:
            text += ["### Leaders", verdict_table(compared), summary(compared)]
        text.append(f"{commands(command, records)}; {machines(records)} {journal_of(folder)}")
        text += [*fewer_seeds(records), *beyond_the_table(plan, records)]
        parts.append("\n\n".join(text))
    return "\n\n".join(parts)


def write_rows(rows: list[dict[str, Any]], path: Path) -> None:
    write_table({name: [row[name] for row in rows] for name in rows[0]}, path)


def journal_of(folder: BenchFolder) -> str:
    """Where every figure of a table comes from."""
    place = folder.path.relative_to(ROOT)
    return f"Journal: [{place}](../../{place}/journal.jsonl), `graphsde compare {place}`."


def figures_of(plan: PaperTable, records: list[Any]) -> list[str]:
    """What the table shows, then what its task shows first; each once, as far as it was measured."""
    measured = {name for record in records for name in record.get("metrics") or {}}
    own = [] if any(system.score or system.value for system in plan.systems) else list(plan.metrics.values())
    return [name for name in dict.fromkeys([*own, *headline(records)]) if name in measured]


def fewer_seeds(records: list[Any]) -> list[str]:
    """Which systems have fewer cells on a graph than the command above stands for."""
    cells: dict[str, dict[str, set[int]]] = {}
    for record in records:
        cell = Cell(**record["cell"])
        cells.setdefault(cell.dataset, {}).setdefault(cell.label, set()).add(cell.seed)
    found = [
        f"{label} on {graph} {len(seeds)} of {most} seeds"
        for graph, models in cells.items()
        for most in [max(len(seeds) for seeds in models.values())]
        for label, seeds in models.items()
        if len(seeds) < most
    ]
    return [f"Cells not run: {'; '.join(found)}."] if found else []


def beyond_the_table(plan: PaperTable, records: list[Any]) -> list[str]:
    """Systems in the journal that the command above does not run."""
    graph, seed = (records[0]["cell"][key] for key in ("dataset", "seed"))
    own = {cell.label for cell in cells_of(plan, [graph], [], [seed])}
    more = sorted({label for record in records if (label := Cell(**record["cell"]).label) not in own})
    if not more:
        return []
    options = " ".join(f"--option {name}={_typed(value)}" for name, value in plan.options.items())
    named = ",".join(label for label in more if "[" not in label)  # a label with settings is no name of a model
    typed = f" (`graphsde bench {plan.task} --models {named} {options}` into the same folder)" if named else ""
    return [f"Included in the comparison above, but not part of that command: {', '.join(more)}{typed}."]


def _typed(value: Any) -> str:
    return f"[{','.join(map(str, value))}]" if isinstance(value, list | tuple) else str(value).lower()


@dataclass(frozen=True)
class Study:
    """A bench that no printed table has: the folder under results, and what was asked."""

    folder: str
    about: str
    command: str


STUDIES = {
    "leave-one-class-out": Study(
        "ood-every-class",
        "Every class is left out in turn, where the paper leaves out the last one: a model never sees the class, and "
        "should be uncertain about its nodes. Test nodes only, by entropy; figures are means over the classes, "
        "± the standard deviation over seeds. `propagated`: the entropy averaged over neighbours first.",
        "graphsde bench ood --datasets {graphs} --models {models} --seeds {seeds} --out results/ood-every-class",
    ),
    "standard-tuned": Study(
        "standard-tuned",
        "The standard protocol with hyperparameters from equal searches for these six systems: 8 trials (the system's "
        "own settings and 7 at random), one seed, chosen by validation NLL (`graphsde search`, saved under "
        "configs). Public split, test nodes only.",
        "graphsde bench misclassification --datasets {graphs} --models {models} --configs configs --seeds {seeds} "
        "--out results/standard-tuned",
    ),
    "controls": Study(
        "controls",
        "Single models and presets in the standard setting: public split of the citation graphs, the given split of "
        "`digits`, test nodes only; the default settings of each model or preset.",
        "graphsde bench misclassification --datasets {graphs} --models {models} --seeds {seeds} --out results/controls",
    ),
    "full-elbo": Study(
        "full-elbo",
        "The network of the text with the text's full ELBO: the KL is summed over all nodes, and drives the posterior "
        "onto its prior. The preset `paper` weighs the KL as the authors' code does.",
        "graphsde bench misclassification --datasets {graphs} --models lgnsde@paper --set kl_weight=1 "
        "--set kl_unit=elbo --seeds {seeds} --out results/full-elbo",
    ),
}
# tables whose journal a study shows, and figures, which have no cells of their own
ELSEWHERE = {study.folder for study in STUDIES.values()}


def study_page(name: str, study: Study, pages: Path, draw: bool = True) -> str:
    """The table of one bench, or nothing where there is no journal."""
    folder = BenchFolder(RESULTS / study.folder)
    if not folder.question.is_file():
        return ""
    records = folder.read()[1].records
    rows = compare(records)
    command = study.command.replace("{models}", ",".join(dict.fromkeys(plain(row.model) for row in rows)))
    write_rows([row.as_dict() | {"causes": ", ".join(row.causes)} for row in rows], pages / f"{name}.csv")
    text = [study.about, figures_table(rows)]
    if len({row.model for row in rows}) > 1:
        text += ["### Leaders", verdict_table(rows), summary(rows)]
        first = rows[0].metric
        for graph in dict.fromkeys(row.dataset for row in rows):
            picture = pages / f"{name}-{graph}.png"
            if draw:
                save_figure(MetricIntervals.of(records, rows, graph, first).matplotlib(), picture)
            text.append(f"![{first} on {graph}: runs, means and their intervals]({picture.name})")
    told = f"{commands(command, records)}; {machines(records)} {journal_of(folder)}"
    return "\n\n".join([*text, told, *fewer_seeds(records)])


def plain(label: str) -> str:
    """A model's name on the command line."""
    return label.removesuffix(" (tuned)")


def commands(template: str, records: list[Any]) -> str:
    """The command for each number of seeds, with the graphs that had so many."""
    seeds: dict[str, set[int]] = {}
    for record in records:
        seeds.setdefault(record["cell"]["dataset"], set()).add(record["cell"]["seed"])
    alike: dict[int, list[str]] = {}
    for graph, own in seeds.items():
        alike.setdefault(len(own), []).append(graph)
    return ", ".join(f"`{template.format(graphs=','.join(graphs), seeds=n)}`" for n, graphs in alike.items())


def figures_table(rows: list[Row]) -> str:
    """One line per graph and model, one column per metric."""
    lines: dict[tuple[str, str], dict[str, Any]] = {}
    for row in rows:
        line = lines.setdefault((row.dataset, row.model), {"graph": row.dataset, "model": row.model})
        if row.mean is None:
            line[row.metric] = "—"
        else:
            line[row.metric] = f"{row.mean:.4f}"
            if row.std is not None:
                line[row.metric] += f" ± {row.std:.4f} ({row.ci_low:.3f} to {row.ci_high:.3f})"
    # how many runs are behind a line is the same for all its metrics
    counts = {(row.dataset, row.model): {"n": row.n, "failed": row.failed} for row in rows}
    return markdown_table([line | counts[key] for key, line in lines.items()])


def verdict_table(rows: list[Row]) -> str:
    """One line per graph and metric: the leader, the models statistically tied with it, those behind."""
    lines: list[dict[str, Any]] = []
    for dataset, metric in dict.fromkeys((row.dataset, row.metric) for row in rows):
        own = [row for row in rows if (row.dataset, row.metric) == (dataset, metric) and row.mean is not None]
        if not own:
            continue
        leader = own[0]
        tied = [row.model for row in own[1:] if row.verdict == "tied"]
        behind = [f"{row.model} {row.mean:.4f}" for row in own if row.verdict == "behind"]
        lines.append(
            {
                "graph": dataset,
                "metric": metric,
                "leader": f"{leader.model} {leader.mean:.4f}",
                "alone": "yes" if leader.verdict == "best" else "no",
                "statistically tied with it": ", ".join(tied),
                "behind": ", ".join(behind),
                "n": leader.n,
            }
        )
    return markdown_table(lines)


def summary(rows: list[Row]) -> str:
    """In words: where our own model wins, ties and loses."""
    counts: dict[str, list[str]] = {"wins": [], "ties": [], "loses": [], "unsettled": []}
    for row in rows:
        if plain(row.model) not in OURS or row.mean is None:
            continue
        kind = {"best": "wins", "tied": "ties", "behind": "loses"}.get(row.verdict, "unsettled")
        counts[kind].append(f"{row.metric} on {row.dataset} ({row.model})")
    return "\n".join(f"* LGNSDE {kind}: {', '.join(found) or '—'}." for kind, found in counts.items() if found)


def machines(records: list[dict[str, Any]]) -> str:
    done = [record for record in records if record["status"] == "done"]
    failed = len(records) - len(done)
    hours = sum(record["seconds"]["cpu"] for record in records) / 3600
    return f"{len(done)} cells, {failed} failed, {hours:.1f} processor hours; {MACHINE}."


PAGES_OF_TABLES = [name for name in TABLES if not name.startswith("figure-") and name not in ELSEWHERE]


def write_page(name: str, pages: Path, draw: bool = True) -> bool:
    """The page of a table or study, if it has a journal."""
    text = study_page(name, STUDIES[name], pages, draw) if name in STUDIES else page(name, pages, draw)
    if text:
        (pages / f"{name}.md").write_text(f"# {name}\n\n{text}\n", encoding="utf-8")
    return bool(text)


if __name__ == "__main__":
    print("\n".join(name for name in (*PAGES_OF_TABLES, *STUDIES) if write_page(name, PAGES)))
