"""The figures of a bench: one per metric and graph, the ranking, and what the task has of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from graphsde.runs.compare import Row
from graphsde.runs.direction import first_judged
from graphsde.runs.ranking import rank_models
from graphsde.view.figures.cost_panel import CostPanel
from graphsde.view.figures.critical_difference import CriticalDifference
from graphsde.view.figures.curves import Curves, gather
from graphsde.view.figures.entropy_by_model import EntropyByModel
from graphsde.view.figures.metric_intervals import MetricIntervals
from graphsde.view.figures.phase_portrait import PhasePortrait
from graphsde.view.figures.picture import Picture
from graphsde.view.report.figure_blocks import FigureBlock, block
from graphsde.view.report.formatting import name

Records = Sequence[Mapping[str, Any]]
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
        title = f"{metric} on {_graph(dataset)}"
        caption = "Grey dots are runs; diamonds are means with their 95 % intervals."
        yield f"metric-{place}", title, caption, MetricIntervals.of(records, rows, dataset, metric)


def bench_figures(task: str, records: Records, rows: Sequence[Row]) -> list[FigureBlock]:
    """The same as blocks of the page."""
    return [
        block(key, title, caption, picture.plotly())
        for key, title, caption, picture in bench_pictures(task, records, rows)
    ]


def _of_the_task(task: str, records: Records, dataset: str) -> Iterator[tuple[str, str, str, Picture]]:
    graph = _graph(dataset)
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


def _graph(dataset: str) -> str:
    return name(dataset.rstrip("/").rpartition("/")[2] or dataset, 40)
