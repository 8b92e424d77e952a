"""Ours against the paper's: one dot per figure, on the diagonal where both agree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from graphsde.runs.reproduce import Beside
from graphsde.view.figures.palette import CLASS_COLOURS, GREY
from graphsde.view.figures.print_style import print_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MARKS = ("o", "s", "^", "D", "v", "P", "X")


def beside_paper(rows: Sequence[Beside]) -> Figure:
    """One panel per metric; colours are systems, marks are graphs; whiskers are one standard deviation."""
    shown = [row for row in rows if row.mean is not None and row.printed is not None]
    metrics = list(dict.fromkeys(row.metric for row in shown)) or ["nothing to show"]
    systems = list(dict.fromkeys(row.system for row in shown))
    graphs = list(dict.fromkeys(row.dataset for row in shown))
    with print_figure(3.1 * len(metrics) + 1.6, 3.3, ncols=len(metrics), squeeze=False) as (figure, axes):
        for ax, metric in zip(axes[0], metrics, strict=True):
            points = [row for row in shown if row.metric == metric]
            for row in points:
                colour = CLASS_COLOURS[systems.index(row.system) % len(CLASS_COLOURS)]
                ax.errorbar(
                    row.printed,
                    row.mean,
                    xerr=row.printed_std,
                    yerr=row.std,
                    fmt=MARKS[graphs.index(row.dataset) % len(MARKS)],
                    color=colour,
                    ms=5,
                    lw=0.8,
                    alpha=0.9,
                )
            if points:
                values = [v for row in points for v in (row.printed, row.mean) if v is not None]
                ends = [min(values), max(values)]
                ax.plot(ends, ends, color=GREY, lw=1, ls="--", zorder=0)
            ax.set_title(metric)
            ax.set_xlabel("printed")
        axes[0][0].set_ylabel("ours")
        handles = [
            axes[0][0].plot([], [], "o", color=CLASS_COLOURS[i % len(CLASS_COLOURS)], label=name)[0]
            for i, name in enumerate(systems)
        ]
        handles += [
            axes[0][0].plot([], [], MARKS[i % len(MARKS)], color="black", label=name)[0]
            for i, name in enumerate(graphs)
        ]
        figure.legend(handles=handles, loc="outside right upper")
        return figure
