"""What a figure shows, without a drawing library: panels with lines, bars, dots, arrows. Both versions use it.

Names in a chart are untrusted plain text; both versions escape them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from graphsde.view.figures.style import BLUE, GREY, Dash, Symbol

Values = np.ndarray | Sequence[float]


@dataclass(frozen=True)
class Axis:
    """One axis.

    Args:
        label: what is on it.
        unit: written after every number, such as " %".
        log: logarithmic.
        limits: both ends; from the data by default.
        zero: starts at zero.
        grid: has lines across the panel.
        names: of the positions 0, 1, …; for systems or other things that have no number.
        hidden: nothing of it is drawn.
        slanted: names are written at an angle, so that long ones fit below each other.
    """

    label: str = ""
    unit: str = ""
    log: bool = False
    limits: tuple[float, float] | None = None
    zero: bool = False
    grid: bool = True
    names: tuple[str, ...] = ()
    hidden: bool = False
    slanted: bool = False


@dataclass(frozen=True, eq=False)
class Line:
    """A curve, with a band from ``low`` to ``high`` around it where given; ``dots`` marks its points, of many a few."""

    name: str
    x: Values
    y: Values
    colour: str = BLUE
    dash: Dash = "solid"
    width: float = 2.0
    dots: bool = False
    symbol: Symbol = "circle"
    low: Values | None = None
    high: Values | None = None
    opacity: float = 1.0
    band_opacity: float = 0.18
    legend: bool = True
    group: str = ""
    hover: str | None = "%{x:.4g}: %{y:.4g}"


@dataclass(frozen=True, eq=False)
class Bars:
    """Bars of one width around ``x``; ``horizontal`` ones lie at the heights ``x``; ``labels`` stand at their ends."""

    name: str
    x: Values
    y: Values
    width: float
    colour: str = BLUE
    pattern: str = ""
    opacity: float = 0.8
    horizontal: bool = False
    labels: Sequence[str] | None = None
    details: Sequence[Any] | None = None
    legend: bool = True
    hover: str = "%{x:.4g}: %{y:.4g}"


@dataclass(frozen=True, eq=False)
class Dots:
    """Points; coloured by ``values`` on a scale from light to dark where given, with whiskers of either direction."""

    name: str
    x: Values
    y: Values
    colour: str = BLUE
    symbol: Symbol = "circle"
    filled: bool = True
    size: float = 6.0
    opacity: float = 0.8
    values: Values | None = None
    value_name: str = ""
    value_limits: tuple[float, float] | None = None
    texts: Sequence[str] | None = None
    x_low: Values | None = None
    x_high: Values | None = None
    y_low: Values | None = None
    y_high: Values | None = None
    legend: bool = True
    hover: str = "%{x:.4g}, %{y:.4g}"


@dataclass(frozen=True, eq=False)
class Arrows:
    """From ``(x, y)`` by ``(dx, dy)``, in the units of the axes."""

    name: str
    x: Values
    y: Values
    dx: Values
    dy: Values
    colour: str = GREY
    width: float = 1.2


@dataclass(frozen=True, eq=False)
class Tiles:
    """Rectangles of a regular grid, tinted by ``values``; NaN stays empty.  # x [m], y [n] centres, values [n, m]

    ``colours`` are those of the lowest and the highest value, with their opacity; ``limits`` are these two values
    where they are not those of the data.
    """

    name: str
    x: np.ndarray
    y: np.ndarray
    values: np.ndarray
    colours: tuple[tuple[str, float], tuple[str, float]] = ((GREY, 0.06), (GREY, 0.55))
    limits: tuple[float, float] | None = None


@dataclass(frozen=True, eq=False)
class Segments:
    """Straight lines without a legend, such as edges.  # starts and ends [n, 2]"""

    starts: np.ndarray
    ends: np.ndarray
    colour: str = GREY
    width: float = 0.6
    opacity: float = 0.5


@dataclass(frozen=True)
class Words:
    """A text inside a panel, to the ``side`` of a point."""

    x: float
    y: float
    text: str
    side: Literal["left", "right", "middle"] = "middle"
    above: bool = False


