"""Many runs in one figure: ours against the paper's, cost, ranks, intervals, curves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphsde.bench.cells import Cell
from graphsde.bench.compare import Row, collect
from graphsde.bench.direction import in_words
from graphsde.bench.reproduce import Beside
from graphsde.bench.statistics import bootstrap_interval
from graphsde.view.figures.chart import Axis, Bars, Chart, Dots, Line, Mark, Panel, Symbol, Words
from graphsde.view.figures.picture import Picture
from graphsde.view.figures.style import (
    BLUE,
    GREEN,
    GREY,
    INK,
    LINE_COLOURS,
    NEUTRAL_INK,
    ORANGE,
    SYMBOLS,
    VERMILLION,
    look,
)


@dataclass(frozen=True, eq=False)
class Curve:
    """A system's mean over runs with the 95 % bootstrap interval of that mean; a single run has no band."""

    panel: str
    system: str
    x: np.ndarray
    mean: np.ndarray
    low: np.ndarray | None
    high: np.ndarray | None
    n: int


@dataclass(frozen=True, eq=False)
class Curves(Picture):
    """Panels of curves.

    Args:
        curves: in the order of the legend.
        x_label, y_label: of the axes.
        percent: values are shares.
    """

    curves: tuple[Curve, ...]
    x_label: str
    y_label: str
    percent: bool = False

    def chart(self) -> Chart:
        names = list(dict.fromkeys(curve.panel for curve in self.curves))
        systems = list(dict.fromkeys(curve.system for curve in self.curves))
        scale, unit = (100.0, " %") if self.percent else (1.0, "")
        # panels of one quantity are compared, so they share their limits
        seen = np.concatenate([v for c in self.curves for v in (c.mean, c.low, c.high) if v is not None])
        lowest, highest = float(np.nanmin(seen)), float(np.nanmax(seen))
        pad = 0.03 * (highest - lowest or 1.0)
        x = Axis(self.x_label, grid=False)
        y = Axis(self.y_label, unit, limits=(scale * (lowest - pad), scale * (highest + pad)))
        panels = []
        for name in names:
            own = (curve for curve in self.curves if curve.panel == name)
            lines = tuple(self._line(curve, systems.index(curve.system), scale, len(systems)) for curve in own)
            panels.append(Panel(x, y, lines, title=name))
        return Chart(tuple(panels), across=min(len(panels), 3), size=(3.8, 3.0), page_height=330)

    def _line(self, curve: Curve, place: int, scale: float, systems: int) -> Line:
        how = look(place)
        low, high = (None if end is None else scale * end for end in (curve.low, curve.high))
        return Line(
            curve.system, curve.x, scale * curve.mean, how.colour, how.dash, dots=True,
            symbol=how.symbol, low=low, high=high, band_opacity=0.15 if systems < 4 else 0.07,
            hover="%{x:.4g}: %{y:.3g}" + (" %" if self.percent else "") + f" (n = {curve.n})",
        )  # fmt: skip


def gather(records: Iterable[Mapping[str, Any]], x: str, y: str, panel: str) -> tuple[Curve, ...]:
    """Curves of one panel from the records of a journal: ``y`` over ``x``, mean and interval over seeds.

    Runs of one system whose ``x`` differ can't be averaged; those that differ from the first are left out.
    """
    found: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {}
    for record in records:
        series = record["curves"]
        if record["status"] == "done" and x in series and y in series:
            pair = (_floats(series[x]), _floats(series[y]))
            found.setdefault(Cell(**record["cell"]).label, []).append(pair)
    return tuple(_curve(panel, system, runs) for system, runs in found.items())


def _curve(panel: str, system: str, runs: Sequence[tuple[np.ndarray, np.ndarray]]) -> Curve:
    x = runs[0][0]
    values = np.stack([y for other, y in runs if np.array_equal(other, x, equal_nan=True)])  # [n, points]
    if len(values) == 1:
        return Curve(panel, system, x, values[0], None, None, 1)
    ends = np.array([bootstrap_interval(column.tolist()) for column in values.T])
    return Curve(panel, system, x, values.mean(axis=0), ends[:, 0], ends[:, 1], len(values))


def _floats(values: Sequence[float | None]) -> np.ndarray:
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)


