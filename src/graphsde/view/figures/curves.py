"""Curves over seeds with their bands: active learning, noisy features, anything that a task records as a series."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphsde.runs.cells import Cell
from graphsde.runs.statistics import bootstrap_interval
from graphsde.view.figures.chart import Axis, Chart, Line, Panel
from graphsde.view.figures.looks import look
from graphsde.view.figures.picture import Picture


@dataclass(frozen=True, eq=False)
class Curve:
    """A system's mean over runs with the 95 % bootstrap interval of that mean; of a single run there is no band."""

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
        # panels of one quantity are read against each other, so they end alike
        seen = np.concatenate([v for c in self.curves for v in (c.mean, c.low, c.high) if v is not None])
        pad = 0.03 * (float(np.nanmax(seen)) - float(np.nanmin(seen)) or 1.0)
        limits = (scale * (float(np.nanmin(seen)) - pad), scale * (float(np.nanmax(seen)) + pad))
        panels = []
        for name in names:
            lines = tuple(
                self._line(curve, systems.index(curve.system), scale) for curve in self.curves if curve.panel == name
            )
            panels.append(
                Panel(Axis(self.x_label, grid=False), Axis(self.y_label, unit, limits=limits), lines, title=name)
            )
        return Chart(tuple(panels), across=min(len(panels), 3), size=(3.8, 3.0), page_height=330)

    def _line(self, curve: Curve, place: int, scale: float) -> Line:
        how = look(place)
        low = None if curve.low is None else scale * curve.low
        high = None if curve.high is None else scale * curve.high
        return Line(
            curve.system,
            curve.x,
            scale * curve.mean,
            how.colour,
            how.dash,
            dots=len(curve.x) <= 12,
            symbol=how.symbol,
            low=low,
            high=high,
            band_opacity=0.15,
            hover="%{x:.4g}: %{y:.3g}" + (" %" if self.percent else "") + f" (n = {curve.n})",
        )


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
