"""The report of a bench folder: what was asked, what was found, how sure that is, and what failed."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from graphsde.base.errors import BadInput
from graphsde.base.storage import write_text
from graphsde.bench.cells import Cell
from graphsde.bench.compare import Row, compare, rank_models
from graphsde.bench.direction import first_judged, in_words
from graphsde.bench.folder import BenchFolder
from graphsde.bench.tasks.task import TASKS
from graphsde.view.figures.bench import LEADING, CostPanel, CriticalDifference, Curves, MetricIntervals, gather
from graphsde.view.figures.dynamics import EntropyByModel, PhasePortrait
from graphsde.view.figures.picture import Picture, save_both
from graphsde.view.report.content import NOTHING, count, name, number
from graphsde.view.report.figure_blocks import block
from graphsde.view.report.page import render_page

Records = Sequence[Mapping[str, Any]]


def bench_commands(question: Mapping[str, Any], records: Records, out: str) -> list[str]:
    """``graphsde bench`` that continues it, ``compare`` and ``report``.

    Models that are there twice with different settings can't be named on one command line; each then has its own.
    """
    cells = [Cell(**record["cell"]) for record in records]
    groups: list[dict[str, dict[str, Any]]] = []
    for label_settings in {cell.label: cell for cell in cells}.values():
        text, settings = _spelt(label_settings)
        home = next((group for group in groups if text not in group), None)
        if home is None:
            home = {}
            groups.append(home)
        home[text] = settings
    datasets = ",".join(dict.fromkeys(cell.dataset for cell in cells))
    seeds = _seeds(sorted({cell.seed for cell in cells}))
    commands = []
    for group in groups:
        words = ["graphsde", "bench", str(question["task"]), "--datasets", datasets, "--models", ",".join(group)]
        words += ["--seeds", seeds]
        for text, settings in group.items():
            for key, value in settings.items():
                words += ["--set", f"{text}.{key}={_yaml(value)}"]
        for key, value in _options(question).items():
            words += ["--option", f"{key}={_yaml(value)}"]
        commands.append(shlex.join([*words, "--out", out]))
    return [*commands, shlex.join(["graphsde", "compare", out]), shlex.join(["graphsde", "report", out])]


def _spelt(cell: Cell) -> tuple[str, dict[str, Any]]:
    preset = cell.settings.get("preset")
    text = f"{cell.model}@{preset}" if preset else cell.model
    return text, {key: value for key, value in cell.settings.items() if key != "preset"}


def _options(question: Mapping[str, Any]) -> dict[str, Any]:
    known = TASKS.get(str(question["task"])).Options.model_fields
    return {key: value for key, value in question["options"].items() if key in known}


def _seeds(seeds: list[int]) -> str:
    if seeds == list(range(len(seeds))):
        return str(len(seeds))
    return ",".join(str(seed) for seed in seeds) + ("," if len(seeds) == 1 else "")


def _yaml(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


MOST_METRIC_FIGURES = 40
# of the tasks that record series: x, y, the labels of both, and whether y is a share
SERIES: dict[str, tuple[tuple[str, str, str, str, bool], ...]] = {
    "active": (("labels", "accuracy", "labels", "accuracy on test nodes", True),),
    "noise": (
        ("severity", "accuracy", "noise, in standard deviations", "accuracy on test nodes", True),
        ("severity", "nll", "noise, in standard deviations", "NLL on test nodes", False),
    ),
    "adaptive-depth": (
        ("difficulty", "steps", "difficulty, 0 is the easiest", "accepted steps of a path", False),
        ("difficulty", "error", "difficulty, 0 is the easiest", "error on test nodes", True),
        ("difficulty", "entropy", "difficulty, 0 is the easiest", "mean entropy (nats)", False),
    ),
}
BAND = "Lines are means over seeds, bands the 95 % bootstrap intervals of these means."


def bench_pictures(task: str, records: Records, rows: Sequence[Row]) -> Iterator[tuple[str, str, str, Picture]]:
    """Key, title, caption and picture of everything that can be drawn, in the order of the page."""
    first = first_judged(row.metric for row in rows)
    done = [record for record in records if record["status"] == "done"]
    ranking = None if first is None else rank_models(done, first)
    if ranking is not None:
        picture = CriticalDifference(tuple(ranking.models), ranking.ranks, ranking.distance)
        caption = (
            f"Mean rank by {first} over {ranking.blocks} {ranking.over}; the best is on the left. Bars join models "
            "whose ranks differ by less than Nemenyi's critical difference. Only seeds that every model has count; a "
            "model without a single result is not ranked."
            + (" Seeds of one graph say something about this graph alone." if ranking.over == "seeds" else "")
        )
        yield "ranking", f"Ranks by {first}", caption, picture
    for dataset in dict.fromkeys(row.dataset for row in rows):
        own = [record for record in records if record["cell"]["dataset"] == dataset]
        yield from _of_the_task(task, own, dataset)
    drawn = list(dict.fromkeys((row.dataset, row.metric) for row in rows if row.mean is not None))
    for place, (dataset, metric) in enumerate(drawn[:MOST_METRIC_FIGURES]):
        title = f"{metric} on {shown_graph(dataset)}"
        caption = "Grey dots are runs; diamonds are means with their 95 % intervals."
        yield f"metric-{place}", title, caption, MetricIntervals.of(records, rows, dataset, metric)


def _of_the_task(task: str, records: Records, dataset: str) -> Iterator[tuple[str, str, str, Picture]]:
    graph = shown_graph(dataset)
    done = [record for record in records if record["status"] == "done"]
    if not done:
        return
    for x, y, x_label, y_label, percent in SERIES.get(task, ()):
        curves = gather(done, x, y, "")
        if curves:
            yield f"{y}-{graph}", f"{y_label} on {graph}", BAND, Curves(curves, x_label, y_label, percent)
    if task == "cost" and any("epoch_seconds" in record["metrics"] for record in done):
        yield f"cost-{graph}", f"What systems cost on {graph}", "Medians over seeds.", CostPanel.of(done, dataset)
    if task == "entropies":
        caption = "Counts are added up over seeds; a title says how much more entropy the hatched group has on average."
        yield f"entropy-{graph}", f"Entropy of two groups of nodes on {graph}", caption, EntropyByModel.of(done)
    if task == "dynamics":
        caption = "Dots are nodes, arrows the mean drift of those in a cell, tints its size; of the first seed."
        yield f"portrait-{graph}", f"Latent states on {graph}", caption, PhasePortrait.of(done)


LEGEND = (
    "Mean and standard deviation over n runs, with the bootstrap interval of the mean. “best”: p < .05 against every "
    "rival (paired t-test on common seeds, Holm's correction). “tied”: not significantly different from the "
    "leader. “behind”: significantly worse. “too few”: fewer than two runs in common with it."
)
MOST_FAILURES = 200


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


def render_bench_report(question: Mapping[str, Any], records: Records, out: str) -> str:
    """One HTML document about the cells of a bench.

    Args:
        question: ``task`` and ``options``.
        records: of its journal, at least one.
        out: the folder, for the commands.
    """
    if not records:
        raise BadInput("there are no finished cells to report on", code="E-EMPTY", fix="run graphsde bench first")
    latest = list({record["id"]: record for record in records}.values())
    task, rows = str(question["task"]), compare(latest)
    values = {
        "title": f"bench: {task}",
        "verdict": leaders(rows),
        "facts": _facts(question, latest),
        "legend": LEGEND,
        "tables": _tables(rows),
        "figures": [block(*drawn) for drawn in bench_pictures(task, latest, rows)],
        "failures": _failures(latest),
        "commands": bench_commands(question, latest, out),
    }
    return render_page("bench.html", values)


def leaders(rows: Sequence[Row]) -> str:
    """Who leads by the first metric that can be judged on each graph, and whether that is more than chance."""
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
        return f"; {', '.join(tied[:3])}{more} {'are' if len(tied) > 1 else 'is'} statistically tied with it."
    if all(row.verdict == "behind" for row in rivals):
        return ", significantly better than every rival that has results."
    return "; there are too few runs for a test."


def shown_graph(dataset: str) -> str:
    return name(Path(dataset).name or dataset, 40)


def _spread(row: Row) -> str:
    std = "" if row.std is None else f" ± {number(row.std)}"
    return f"{number(row.mean)}{std}, n = {row.n}"


def _facts(question: Mapping[str, Any], records: Records) -> list[tuple[str, str]]:
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


def _tables(rows: Sequence[Row]) -> list[dict[str, Any]]:
    tables: dict[tuple[str, str], list[dict[str, str]]] = {}
    for row in rows:
        tables.setdefault((row.dataset, row.metric), []).append(_shown(row))
    return [
        {"dataset": shown_graph(dataset), "metric": name(metric), "direction": in_words(metric), "rows": lines}
        for (dataset, metric), lines in tables.items()
    ]


def _shown(row: Row) -> dict[str, str]:
    """One line of a table, every entry ready to be printed."""
    interval = NOTHING if row.ci_low is None else f"{number(row.ci_low, 4)} to {number(row.ci_high, 4)}"
    causes = ", ".join(f"{times} × {name(cause, 40)}" for cause, times in row.causes.items())
    return {
        "model": name(row.model, 80),
        "mean": number(row.mean, 4),
        "std": number(row.std, 4),
        "n": str(row.n),
        "interval": interval,
        "verdict": row.verdict,
        "failed": causes or "0",
        "kind": "leading" if row.verdict in LEADING else "",
    }


def _failures(records: Records) -> list[dict[str, str]]:
    found: dict[tuple[str, str, str], list[int]] = {}
    for record in records:
        if record["status"] != "done":
            cell = Cell(**record["cell"])
            key = (shown_graph(cell.dataset), name(cell.label, 80), name(record.get("cause") or "unknown", 300))
            found.setdefault(key, []).append(cell.seed)
    lines = [
        (*who, ", ".join(str(seed) for seed in sorted(set(seeds))), cause) for (*who, cause), seeds in found.items()
    ]
    shown = lines[:MOST_FAILURES]
    if len(lines) > MOST_FAILURES:
        shown.append(("…", "…", "…", f"and {count(len(lines) - MOST_FAILURES, 'line')} more"))
    return [dict(zip(("dataset", "model", "seeds", "cause"), line, strict=True)) for line in shown]
