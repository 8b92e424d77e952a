"""Pages under docs/results from the journals under results: ours beside the paper's, who wins, ties and loses.

    python studies/results_pages.py

Runs nothing: `graphsde reproduce TABLE --out results` does. A table without a journal gets no page.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from graphsde.cli.reproduce import write_results
from graphsde.runs.bench_folder import BenchFolder
from graphsde.runs.compare import Row, compare
from graphsde.runs.markdown import beside_table, markdown_table
from graphsde.runs.reproduce import beside
from graphsde.tasks.paper import TABLES

ROOT = Path(__file__).resolve().parents[1]
RESULTS, PAGES = ROOT / "results", ROOT / "docs" / "results"
OURS = ("lgnsde", "lgnsde@open-world")


def page(table: str) -> str:
    """All parts of one table, or nothing where there is no journal."""
    parts = []
    for plan in TABLES.get(table):
        name = plan.name.replace(":", "-")
        folder = BenchFolder(RESULTS / name)
        if not folder.question.is_file():
            continue
        records = folder.read()[1].records
        graphs = [graph for graph in plan.datasets if any(record["cell"]["dataset"] == graph for record in records)]
        seeds = sorted({record["cell"]["seed"] for record in records})
        command = f"graphsde reproduce {table} --datasets {{graphs}} --seeds {{seeds}} --out results"
        rows = beside(plan, records, graphs, [], seeds)
        write_results(RESULTS / name, plan.about, rows)
        shutil.copy(RESULTS / name / "table.csv", PAGES / f"{name}.csv")
        picture = RESULTS / name / "beside.png"
        if picture.is_file():
            shutil.copy(picture, PAGES / f"{name}.png")
        missing = [graph for graph in plan.datasets if graph not in graphs]
        text = [f"## {plan.name}", plan.about, beside_table(rows)]
        if missing:
            text.append(f"Not run yet: {', '.join(missing)}.")
        if picture.is_file():
            text.append(f"![Ours beside the printed figures]({name}.png)")
        compared = compare(records)
        if len({row.model for row in compared}) > 1:
            text += ["### Who leads", verdict_table(compared), summary(compared)]
        text.append(f"{commands(command, records)}; {machines(records)}")
        parts.append("\n\n".join(text))
    return "\n\n".join(parts)


@dataclass(frozen=True)
class Study:
    """A bench that no printed table has: the folder under results, and what was asked."""

    folder: str
    about: str
    command: str


STUDIES = {
    "leave-one-class-out": Study(
        "ood-every-class",
        "Every class left out in turn, where the paper leaves out the last one: a model never sees the class, and is "
        "asked to be in doubt about its nodes. Test nodes only, by entropy; a figure is the mean over the classes, "
        "± the standard deviation over seeds. `propagated`: the entropy averaged over neighbours first.",
        "graphsde bench ood --datasets {graphs} --models {models} --seeds {seeds} --out results/ood-every-class",
    ),
    "standard-tuned": Study(
        "standard-tuned",
        "The standard setting with settings that every system got from the same search: 8 trials at random, one seed, "
        "chosen by the NLL of validation nodes (`graphsde search`, kept under configs). Public split, test nodes only.",
        "graphsde bench misclassification --datasets {graphs} --models {models} --configs configs --seeds {seeds} "
        "--out results/standard-tuned",
    ),
}


def study_page(study: Study) -> str:
    """The table of one bench, or nothing where there is no journal."""
    folder = BenchFolder(RESULTS / study.folder)
    if not folder.question.is_file():
        return ""
    records = folder.read()[1].records
    rows = compare(records)
    command = study.command.replace("{models}", ",".join(dict.fromkeys(plain(row.model) for row in rows)))
    text = [study.about, figures_table(rows), "### Who leads", verdict_table(rows), summary(rows)]
    return "\n\n".join([*text, f"{commands(command, records)}; {machines(records)}"])


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
    """One line per graph and metric: the leader, who can't be told from it, who is behind."""
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
                "can't be told from it": ", ".join(tied),
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
    return f"{len(done)} cells, {failed} failed, {hours:.1f} processor hours; two cores, torch 2.13 on the CPU."


if __name__ == "__main__":
    PAGES.mkdir(parents=True, exist_ok=True)
    written = []
    # a figure has no cells of its own
    for table in (name for name in TABLES if not name.startswith("figure-")):
        if text := page(table):
            (PAGES / f"{table}.md").write_text(f"# {table}\n\n{text}\n", encoding="utf-8")
            written.append(table)
    for name, study in STUDIES.items():
        if text := study_page(study):
            (PAGES / f"{name}.md").write_text(f"# {name}\n\n{text}\n", encoding="utf-8")
            written.append(name)
    print("\n".join(written))
