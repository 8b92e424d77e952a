"""Mean ranks of models over many runs, with bars over those that can't be told apart."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphsde.view.figures.palette import BLUE
from graphsde.view.figures.print_style import print_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def critical_difference_diagram(names: list[str], ranks: np.ndarray, distance: float, title: str = "") -> Figure:
    """Demšar's diagram: models on a line by mean rank, best on the left, thick bars over groups within ``distance``.

    Args:
        names, ranks: of the models.
        distance: the critical difference of mean ranks.
        title: above the picture.
    """
    order = np.argsort(ranks, kind="stable")
    count = len(names)
    rows = (count + 1) // 2
    with print_figure(6.5, 1.3 + 0.24 * (rows + 2)) as (figure, ax):
        low, high = 1.0, float(max(count, 2))
        ax.set_xlim(low - 0.35 * (high - low), high + 0.35 * (high - low))
        ax.set_ylim(-rows - 0.8, 1.9)
        ax.axis("off")
        ax.plot([low, high], [0, 0], color="black", lw=1)
        for tick in range(1, count + 1):
            ax.plot([tick, tick], [0, 0.12], color="black", lw=1)
            ax.text(tick, 0.2, str(tick), ha="center", va="bottom", fontsize=8)
        for position, index in enumerate(order):
            left = position < rows
            level = -(position + 1 if left else count - position)
            edge = low - 0.05 * (high - low) if left else high + 0.05 * (high - low)
            ax.plot([ranks[index], ranks[index], edge], [0, level, level], color="black", lw=0.8)
            text = f"{names[index]}  {ranks[index]:.2f}" if left else f"{ranks[index]:.2f}  {names[index]}"
            ax.text(
                edge, level, f"{text} " if left else f" {text}", ha="right" if left else "left", va="center", fontsize=8
            )
        for bar, (first, last) in enumerate(groups(np.sort(ranks), distance)):
            y = -0.28 - 0.22 * (bar % 3)
            ends = np.sort(ranks)[[first, last]]
            ax.plot(ends + np.array([-0.03, 0.03]), [y, y], color=BLUE, lw=4, solid_capstyle="butt")
        ax.plot([low, low + distance], [1.15, 1.15], color="black", lw=1.2)
        ax.text(low + distance / 2, 1.22, f"critical difference {distance:.2f}", ha="center", va="bottom", fontsize=8)
        if title:
            ax.set_title(title, fontsize=9)
        return figure


def groups(ordered: np.ndarray, distance: float) -> list[tuple[int, int]]:
    """Largest runs of models whose mean ranks are within ``distance``, as first and last position."""
    found: list[tuple[int, int]] = []
    for first in range(len(ordered)):
        last = int(np.searchsorted(ordered, ordered[first] + distance, side="right")) - 1
        if last > first and (not found or last > found[-1][1]):
            found.append((first, last))
    return found