# panels in a row, so that a page's width is enough for their words
ACROSS = 3


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
        systems = list(dict.fromkeys(row.model for row in self.rows))
        graphs = list(dict.fromkeys(row.dataset for row in self.rows))
        panels = []
        for place, metric in enumerate(metrics):
            own = [row for row in self.rows if row.metric == metric]
            values = [value for row in own for value in (row.printed, row.mean) if value is not None]
            marks: list[Mark] = []
            if values:
                ends = [min(values), max(values)]
                marks.append(Line("agreement", ends, ends, GREY, "dash", 1.3, hover=None))
            marks += [self._dot(row, systems.index(row.model), graphs.index(row.dataset)) for row in own]
            if place == 0:
                marks += self._keys(systems, graphs)
            panels.append(
                Panel(Axis("published"), Axis("ours" if place % ACROSS == 0 else ""), tuple(marks), title=metric)
            )
        return Chart(tuple(panels), across=min(len(panels), ACROSS), size=(3.3, 3.2))

    def _dot(self, row: Beside, system: int, graph: int) -> Dots:
        assert row.printed is not None and row.mean is not None
        colour, filled = _colour_and_filling(system)
        ours, theirs = row.std or 0.0, row.printed_std or 0.0
        return Dots(
            row.model, [row.printed], [row.mean], colour, SYMBOLS[graph % len(SYMBOLS)], filled, size=8.0,
            opacity=0.9, texts=[row.dataset], x_low=[row.printed - theirs], x_high=[row.printed + theirs],
            y_low=[row.mean - ours], y_high=[row.mean + ours], legend=False,
            hover="%{text}: published %{x:.4g}, ours %{y:.4g}",
        )  # fmt: skip

    def _keys(self, systems: list[str], graphs: list[str]) -> list[Mark]:
        """Legend entries for colours and shapes, as dots without a position."""
        nowhere = [np.nan]
        keys: list[Mark] = []
        for place, name in enumerate(systems):
            colour, filled = _colour_and_filling(place)
            keys.append(Dots(name, nowhere, nowhere, colour, "circle", filled, 8.0))
        if len(graphs) > 1:
            keys += [Dots(n, nowhere, nowhere, INK, SYMBOLS[i % len(SYMBOLS)], size=8.0) for i, n in enumerate(graphs)]
        return keys

    def columns(self) -> dict[str, list[Any]]:
        plain = [row.as_dict() for row in self.rows]
        return {name: [row[name] for row in plain] for name in plain[0]} if plain else {}


def _colour_and_filling(system: int) -> tuple[str, bool]:
    """Different for 18 systems: shapes are graphs, and by colour and filling alone only 16 ordinary looks differ."""
    how, plain = look(system), 2 * len(LINE_COLOURS)
    return (how.colour, how.filled) if system < plain else (GREY, system % 2 == 0)


def beside_picture(rows: Sequence[Beside]) -> Picture | None:
    """Ours and the published figures that can be compared with them: curves where a number was changed, else dots."""
    compared = [row for row in rows if row.agreement]
    if not compared:
        return None
    if all(_is_number(row.system) for row in compared):
        graphs = {row.dataset for row in compared}
        return _sweep([row for row in rows if row.dataset in graphs and row.mean is not None])
    return BesidePaper.of(compared)


def _is_number(text: str) -> bool:
    try:
        return np.isfinite(float(text))
    except ValueError:
        return False


def _sweep(rows: Sequence[Beside]) -> Curves:
    """Both figures over the number that was changed."""
    curves = []
    for panel in dict.fromkeys(row.dataset for row in rows):
        own = sorted((row for row in rows if row.dataset == panel), key=lambda row: float(row.system))
        x = np.array([float(row.system) for row in own])
        low, high = (_floats([getattr(row, end) for row in own]) for end in ("ci_low", "ci_high"))
        curves.append(Curve(panel, "ours", x, _floats([row.mean for row in own]), low, high, own[0].n))
        curves.append(Curve(panel, "published", x, _floats([row.printed for row in own]), None, None, 1))
    return Curves(tuple(curves), rows[0].table.replace("-", " "), rows[0].metric.replace("-", " "))


# metric, title, axis, scale, colour
QUANTITIES = (
    ("epoch_seconds", "one epoch", "CPU seconds", 1.0, BLUE),
    ("predict_seconds", "one prediction", "CPU seconds", 1.0, ORANGE),
    ("peak_bytes", "memory above the start", "MB", 1e-6, GREEN),
)