Mark = Line | Bars | Dots | Arrows | Tiles | Segments | Words


@dataclass(frozen=True)
class Panel:
    """One pair of axes; ``equal`` gives both the same scale."""

    x: Axis
    y: Axis
    marks: tuple[Mark, ...]
    title: str = ""
    equal: bool = False


@dataclass(frozen=True)
class Chart:
    """Panels in rows.

    Args:
        panels: from left to right, row by row.
        across: panels in a row on paper.
        page_across: the same on a page; default one, since phones are narrow.
        size: of one panel on paper, in inches.
        page_height: of one row on a page, in pixels.
        heights: of the rows, relative to each other.
        shared_x: rows below each other have one x axis.
        legend: whether there is one.
        title: above everything.
    """

    panels: tuple[Panel, ...]
    across: int = 1
    page_across: int = 1
    size: tuple[float, float] = (4.6, 3.2)
    page_height: int = 360
    heights: tuple[float, ...] = ()
    shared_x: bool = False
    legend: bool = True
    title: str = ""

    def legend_names(self) -> list[str]:
        """The legend's entries, each name once; empty if there is no legend."""
        marks = (mark for panel in self.panels for mark in panel.marks if self.legend)
        return list(dict.fromkeys(mark.name for mark in marks if isinstance(mark, Line | Bars | Dots) and mark.legend))

    def columns(self) -> dict[str, list[Any]]:
        """Everything drawn as one long table: a row for every point of every series."""
        rows: list[dict[str, Any]] = []
        for place, panel in enumerate(self.panels):
            where = {"panel": place + 1, "title": panel.title}
            for mark in panel.marks:
                rows += [{**where, **row} for row in _rows(mark, panel)]
        return {name: [row.get(name) for row in rows] for name in COLUMNS}


COLUMNS = ("panel", "title", "series", "kind", "x", "y", "x_low", "x_high", "y_low", "y_high", "value", "text")


def _rows(mark: Mark, panel: Panel) -> list[dict[str, Any]]:
    if isinstance(mark, Words):
        return []
    if isinstance(mark, Segments):
        ends = np.hstack([mark.starts, mark.ends])
        return [_row("", "segment", x=a, y=b, x_high=c, y_high=d) for a, b, c, d in ends]
    if isinstance(mark, Tiles):
        return [
            _row(mark.name, "tile", x=x, y=y, value=mark.values[row, column])
            for row, y in enumerate(mark.y)
            for column, x in enumerate(mark.x)
            if np.isfinite(mark.values[row, column])
        ]
    kind = type(mark).__name__.lower().rstrip("s")
    fields: dict[str, Any] = {"x": mark.x, "y": mark.y}
    texts: Sequence[Any] | None = None
    if isinstance(mark, Line):
        fields |= {"y_low": mark.low, "y_high": mark.high}
    elif isinstance(mark, Arrows):
        fields |= {"x_high": np.asarray(mark.x) + np.asarray(mark.dx), "y_high": np.asarray(mark.y) + mark.dy}
    elif isinstance(mark, Dots):
        fields |= {"x_low": mark.x_low, "x_high": mark.x_high, "y_low": mark.y_low, "y_high": mark.y_high}
        fields |= {"value": mark.values}
        texts = mark.texts
    if texts is None and panel.y.names and (not isinstance(mark, Bars) or mark.horizontal):
        texts = [panel.y.names[round(float(v))] for v in (mark.x if isinstance(mark, Bars) else mark.y)]
    names = [None] * len(mark.x) if texts is None else [str(text) for text in texts]
    known = {name: values for name, values in fields.items() if values is not None}
    return [
        _row(mark.name, kind, text=names[place], **{name: values[place] for name, values in known.items()})
        for place in range(len(mark.x))
    ]


def _row(series: str, kind: str, text: str | None = None, **numbers: Any) -> dict[str, Any]:
    plain = {name: float(value) if np.isfinite(value) else None for name, value in numbers.items()}
    return {"series": series, "kind": kind, "text": text, **plain}
