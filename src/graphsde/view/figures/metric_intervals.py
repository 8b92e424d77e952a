"""One metric of many systems: mean, interval, and every single run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphsde.runs.compare import Row, collect
from graphsde.runs.direction import in_words
from graphsde.view.figures.chart import Axis, Chart, Dots, Panel
from graphsde.view.figures.palette import BLUE, GREY, VERMILLION
from graphsde.view.figures.picture import Picture

NOT_JUDGED = "not judged"
LEADING = ("best", "tied", "only")


@dataclass(frozen=True, eq=False)
class MetricIntervals(Picture):
    """Systems below each other, best on top; grey dots are runs, the diamond is their mean with its 95 % interval.

    Args:
        metric: its name.
        rows: of one graph under this metric, best first.
        runs: single values by system.
    """

    metric: str
    rows: tuple[Row, ...]
    runs: dict[str, np.ndarray]

    @classmethod
    def of(
        cls, records: Iterable[Mapping[str, Any]], rows: Sequence[Row], dataset: str, metric: str
    ) -> MetricIntervals:
        """From the records of a bench and what ``compare`` says of them."""
        found = collect(records)[dataset]
        own = tuple(row for row in rows if (row.dataset, row.metric) == (dataset, metric) and row.mean is not None)
        runs = {
            row.model: np.array([run[metric] for run in found[row.model].values.values() if metric in run])
            for row in own
        }
        return cls(metric, own, {name: values[np.isfinite(values)] for name, values in runs.items()})

    def chart(self) -> Chart:
        shown = tuple(reversed(self.rows))  # the axis grows upwards
        place = {row.model: float(height) for height, row in enumerate(shown)}
        x = np.concatenate([self.runs[row.model] for row in shown]) if shown else np.zeros(0)
        y = np.concatenate([np.full(len(self.runs[row.model]), place[row.model]) for row in shown]) if shown else x
        marks = [Dots("one run", x, y, GREY, size=5.0, opacity=0.6, hover="%{x:.4g}")]
        for name, colour, own in (
            ("mean, not told from the best", BLUE, [row for row in shown if row.verdict in LEADING]),
            ("mean", BLUE, [row for row in shown if row.verdict == NOT_JUDGED]),
            ("mean, behind or too few runs", VERMILLION, [r for r in shown if r.verdict not in (*LEADING, NOT_JUDGED)]),
        ):
            if own:
                marks.append(
                    Dots(
                        name,
                        [row.mean for row in own if row.mean is not None],
                        [place[row.model] for row in own],
                        colour,
                        "diamond",
                        size=9.0,
                        opacity=1.0,
                        x_low=[row.ci_low if row.ci_low is not None else np.nan for row in own],
                        x_high=[row.ci_high if row.ci_high is not None else np.nan for row in own],
                        hover="mean %{x:.4g}",
                    )
                )
        names = tuple(row.model for row in shown)
        y_axis = Axis(names=names, limits=(-0.6, len(names) - 0.4), grid=False)
        return Chart(
            (Panel(Axis(f"{self.metric} ({in_words(self.metric)})"), y_axis, tuple(marks)),),
            size=(6.0, 0.9 + 0.24 * len(names)),
            page_height=130 + 26 * len(names),
        )
