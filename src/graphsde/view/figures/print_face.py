"""A chart as a matplotlib figure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphsde.base.errors import shorten
from graphsde.view.figures.chart import Arrows, Axis, Bars, Chart, Dots, Line, Mark, Segments, Tiles, Words
from graphsde.view.figures.style import print_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DASHES: dict[str, Any] = {"solid": "-", "dash": "--", "longdash": (0, (8, 2)), "dashdot": "-.", "dot": ":"}
SYMBOLS = {
    "circle": "o", "square": "s", "triangle-up": "^", "diamond": "D", "triangle-down": "v", "cross": "P", "x": "X",
    "star": "*",
}  # fmt: skip
HATCHES = {"": "", "/": "////", "\\": "\\\\\\\\", "x": "xxx", ".": "..."}
MOST_SYMBOLS = 8  # along a curve of many points
CHARACTERS_PER_INCH = 12.5  # of the legend's font
TITLE_CHARACTERS_PER_INCH, AXIS_ROOM = 12.6, 0.45


def draw_print(chart: Chart) -> Figure:
    """Panels in a grid, one legend for all of them outside."""
    across = max(1, min(chart.across, len(chart.panels)))
    rows = -(-len(chart.panels) // across)
    width, height = across * chart.size[0], rows * chart.size[1]
    ratios = {"height_ratios": chart.heights} if chart.heights else {}
    names = chart.legend_names()
    columns, lines = _legend_shape(names, width)
    height += 0.2 * lines + (0.3 if chart.title else 0.0)
    sharing: Any = "col" if chart.shared_x else False
    with print_figure(width, height, nrows=rows, ncols=across, squeeze=False, sharex=sharing, **ratios) as (
        figure,
        grid,
    ):
        handles: dict[str, Any] = {}
        for place, ax in enumerate(grid.flat):
            if place >= len(chart.panels):
                ax.set_axis_off()
                continue
            panel = chart.panels[place]
            for mark in panel.marks:
                handle = _draw(ax, mark)
                if isinstance(mark, Line | Bars | Dots) and mark.legend:
                    handles.setdefault(mark.name, handle)
            _bars_reach_the_edge(ax, panel.marks)
            last = place + across >= len(chart.panels) or not chart.shared_x
            _set_axis(ax, "x", panel.x, label=last)
            _set_axis(ax, "y", panel.y, label=True)
            if panel.title:
                ax.set_title(plain(panel.title, _title_room(chart.size[0])), loc="left")
            if panel.equal:
                ax.set_aspect("equal", adjustable="datalim")
        if chart.title:
            figure.suptitle(plain(chart.title, 120), fontsize=11)
        if names and handles:
            figure.legend(
                handles=list(handles.values()), labels=[plain(name) for name in handles],
                loc="outside lower center", ncols=columns, handlelength=2.4,
            )  # fmt: skip
        return figure


def plain(text: str, limit: int = 60) -> str:
    """Untrusted text: made short, printable, and no formula."""
    return shorten(text, limit).replace("$", r"\$")


def _title_room(width: float) -> int:
    """Characters that fit above a panel; more would run into the next panel's title."""
    return int(TITLE_CHARACTERS_PER_INCH * (width - AXIS_ROOM))


