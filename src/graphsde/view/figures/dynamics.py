"""How states and probabilities move: sample paths, phase portraits, entropies under several systems."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphsde.bench.cells import Cell
from graphsde.bench.tasks.dynamics import MOMENTS
from graphsde.bench.tasks.dynamics import SHOWN_PATHS as PORTRAIT_PATHS
from graphsde.metrics.evaluation import entropy_edges
from graphsde.prediction import Trajectories
from graphsde.view.figures.chart import Arrows, Axis, Chart, Dots, Line, Mark, Panel, Tiles
from graphsde.view.figures.evaluation import LABEL, EntropyHistogram
from graphsde.view.figures.picture import Picture
from graphsde.view.figures.style import DASHES, INK, PURPLE, SYMBOLS, class_colour

SHOWN_CLASSES = 3
SHOWN_PATHS = 12


def leading_classes(trajectories: Trajectories, node: int, count: int = SHOWN_CLASSES) -> np.ndarray:
    """The classes that are most probable at the horizon, first the leading one."""
    final = trajectories.probs[-1, :, node].mean(axis=0)
    return np.argsort(-final, kind="stable")[:count]


@dataclass(frozen=True, eq=False)
class SamplePaths(Picture):
    """Mean, 90 % band and a dozen single paths of the three leading classes of one node over time.

    Args:
        trajectories: of one or more nodes.
        node: which of them.
    """

    trajectories: Trajectories
    node: int = 0

    def chart(self) -> Chart:
        given, marks = self.trajectories, []
        for place, position in enumerate(leading_classes(given, self.node)):
            values = given.probs[:, :, self.node, position]
            low, high = given.band(self.node, int(position))
            name, colour = f"class {given.class_names[position]}", class_colour(int(position))
            marks += [
                Line(name, given.times, path, colour, width=0.7, opacity=0.35, legend=False, hover=None)
                for path in values.T[:SHOWN_PATHS]
            ]
            marks.append(
                Line(
                    name, given.times, values.mean(axis=1), colour, DASHES[place], 2.5, dots=True, low=low,
                    symbol=SYMBOLS[place], high=high, band_opacity=0.15, hover="t = %{x}: %{y:.1%}",
                )
            )  # fmt: skip
        x = Axis("time of the latent dynamics")
        return Chart((Panel(x, Axis("probability", zero=True), tuple(marks)),))


ARROW = 0.9  # the longest arrow, in cells


@dataclass(frozen=True, eq=False)
class PhasePortrait(Picture):
    """A row for every equation: paths of one node, then nodes and drift at the start, the middle and the end.

    Args:
        curves: what the task ``dynamics`` has recorded, by name of the equation.
        separations: share of variance between classes at the three times, by name of the equation.
    """

    curves: dict[str, dict[str, np.ndarray]]
    separations: dict[str, list[float]]

    @classmethod
    def of(cls, records: Iterable[Mapping[str, Any]]) -> PhasePortrait:
        """From cells of the task ``dynamics``, the first seed of each system."""
        found: dict[str, Mapping[str, Any]] = {}
        for record in records:
            if record["cell"]["task"] == "dynamics" and record["status"] == "done":
                found.setdefault(_name(Cell(**record["cell"])), record)
        return cls(
            {
                name: {key: np.array(values, dtype=np.float64) for key, values in record["curves"].items()}
                for name, record in found.items()
            },
            {name: [float(r["metrics"][f"separation_{when}"]) for when in MOMENTS] for name, r in found.items()},
        )

    def chart(self) -> Chart:
        panels = []
        for name, curves in self.curves.items():
            panels.append(_paths(name, curves))
            times = curves["times"]
            x = Axis("first", limits=_limits(curves, "x"), grid=False)
            y = Axis("second", limits=_limits(curves, "y"), grid=False)
            moments = zip(MOMENTS, (0, len(times) // 2, -1), self.separations[name], strict=True)
            for when, at, separation in moments:
                title = f"t = {times[at]:g}: {separation:.0%} between classes"
                own = {key.removeprefix(f"{when}_"): values for key, values in curves.items()}
                panels.append(Panel(x, y, _moment(own), title=title))
        return Chart(tuple(panels), across=4, size=(2.9, 2.6), page_height=330)


def _paths(name: str, curves: Mapping[str, np.ndarray]) -> Panel:
    times, low, mean, high = (curves[key] for key in ("times", "path_low", "path_mean", "path_high"))
    single = tuple(
        Line("a path", times, curves[f"path_{k}"], PURPLE, width=0.8, opacity=0.5, legend=False, hover=None)
        for k in range(PORTRAIT_PATHS)
        if f"path_{k}" in curves
    )
    middle = Line("mean of one node's paths, 90 % band", times, mean, PURPLE, width=2.5, low=low, high=high)
    return Panel(Axis("time t"), Axis("first direction"), (*single, middle), title=f"{name}: one node")


def _moment(at: Mapping[str, np.ndarray]) -> tuple[Mark, ...]:
    """Nodes at one time, and the mean drift in the cells of a grid."""
    dx, dy = at["cell_dx"], at["cell_dy"]
    longest = float(np.hypot(dx / at["cell_size"][0], dy / at["cell_size"][1]).max()) or 1.0
    dots = []
    for position in np.unique(at["class"]).astype(int):
        own, symbol = at["class"] == position, SYMBOLS[int(position + position // 8) % len(SYMBOLS)]
        name, colour = f"class {position}", class_colour(int(position))
        dots.append(Dots(name, at["x"][own], at["y"][own], colour, symbol, size=4.0, opacity=0.75, hover=name))
    arrows = Arrows("drift", at["cell_x"], at["cell_y"], ARROW * dx / longest, ARROW * dy / longest, INK)
    return (_tiles(at), *dots, arrows)


def _name(cell: Cell) -> str:
    """The drift if the cell names one; the paper's network implies a GCN."""
    drift = cell.settings.get("drift")
    if drift is None and cell.settings.get("preset") in ("paper", "released"):
        drift = "gcn"
    named = drift["name"] if isinstance(drift, dict) else drift
    return f"{str(named).upper()} drift" if named else cell.label


