"""The report of a bench folder: what was asked, what was found, how sure that is, and what failed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from graphsde.errors import BadInput
from graphsde.runs.bench_folder import BenchFolder
from graphsde.runs.cells import Cell
from graphsde.runs.compare import Row, compare
from graphsde.runs.direction import first_judged, in_words
from graphsde.storage import write_text
from graphsde.tasks.task import TASKS
from graphsde.view.figures.picture import save_both
from graphsde.view.report.bench_command import bench_commands
from graphsde.view.report.bench_figures import bench_figures, bench_pictures
from graphsde.view.report.formatting import NOTHING, count, name, number
from graphsde.view.report.page import render_page

LEGEND = (
    "Mean and standard deviation over n runs, with the bootstrap interval of the mean. “best”: p < .05 against every "
    "rival (paired t-test on common seeds, Holm's correction). “tied”: can't be told from the leader. “behind”: told "
    "from it. “too few”: fewer than two runs in common with it."
)
MOST_FAILURES = 200


@dataclass(frozen=True)
class ShownRow:
    """One line of a table, every entry ready to be printed."""

    model: str
    mean: str
    std: str
    n: str
    interval: str
    verdict: str
    failed: str
    kind: str


@dataclass(frozen=True)
class ShownTable:
    dataset: str
    metric: str
    direction: str
    rows: list[ShownRow]


@dataclass(frozen=True)
class Failure:
    dataset: str
    model: str
    seeds: str
    cause: str


def report_on_bench(folder: BenchFolder, path: Path | None = None, *, figures: Path | None = None) -> Path:
    """Write the report of a bench to ``path`` (default: ``report.html`` in its folder).

    Args:
        folder: of the bench.
        path: where to.
        figures: a folder for every figure as PNG and CSV; ``None`` writes none.
    """
    question, contents = folder.read()
    records = list(contents.records)
    target = path or folder.path / "report.html"
    write_text(target, render_bench_report(question, records, str(folder.path)))
    if figures is not None:
        latest = list({record["id"]: record for record in records}.values())
        for key, _, _, picture in bench_pictures(str(question["task"]), latest, compare(latest)):
            save_both(picture, figures, key)
    return target


def render_bench_report(question: Mapping[str, Any], records: Sequence[Mapping[str, Any]], out: str) -> str:
    """One HTML document about the cells of a bench.

    Args:
        question: ``task`` and ``options``.
        records: of its journal, at least one.
        out: the folder, for the commands.
    """
    if not records:
        raise BadInput("there are no finished cells to report on", code="E-EMPTY", fix="run graphsde bench first")
    latest = list({record["id"]: record for record in records}.values())
    rows = compare(latest)
    values = {
        "title": f"bench: {question['task']}",
        "verdict": leaders(rows),
        "facts": _facts(question, latest),
        "legend": LEGEND,
        "tables": _tables(rows),
        "figures": bench_figures(str(question["task"]), latest, rows),
        "failures": _failures(latest),
        "commands": bench_commands(question, latest, out),
    }
    return render_page("bench.html", values)


def leaders(rows: Sequence[Row]) -> str:
    """Who leads by the first metric that can be judged on each graph, and whether that can be told from chance."""
    sentences = []
    first = first_judged(row.metric for row in rows)
    if first is None:
        return "None of these figures says by itself who is better."
    for dataset in dict.fromkeys(row.dataset for row in rows):
        own = [row for row in rows if (row.dataset, row.metric) == (dataset, first) and row.mean is not None]
        if not own:
            sentences.append(f"On {shown_graph(dataset)} no cell has {first}.")
            continue
        top = own[0]
        opening = f"On {shown_graph(dataset)} {name(top.model, 60)} has the best {first} ({_spread(top)})"
        sentences.append(f"{opening}{_against(own[1:])}")
    return " ".join(sentences)


def _against(rivals: Sequence[Row]) -> str:
    """How the end of the sentence speaks of the others."""
    tied = [name(row.model, 60) for row in rivals if row.verdict == "tied"]
    if not rivals:
        return "; it is the only one with results."
    if tied:
        more = f" and {len(tied) - 3} more" if len(tied) > 3 else ""
        return f"; {', '.join(tied[:3])}{more} can't be told from it."
    if all(row.verdict == "behind" for row in rivals):
        return ", told from every rival that has results."
    return "; the runs are too few to tell it from others."


def shown_graph(dataset: str) -> str:
    return name(Path(dataset).name or dataset, 40)


def _spread(row: Row) -> str:
    std = "" if row.std is None else f" ± {number(row.std)}"
    return f"{number(row.mean)}{std}, n = {row.n}"


def _facts(question: Mapping[str, Any], records: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    cells = [Cell(**record["cell"]) for record in records]
    done = sum(record["status"] == "done" for record in records)
    hours = sum(float(record["seconds"].get("cpu", 0.0)) for record in records) / 3600
    options = ", ".join(f"{key} = {value}" for key, value in question["options"].items())
    made = Counter(_versions(record["environment"]) for record in records)
    return [
        ("Task", f"{question['task']}: {TASKS.entry(str(question['task'])).summary}"),
        ("Options", name(options) if options else "its own"),
        ("Graphs", ", ".join(dict.fromkeys(shown_graph(cell.dataset) for cell in cells))),
        ("Models", str(len({cell.label for cell in cells}))),
        ("Seeds", str(len({cell.seed for cell in cells}))),
        ("Cells", f"{done:,} done, {len(records) - done:,} failed"),
        ("Processor time", f"{hours:.1f} hours" if hours >= 1 else f"{60 * hours:.1f} minutes"),
        ("Made with", name("; ".join(made))),
    ]


def _versions(environment: Mapping[str, Any]) -> str:
    return ", ".join(f"{key} {str(value)[:12]}" for key, value in environment.items()) or "not noted"


def _tables(rows: Sequence[Row]) -> list[ShownTable]:
    tables = []
    for dataset, metric in dict.fromkeys((row.dataset, row.metric) for row in rows):
        own = [row for row in rows if (row.dataset, row.metric) == (dataset, metric)]
        direction = in_words(metric)
        tables.append(ShownTable(shown_graph(dataset), name(metric), direction, [_shown(row) for row in own]))
    return tables


def _shown(row: Row) -> ShownRow:
    interval = NOTHING if row.ci_low is None else f"{number(row.ci_low, 4)} to {number(row.ci_high, 4)}"
    causes = ", ".join(f"{times} × {name(cause, 40)}" for cause, times in row.causes.items())
    return ShownRow(
        model=name(row.model, 80),
        mean=number(row.mean, 4),
        std=number(row.std, 4),
        n=str(row.n),
        interval=interval,
        verdict=row.verdict,
        failed=causes or "0",
        kind="leading" if row.verdict in ("best", "tied", "only") else "",
    )


def _failures(records: Sequence[Mapping[str, Any]]) -> list[Failure]:
    found: dict[tuple[str, str, str], list[int]] = {}
    for record in records:
        if record["status"] != "done":
            cell = Cell(**record["cell"])
            key = (shown_graph(cell.dataset), name(cell.label, 80), name(record.get("cause") or "unknown", 300))
            found.setdefault(key, []).append(cell.seed)
    lines = [
        Failure(dataset, model, ", ".join(str(seed) for seed in sorted(set(seeds))), cause)
        for (dataset, model, cause), seeds in found.items()
    ]
    shown = lines[:MOST_FAILURES]
    if len(lines) > MOST_FAILURES:
        shown.append(Failure("…", "…", "…", f"and {count(len(lines) - MOST_FAILURES, 'line')} more"))
    return shown