def _legend_shape(names: list[str], width: float) -> tuple[int, int]:
    if not names:
        return 1, 0
    longest = max(len(plain(name)) for name in names) + 7
    columns = int(np.clip(width * CHARACTERS_PER_INCH // longest, 1, len(names)))
    return columns, -(-len(names) // columns)


def _set_axis(ax: Any, side: str, given: Axis, *, label: bool) -> None:
    axis = getattr(ax, f"{side}axis")
    if given.log:
        _log_axis(ax, side, axis, given.limits)
    if given.unit:
        axis.set_major_formatter(lambda value, _: f"{value:g}{given.unit}")
    if given.names:
        turned = {"rotation": 40, "ha": "right", "rotation_mode": "anchor"} if given.slanted else {}
        axis.set_ticks(range(len(given.names)), [plain(name, 40) for name in given.names], **turned)
    if given.limits is not None:
        getattr(ax, f"set_{side}lim")(*given.limits)
    elif given.zero:
        getattr(ax, f"set_{side}lim")(**{"left" if side == "x" else "bottom": 0.0})
    if not given.grid:
        ax.grid(False, axis=side)
    if label and given.label:
        getattr(ax, f"set_{side}label")(plain(given.label, 100))
    if given.hidden:
        axis.set_visible(False)
        ax.spines[["bottom"] if side == "x" else ["left"]].set_visible(False)


def _log_axis(ax: Any, side: str, axis: Any, limits: tuple[float, float] | None) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    getattr(ax, f"set_{side}scale")("log")
    axis.set_minor_formatter(NullFormatter())
    low, high = limits or getattr(ax, f"get_{side}lim")()
    if low > 0 and np.log10(high / low) < 2.5:  # powers of ten alone would leave the axis bare
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high / low < 50 else (1.0, 3.0)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def _draw(ax: Any, mark: Mark) -> Any:
    if isinstance(mark, Line):
        return _line(ax, mark)
    if isinstance(mark, Bars):
        return _bars(ax, mark)
    if isinstance(mark, Dots):
        return _dots(ax, mark)
    if isinstance(mark, Words):
        across = {"left": "right", "right": "left", "middle": "center"}[mark.side]
        down = "bottom" if mark.above else "center"
        return ax.text(mark.x, mark.y, plain(mark.text), ha=across, va=down, fontsize=8)
    return _others(ax, mark)


def _line(ax: Any, mark: Line) -> Any:
    if mark.low is not None and mark.high is not None:
        ax.fill_between(mark.x, mark.low, mark.high, color=mark.colour, alpha=mark.band_opacity, lw=0)
    symbol = SYMBOLS[mark.symbol] if mark.dots or len(mark.x) < 2 else ""
    every = -(-len(mark.x) // MOST_SYMBOLS) if len(mark.x) > 2 * MOST_SYMBOLS else 1
    (line,) = ax.plot(
        mark.x, mark.y, color=mark.colour, ls=DASHES[mark.dash], lw=0.75 * mark.width, marker=symbol, ms=3.5,
        markevery=every, alpha=mark.opacity,
    )  # fmt: skip
    return line


def _bars(ax: Any, mark: Bars) -> Any:
    draw = ax.barh if mark.horizontal else ax.bar
    bars = draw(
        mark.x, mark.y, mark.width, color=mark.colour, alpha=mark.opacity, hatch=HATCHES[mark.pattern],
        edgecolor="white", linewidth=0.3,
    )  # fmt: skip
    if mark.labels is not None:
        ax.bar_label(bars, labels=[plain(label, 40) for label in mark.labels], padding=2, fontsize=7)
    return bars


def _bars_reach_the_edge(ax: Any, marks: tuple[Mark, ...]) -> None:
    """Space for the labels at the ends of bars."""
    for mark in marks:
        if isinstance(mark, Bars) and mark.labels is not None:
            ax.margins(**({"x": 0.22} if mark.horizontal else {"y": 0.15}))


def _dots(ax: Any, mark: Dots) -> Any:
    if mark.values is not None:
        return _coloured_dots(ax, mark)
    if mark.x_low is not None or mark.y_low is not None:
        ax.errorbar(
            mark.x, mark.y, xerr=_whiskers(mark.x, mark.x_low, mark.x_high),
            yerr=_whiskers(mark.y, mark.y_low, mark.y_high), fmt="none", ecolor=mark.colour, elinewidth=1.0,
            capsize=0, alpha=mark.opacity,
        )  # fmt: skip
    (dots,) = ax.plot(
        mark.x, mark.y, ls="none", marker=SYMBOLS[mark.symbol], color=mark.colour, ms=0.75 * mark.size,
        mfc=mark.colour if mark.filled else "white", mew=0.5 if mark.filled else 1.3, alpha=mark.opacity,
    )  # fmt: skip
    return dots


def _coloured_dots(ax: Any, mark: Dots) -> Any:
    from matplotlib.colors import LinearSegmentedColormap

    from graphsde.view.figures.page_face import SCALE

    scale = LinearSegmentedColormap.from_list("uncertainty", SCALE)
    low, high = mark.value_limits or (None, None)
    dots = ax.scatter(
        mark.x, mark.y, c=mark.values, cmap=scale, s=mark.size**2 / 1.6, vmin=low, vmax=high, alpha=mark.opacity,
        linewidths=0.3, edgecolors="#00000055", marker=SYMBOLS[mark.symbol], zorder=3,
    )  # fmt: skip
    if mark.value_name:
        ax.figure.colorbar(dots, ax=ax, label=plain(mark.value_name), shrink=0.8)
    return dots


def _others(ax: Any, mark: Mark) -> Any:
    from matplotlib.collections import LineCollection

    if isinstance(mark, Segments):
        lines = list(np.stack([mark.starts, mark.ends], axis=1))
        ax.add_collection(LineCollection(lines, colors=mark.colour, lw=mark.width, alpha=mark.opacity, zorder=1))
    elif isinstance(mark, Arrows):
        ax.quiver(
            mark.x, mark.y, mark.dx, mark.dy, color=mark.colour, angles="xy", scale_units="xy", scale=1, width=0.006,
            zorder=4,
        )  # fmt: skip
    elif isinstance(mark, Tiles):
        from matplotlib.colors import LinearSegmentedColormap, to_rgba

        tint = LinearSegmentedColormap.from_list("tiles", [to_rgba(*end) for end in mark.colours])
        low, high = mark.limits or (None, None)
        values = np.ma.masked_invalid(mark.values)
        ax.pcolormesh(mark.x, mark.y, values, cmap=tint, shading="nearest", zorder=0, vmin=low, vmax=high)
    return None


def _whiskers(middle: Any, low: Any, high: Any) -> np.ndarray | None:
    if low is None or high is None:
        return None
    ends = np.array([np.asarray(middle, float) - np.asarray(low, float), np.asarray(high, float) - middle])
    return np.nan_to_num(np.maximum(ends, 0.0))