@dataclass(frozen=True, eq=False)
class CostPanel(Picture):
    """Medians over seeds, on logarithmic axes, cheapest first.

    Args:
        systems: from cheap to expensive.
        values: by quantity, NaN where not measured.  # [systems] each
    """

    systems: tuple[str, ...]
    values: dict[str, np.ndarray]

    @classmethod
    def of(cls, records: Iterable[Mapping[str, Any]], dataset: str) -> CostPanel:
        """From cells of the task ``cost`` on one graph."""
        runs = collect(records).get(dataset, {})
        known = {name: found for name, found in runs.items() if found.values}

        def median(system: str, key: str) -> float:
            values = [run.get(key, np.nan) for run in known[system].values.values()]
            return float(np.nanmedian(values)) if not np.isnan(values).all() else float("nan")

        systems = sorted(known, key=lambda system: median(system, "epoch_seconds"))
        return cls(tuple(systems), {key: np.array([median(name, key) for name in systems]) for key, *_ in QUANTITIES})

    def chart(self) -> Chart:
        names, places = tuple(reversed(self.systems)), np.arange(len(self.systems))
        panels = []
        for place, (key, title, unit, scale, colour) in enumerate(QUANTITIES):
            values = scale * self.values[key][::-1]
            shown = np.isfinite(values) & (values > 0)
            labels = [f"{value:,.0f}" if value >= 100 else f"{value:.3g}" for value in values[shown]]
            bars = Bars(
                title, places[shown], values[shown], 0.7, colour, horizontal=True, labels=labels, legend=False,
                hover="%{x:.3g}",
            )  # fmt: skip
            low, high = (values[shown].min(), values[shown].max()) if shown.any() else (1.0, 10.0)
            limits = float(10 ** np.floor(np.log10(low) - 0.01)), float(float(high) * (high / low) ** 0.25 * 1.6)
            y = Axis(names=names if place == 0 else ("",) * len(names), grid=False)
            panels.append(Panel(Axis(unit, log=True, limits=limits), y, (bars,), title=title))
        height = 0.9 + 0.22 * len(names)
        return Chart(tuple(panels), across=3, size=(3.2, height), page_height=90 + 24 * len(names), legend=False)

    def columns(self) -> dict[str, list[Any]]:
        plain = {key: [v if np.isfinite(v) else None for v in values.tolist()] for key, values in self.values.items()}
        return {"system": list(self.systems)} | plain


@dataclass(frozen=True, eq=False)
class CriticalDifference(Picture):
    """Demšar's diagram: models on a line by mean rank, best on the left, thick bars over groups within ``distance``.

    Args:
        names, ranks: of the models.
        distance: the critical difference of mean ranks.
        title: above the figure.
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
            marks.append(Line("statistically tied", ends, [y, y], BLUE, width=5.0, legend=False, hover=None))
        shown = min(self.distance, span)  # over few graphs it is longer than all ranks
        marks.append(_stroke([low, low + shown], [1.15, 1.15], 1.6))
        marks.append(Words(low + shown / 2, 1.22, f"critical difference {self.distance:.2f}", above=True))
        room = (0.045 * (max(len(name) for name in self.names) + 6) + 0.1) * span  # for names, on a phone too
        x = Axis(limits=(low - room, high + room), hidden=True, grid=False)
        y_axis = Axis(limits=(-half - 0.7, 2.0), hidden=True, grid=False)
        panel, lines = Panel(x, y_axis, tuple(marks), title=self.title), half + 2
        return Chart((panel,), size=(6.8, 1.3 + 0.24 * lines), page_height=150 + 30 * lines, legend=False)

    def columns(self) -> dict[str, list[Any]]:
        order = np.argsort(self.ranks, kind="stable")
        return {
            "model": [self.names[index] for index in order],
            "mean_rank": self.ranks[order].tolist(),
            "critical_difference": [self.distance] * len(order),
        }


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
    return Line("", x, y, NEUTRAL_INK, width=width, legend=False, hover=None)


NOT_JUDGED = "not judged"
LEADING = ("best", "tied", "only")


@dataclass(frozen=True, eq=False)
class MetricIntervals(Picture):
    """Systems in rows, best on top; grey dots are runs, the diamond is their mean with its 95 % interval.

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
        """From the records of a bench and the result of ``compare``."""
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
        behind = [row for row in shown if row.verdict not in (*LEADING, NOT_JUDGED)]
        groups: tuple[tuple[str, str, Symbol, list[Row]], ...] = (
            ("mean, best or statistically tied", BLUE, "diamond", [row for row in shown if row.verdict in LEADING]),
            ("mean", BLUE, "diamond", [row for row in shown if row.verdict == NOT_JUDGED]),
            ("mean, behind or too few runs", VERMILLION, "square", behind),
        )
        for name, colour, symbol, own in groups:
            if own:
                means = [row.mean for row in own if row.mean is not None]
                low, high = _floats([row.ci_low for row in own]), _floats([row.ci_high for row in own])
                marks.append(
                    Dots(
                        name, means, [place[row.model] for row in own], colour, symbol, size=8.0, opacity=1.0,
                        x_low=low, x_high=high, hover="mean %{x:.4g}",
                    )
                )  # fmt: skip
        names = tuple(row.model for row in shown)
        y_axis = Axis(names=names, limits=(-0.6, len(names) - 0.4), grid=False)
        panel = Panel(Axis(f"{self.metric} ({in_words(self.metric)})"), y_axis, tuple(marks))
        return Chart((panel,), size=(6.0, 0.9 + 0.24 * len(names)), page_height=130 + 26 * len(names))
