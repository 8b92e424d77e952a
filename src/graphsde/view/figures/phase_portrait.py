"""Nodes on their way through latent space, and the field that moves them: the paper's figure 1, for several drifts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphsde.runs.cells import Cell
from graphsde.tasks.dynamics import MOMENTS, SHOWN_PATHS
from graphsde.view.figures.chart import SYMBOLS, Arrows, Axis, Chart, Dots, Line, Mark, Panel, Tiles
from graphsde.view.figures.palette import CLASS_COLOURS, PURPLE, class_colour
from graphsde.view.figures.picture import Picture

ARROW = 0.9  # the longest arrow, in cells
INK = "#3f4650"


@dataclass(frozen=True, eq=False)
class Moment:
    """Where nodes are at one time, and the mean drift in the cells of a grid.

    Args:
        time: t.
        x, y: positions.  # [n]
        cells: centres, drift and speed: ``x, y, dx, dy, speed``.  # [c] each
        size: of a cell.  # [2]
        separation: share of variance between classes.
    """

    time: float
    x: np.ndarray
    y: np.ndarray
    cells: dict[str, np.ndarray]
    size: np.ndarray
    separation: float


@dataclass(frozen=True, eq=False)
class Portrait:
    """One fitted equation: a node's paths, and all nodes at three times."""

    name: str
    times: np.ndarray
    paths: np.ndarray  # [S, M]
    band: tuple[np.ndarray, np.ndarray, np.ndarray]  # low, mean, high, [M] each
    classes: np.ndarray
    moments: tuple[Moment, ...]


@dataclass(frozen=True, eq=False)
class PhasePortrait(Picture):
    """A row for every equation: paths of one node, then nodes and drift at the beginning, the middle and the end."""

    portraits: tuple[Portrait, ...]

    @classmethod
    def of(cls, records: Iterable[Mapping[str, Any]]) -> PhasePortrait:
        """From cells of the task ``dynamics``, the first seed of each system."""
        found: dict[str, Mapping[str, Any]] = {}
        for record in records:
            if record["cell"]["task"] == "dynamics" and record["status"] == "done":
                found.setdefault(_name(Cell(**record["cell"])), record)
        return cls(tuple(_portrait(name, record) for name, record in found.items()))

    def chart(self) -> Chart:
        panels = []
        for portrait in self.portraits:
            panels.append(self._paths(portrait))
            ends = _limits(portrait)
            panels += [self._moment(portrait, moment, ends) for moment in portrait.moments]
        return Chart(tuple(panels), across=4, size=(2.9, 2.6), page_height=330)

    def _paths(self, portrait: Portrait) -> Panel:
        low, mean, high = portrait.band
        single = tuple(
            Line("a path", portrait.times, path, PURPLE, width=0.8, opacity=0.5, legend=False, hover=None)
            for path in portrait.paths
        )
        middle = Line(
            "mean of one node's paths, 90 % band", portrait.times, mean, PURPLE, width=2.5, low=low, high=high
        )
        return Panel(Axis("time t"), Axis("first direction"), (*single, middle), title=f"{portrait.name}: one node")

    def _moment(self, portrait: Portrait, moment: Moment, ends: tuple[tuple[float, float], ...]) -> Panel:
        cells = moment.cells
        longest = float(np.hypot(cells["dx"] / moment.size[0], cells["dy"] / moment.size[1]).max()) or 1.0
        marks: list[Mark] = [_tiles(moment)]
        for position in np.unique(portrait.classes).astype(int):
            own = portrait.classes == position
            marks.append(
                Dots(
                    f"class {position}",
                    moment.x[own],
                    moment.y[own],
                    class_colour(int(position)),
                    SYMBOLS[int(position) // len(CLASS_COLOURS) % len(SYMBOLS)],
                    size=4.0,
                    opacity=0.75,
                    hover=f"class {position}",
                )
            )
        marks.append(
            Arrows("drift", cells["x"], cells["y"], ARROW * cells["dx"] / longest, ARROW * cells["dy"] / longest, INK)
        )
        title = f"t = {moment.time:g}: {moment.separation:.0%} between classes"
        x, y = (Axis(name, limits=end, grid=False) for name, end in zip(("first", "second"), ends, strict=True))
        return Panel(x, y, tuple(marks), title=title)


def _name(cell: Cell) -> str:
    """The drift where the cell names one; the paper's network has a GCN without saying so."""
    drift = cell.settings.get("drift")
    if drift is None and cell.settings.get("preset") in ("paper", "released"):
        drift = "gcn"
    named = drift["name"] if isinstance(drift, dict) else drift
    return f"{str(named).upper()} drift" if named else cell.label


def _tiles(moment: Moment) -> Tiles:
    """Cells as a whole grid, empty where no node is."""
    step = moment.size
    places = [
        np.rint((moment.cells[key] - moment.cells[key].min()) / size).astype(int)
        for key, size in zip(("x", "y"), step, strict=True)
    ]
    values = np.full((places[1].max() + 1, places[0].max() + 1), np.nan)
    values[places[1], places[0]] = moment.cells["speed"]
    x = moment.cells["x"].min() + step[0] * np.arange(values.shape[1])
    y = moment.cells["y"].min() + step[1] * np.arange(values.shape[0])
    return Tiles("speed of the drift", x, y, values)


def _limits(portrait: Portrait) -> tuple[tuple[float, float], ...]:
    """One scale for the three times, the outermost hundredth of the nodes left outside."""
    ends = []
    for axis in ("x", "y"):
        values = np.concatenate([getattr(moment, axis) for moment in portrait.moments])
        low, high = np.percentile(values, [1, 99])
        pad = 0.08 * (high - low or 1.0)
        ends.append((float(low - pad), float(high + pad)))
    return tuple(ends)


def _portrait(name: str, record: Mapping[str, Any]) -> Portrait:
    curves = {key: np.array(values, dtype=np.float64) for key, values in record["curves"].items()}
    times = curves["times"]
    moments = []
    for when, at in zip(MOMENTS, (0, len(times) // 2, len(times) - 1), strict=True):
        cells = {key: curves[f"{when}_cell_{key}"] for key in ("x", "y", "dx", "dy", "speed")}
        separation = float(record["metrics"][f"separation_{when}"])
        moments.append(
            Moment(
                float(times[at]),
                curves[f"{when}_x"],
                curves[f"{when}_y"],
                cells,
                curves[f"{when}_cell_size"],
                separation,
            )
        )
    paths = np.stack([curves[f"path_{k}"] for k in range(SHOWN_PATHS) if f"path_{k}" in curves])
    band = (curves["path_low"], curves["path_mean"], curves["path_high"])
    return Portrait(name, times, paths, band, curves["class"], tuple(moments))