def _tiles(at: Mapping[str, np.ndarray]) -> Tiles:
    """Cells as a full grid, empty where there is no node."""
    step, x, y = at["cell_size"], at["cell_x"], at["cell_y"]
    column, row = (np.rint((v - v.min()) / size).astype(int) for v, size in zip((x, y), step, strict=True))
    values = np.full((row.max() + 1, column.max() + 1), np.nan)
    values[row, column] = at["cell_speed"]
    across, up = (v.min() + size * np.arange(n) for v, size, n in zip((x, y), step, values.shape[::-1], strict=True))
    return Tiles("speed of the drift", across, up, values)


def _limits(curves: Mapping[str, np.ndarray], axis: str) -> tuple[float, float]:
    """One scale for the three times, the outermost hundredth of the nodes left outside."""
    low, high = np.percentile(np.concatenate([curves[f"{when}_{axis}"] for when in MOMENTS]), [1, 99])
    pad = 0.08 * (high - low or 1.0)
    return float(low - pad), float(high + pad)


GROUPS = {"errors": ("right", "wrong"), "ood": ("known", "OOD")}


@dataclass(frozen=True)
class EntropyGroup:
    """One panel: a system, how its nodes are grouped, and how much more entropy the second group has."""

    system: str
    groups: str
    histogram: EntropyHistogram
    gap: float


@dataclass(frozen=True, eq=False)
class EntropyByModel(Picture):
    """Right against wrong above, in-distribution against OOD below, a column for every system."""

    parts: tuple[EntropyGroup, ...]

    @classmethod
    def of(cls, records: Iterable[Mapping[str, Any]]) -> EntropyByModel:
        """From cells of the task ``entropies``; counts are added up over seeds, gaps are means over them."""
        found: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
        for record in records:
            cell = Cell(**record["cell"])
            if cell.task == "entropies" and record["status"] == "done":
                found.setdefault((str(cell.options.get("groups", "errors")), cell.label), []).append(record)
        parts = []
        for (groups, system), cells in found.items():
            edges = entropy_edges(int(cells[0]["metrics"]["num_classes"]))
            counts = {
                name: np.sum([cell["curves"][key] for cell in cells], axis=0)
                for name, key in zip(GROUPS[groups], ("sure", "unsure"), strict=True)
            }
            gaps = [cell["metrics"]["entropy_gap"] for cell in cells if cell["metrics"]["entropy_gap"] is not None]
            gap = float(np.mean(gaps)) if gaps else float("nan")
            parts.append(EntropyGroup(system, groups, EntropyHistogram(edges, counts), gap))
        order = list(dict.fromkeys(part.system for part in parts))
        parts.sort(key=lambda part: (list(GROUPS).index(part.groups), order.index(part.system)))
        return cls(tuple(parts))

    def chart(self) -> Chart:
        systems = list(dict.fromkeys(part.system for part in self.parts))
        # as many in a row as fit on a printed page, so that a new group starts a new row
        across = next((n for n in (3, 4, 2) if len(systems) > 4 and len(systems) % n == 0), len(systems))
        panels = []
        for place, part in enumerate(self.parts):
            first, last_row = place % across == 0, place >= len(self.parts) - across
            more = "" if np.isnan(part.gap) else f": {GROUPS[part.groups][1]} {part.gap:+.0%}"
            x = Axis(LABEL if last_row else "", limits=(0.0, float(part.histogram.edges[-1])), grid=False)
            y = Axis("share of its group" if first else "", " %", zero=True)
            panels.append(Panel(x, y, part.histogram.bars(numbered=False), title=f"{part.system}{more}"))
        return Chart(tuple(panels), across=across, size=(3.0, 1.95), page_height=240)
