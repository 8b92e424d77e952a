"""Mean ranks of models over many runs, with bars over those that can't be told apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from graphsde.view.figures.chart import Axis, Chart, Line, Mark, Panel, Words
from graphsde.view.figures.palette import BLUE
from graphsde.view.figures.picture import Picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INK = "#767b84"


@dataclass(frozen=True, eq=False)
class CriticalDifference(Picture):
    """Demšar's diagram: models on a line by mean rank, best on the left, thick bars over groups within ``distance``.

    Args:
        names, ranks: of the models.
        distance: the critical difference of mean ranks.
        title: above the picture.
    """

    names: tuple[str, ...]
    ranks: np.ndarray
    distance: float
    title: str = ""

    def chart(self) -> Chart:
        order = np.argsort(self.ranks, kind="stable")
        count, half = len(self.names), (len(self.names) + 1) // 2
        low, high = 1.0, float(max(count, 2))
        span = high - low
        marks: list[Mark] = [_stroke([low, high], [0.0, 0.0], 1.4)]
        for tick in range(1, count + 1):
            marks += [_stroke([tick, tick], [0.0, 0.14], 1.4), Words(tick, 0.2, str(tick), above=True)]
        for position, index in enumerate(order):
            left, rank = position < half, float(self.ranks[index])
            level = -0.9 - float(position if left else count - 1 - position)
            edge = low - 0.05 * span if left else high + 0.05 * span
            marks.append(_stroke([rank, rank, edge], [0.0, level, level], 1.1))
            words = f"{self.names[index]}  {rank:.2f}" if left else f"{rank:.2f}  {self.names[index]}"
            marks.append(Words(edge, level, f"{words} " if left else f" {words}", "left" if left else "right"))
        ordered = np.sort(self.ranks)
        alike = groups(ordered, self.distance)
        levels = bar_levels(alike)
        apart = min(0.2, 0.5 / max([1, *levels]))
        for level, (first, last) in zip(levels, alike, strict=True):
            y, ends = -0.25 - apart * level, ordered[[first, last]] + np.array([-0.01, 0.01]) * span
            marks.append(Line("not told apart", ends, [y, y], BLUE, width=5.0, legend=False, hover=None))
        shown = min(self.distance, span)  # over few graphs it is longer than all ranks
        marks.append(_stroke([low, low + shown], [1.15, 1.15], 1.6))
        marks.append(Words(low + shown / 2, 1.22, f"critical difference {self.distance:.2f}", above=True))
        room = (0.045 * (max(len(name) for name in self.names) + 6) + 0.1) * span  # for names, on a phone too
        x = Axis(limits=(low - room, high + room), hidden=True, grid=False)
        y_axis = Axis(limits=(-half - 0.7, 2.0), hidden=True, grid=False)
        return Chart(
            (Panel(x, y_axis, tuple(marks), title=self.title),),
            size=(6.8, 1.3 + 0.24 * (half + 2)),
            page_height=int(150 + 30 * (half + 2)),
            legend=False,
        )

    def columns(self) -> dict[str, list[Any]]:
        order = np.argsort(self.ranks, kind="stable")
        return {
            "model": [self.names[index] for index in order],
            "mean_rank": self.ranks[order].tolist(),
            "critical_difference": [self.distance] * len(order),
        }


def critical_difference_diagram(names: list[str], ranks: np.ndarray, distance: float, title: str = "") -> Figure:
    """The diagram on paper; see :class:`CriticalDifference`."""
    return CriticalDifference(tuple(names), np.asarray(ranks, dtype=np.float64), distance, title).matplotlib()


def groups(ordered: np.ndarray, distance: float) -> list[tuple[int, int]]:
    """Largest runs of models whose mean ranks are within ``distance``, as first and last position."""
    found: list[tuple[int, int]] = []
    for first in range(len(ordered)):
        last = int(np.searchsorted(ordered, ordered[first] + distance, side="right")) - 1
        if last > first and (not found or last > found[-1][1]):
            found.append((first, last))
    return found


def bar_levels(found: list[tuple[int, int]]) -> list[int]:
    """A height for each bar, from 0 down: those that share a model never share a height, or two would look like one.

    Example:
        >>> bar_levels([(0, 3), (2, 5), (4, 6)])
        [0, 1, 0]
    """
    ends: list[int] = []
    levels = []
    for first, last in found:
        level = next((k for k, end in enumerate(ends) if end < first), len(ends))
        ends[level : level + 1] = [last]
        levels.append(level)
    return levels


def _stroke(x: list[float], y: list[float], width: float) -> Line:
    return Line("", x, y, INK, width=width, legend=False, hover=None)
