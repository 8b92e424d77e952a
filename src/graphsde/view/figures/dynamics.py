"""How states and probabilities move: sample paths, phase portraits, entropies under several systems."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from graphsde.bench.cells import Cell
from graphsde.bench.tasks.dynamics import MOMENTS
from graphsde.bench.tasks.dynamics import SHOWN_PATHS as PORTRAIT_PATHS
from graphsde.metrics.evaluation import entropy_edges
from graphsde.prediction import Trajectories
from graphsde.view.figures.chart import Arrows, Axis, Chart, Dots, Line, Mark, Panel, Tiles
from graphsde.view.figures.evaluation import LABEL, EntropyHistogram
from graphsde.view.figures.picture import Picture
from graphsde.view.figures.style import CLASS_COLOURS, PURPLE, SYMBOLS, class_colour

if TYPE_CHECKING:
    import plotly.graph_objects as go


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
        for position in leading_classes(given, self.node):
            values = given.probs[:, :, self.node, position]
            low, high = given.band(self.node, int(position))
            name, colour = f"class {given.class_names[position]}", class_colour(int(position))
            marks += [
                Line(name, given.times, path, colour, width=0.7, opacity=0.35, legend=False, hover=None)
                for path in values.T[:SHOWN_PATHS]
            ]
            marks.append(
                Line(
                    name,
                    given.times,
                    values.mean(axis=1),
                    colour,
                    width=2.5,
                    dots=True,
                    low=low,
                    high=high,
                    band_opacity=0.15,
                    hover="t = %{x}: %{y:.1%}",
                )
            )
        x = Axis("time of the latent dynamics")
        return Chart((Panel(x, Axis("probability", zero=True), tuple(marks)),))


def sample_paths(trajectories: Trajectories, node: int) -> go.Figure:
    """The paths as a plotly figure.

    Args:
        trajectories: of one or more nodes.
        node: which of them.

    Example:
        >>> steps = Trajectories(np.arange(3.0), np.full((3, 4, 1, 2), 0.5), np.array([7]), ("a", "b"))
        >>> [trace.name for trace in sample_paths(steps, 0).data if trace.name]
        ['class a', 'class b']
    """
    return SamplePaths(trajectories, node).plotly()


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
    paths = np.stack([curves[f"path_{k}"] for k in range(PORTRAIT_PATHS) if f"path_{k}" in curves])
    band = (curves["path_low"], curves["path_mean"], curves["path_high"])
    return Portrait(name, times, paths, band, curves["class"], tuple(moments))


GROUPS = {"errors": ("right", "wrong"), "ood": ("familiar", "ood")}


@dataclass(frozen=True)
class EntropyGroup:
    """One panel: a system, what its nodes are told apart by, and how much more entropy the second group has."""

    system: str
    groups: str
    histogram: EntropyHistogram
    gap: float


@dataclass(frozen=True, eq=False)
class EntropyByModel(Picture):
    """Right against wrong above, familiar against OOD below, a column for every system."""

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
        # as many in a row as a printed page takes, so that a new group begins a new row
        across = next((n for n in (3, 4, 2) if len(systems) > 4 and len(systems) % n == 0), len(systems))
        panels = []
        for place, part in enumerate(self.parts):
            first, last_row = place % across == 0, place >= len(self.parts) - across
            more = "" if np.isnan(part.gap) else f": {GROUPS[part.groups][1]} {part.gap:+.0%}"
            edges = part.histogram.edges
            panels.append(
                Panel(
                    Axis(LABEL if last_row else "", limits=(0.0, float(edges[-1])), grid=False),
                    Axis("share of its group" if first else "", " %", zero=True),
                    part.histogram.bars(numbered=False),
                    title=f"{part.system}{more}",
                )
            )
        return Chart(tuple(panels), across=across, page_across=1, size=(3.0, 1.95), page_height=240)
