"""Ours against the paper's: one dot per figure, on the diagonal where both agree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from graphsde.runs.reproduce import Beside
from graphsde.view.figures.chart import SYMBOLS, Axis, Chart, Dots, Line, Mark, Panel
from graphsde.view.figures.looks import look
from graphsde.view.figures.palette import GREY
from graphsde.view.figures.picture import Picture

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INK = "#3f4650"


@dataclass(frozen=True, eq=False)
class BesidePaper(Picture):
    """One panel per metric; colour and filling are systems, shapes are graphs; whiskers are one standard deviation."""

    rows: tuple[Beside, ...]

    @classmethod
    def of(cls, rows: Sequence[Beside]) -> BesidePaper:
        """From rows of a table; those without a pair are left out."""
        return cls(tuple(row for row in rows if row.mean is not None and row.printed is not None))

    def chart(self) -> Chart:
        metrics = list(dict.fromkeys(row.metric for row in self.rows)) or ["nothing to show"]
        systems = list(dict.fromkeys(row.system for row in self.rows))
        graphs = list(dict.fromkeys(row.dataset for row in self.rows))
        panels = []
        for place, metric in enumerate(metrics):
            own = [row for row in self.rows if row.metric == metric]
            values = [value for row in own for value in (row.printed, row.mean) if value is not None]
            marks: list[Mark] = []
            if values:
                ends = [min(values), max(values)]
                marks.append(Line("agreement", ends, ends, GREY, "dash", 1.3, hover=None))
            marks += [self._dot(row, systems.index(row.system), graphs.index(row.dataset)) for row in own]
            if place == 0:
                marks += self._keys(systems, graphs)
            marks_y = "ours" if place == 0 else ""
            panels.append(Panel(Axis("printed"), Axis(marks_y), tuple(marks), title=metric))
        return Chart(tuple(panels), across=len(panels), size=(3.3, 3.2), page_height=360)

    def _dot(self, row: Beside, system: int, graph: int) -> Dots:
        assert row.printed is not None and row.mean is not None
        how = look(system)
        ours, theirs = row.std or 0.0, row.printed_std or 0.0
        return Dots(
            row.system,
            [row.printed],
            [row.mean],
            how.colour,
            SYMBOLS[graph % len(SYMBOLS)],
            how.filled,
            size=8.0,
            opacity=0.9,
            texts=[row.dataset],
            x_low=[row.printed - theirs],
            x_high=[row.printed + theirs],
            y_low=[row.mean - ours],
            y_high=[row.mean + ours],
            legend=False,
            hover="%{text}: printed %{x:.4g}, ours %{y:.4g}",
        )

    def _keys(self, systems: list[str], graphs: list[str]) -> list[Mark]:
        """What colours and shapes mean, as dots that are nowhere."""
        nowhere = [np.nan]
        keys: list[Mark] = []
        for place, name in enumerate(systems):
            how = look(place)
            keys.append(Dots(name, nowhere, nowhere, how.colour, "circle", how.filled, 8.0))
        if len(graphs) > 1:
            keys += [Dots(n, nowhere, nowhere, INK, SYMBOLS[i % len(SYMBOLS)], size=8.0) for i, n in enumerate(graphs)]
        return keys

    def columns(self) -> dict[str, list[Any]]:
        plain = [row.as_dict() for row in self.rows]
        return {name: [row[name] for row in plain] for name in plain[0]} if plain else {}


def beside_paper(rows: Sequence[Beside]) -> Figure:
    """The picture on paper."""
    return BesidePaper.of(rows).matplotlib()
