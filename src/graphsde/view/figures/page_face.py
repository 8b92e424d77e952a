"""A chart as a plotly figure. Never scattergl: it would need eval, which the report's security policy forbids."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphsde.view.figures.chart import Arrows, Axis, Bars, Chart, Dots, Line, Mark, Segments, Tiles, Words
from graphsde.view.figures.style import axis, layout, numbers, plot_text, translucent

if TYPE_CHECKING:
    import plotly.graph_objects as go

TITLE, LABELS, LEGEND = 34, 62, 30  # pixels above a panel, below it, and per line of the legend
NAME_LENGTH = 60
MOST_SYMBOLS = 16  # along a curve of many points
SCALE: list[tuple[float, str]] = [(0.0, "#FFE9A8"), (0.5, "#E69F00"), (1.0, "#8C2D04")]


def draw_page(chart: Chart) -> go.Figure:
    """Panels stacked for a narrow window, ``page_across`` of them in a row."""
    import plotly.graph_objects as go

    across = max(1, min(chart.page_across, len(chart.panels)))
    rows = -(-len(chart.panels) // across)
    names = chart.legend_names()
    # in a window of 360 pixels
    lines = max(1, -(-sum(12 + len(name) for name in names) * 7 // 340)) if names else 0
    top = 12 + LEGEND * lines
    if chart.panels and chart.panels[0].title:
        top += 10
    bare = all(panel.y.hidden for panel in chart.panels)
    side, bottom = (8, 12) if bare else (56, 52)
    height = rows * chart.page_height + (top - 36)
    inner = height - top - bottom
    spans = _rows(chart, rows, inner)
    traces: list[Any] = []
    axes: dict[str, Any] = {}
    notes: list[dict[str, Any]] = []
    seen: set[str] = set()
    for place, panel in enumerate(chart.panels):
        row, column = divmod(place, across)
        tag = "" if place == 0 else str(place + 1)
        x_tag = "" if chart.shared_x else tag
        left, right = column / across, (column + 1) / across
        if across > 1:
            left, right = left + 0.05, right - 0.02
        last = place == len(chart.panels) - 1
        if not chart.shared_x or last:
            lowest = "" if not chart.shared_x else tag
            axes[f"xaxis{x_tag}"] = _axis(
                panel.x, anchor=f"y{lowest or tag}", **({} if across == 1 else {"domain": [left, right]})
            )
        extra: dict[str, Any] = {} if rows == 1 else {"domain": list(spans[row])}
        if panel.equal:
            extra |= {"scaleanchor": f"x{x_tag}", "scaleratio": 1}
        axes[f"yaxis{tag}"] = _axis(panel.y, anchor=f"x{x_tag}", **extra)
        if panel.title:
            notes.append(_title(panel.title, left if across > 1 else 0.0, spans[row][1]))
        for mark in panel.marks:
            if isinstance(mark, Words):
                notes.append(_words(mark, x_tag, tag))
                continue
            for trace in _traces(mark, seen):
                traces.append(trace.update(xaxis=f"x{x_tag}", yaxis=f"y{tag}"))
    return go.Figure(
        data=traces,
        layout=layout(
            height=height,
            annotations=notes,
            barmode="overlay",
            bargap=0.04,
            showlegend=bool(names),
            margin={"l": side, "r": min(side, 30), "t": top, "b": bottom},
            legend={"orientation": "h", "x": 0, "xanchor": "left", "yref": "container", "y": 1.0, "yanchor": "top"},
            uniformtext={"minsize": 8, "mode": "show"},
            **axes,
        ),
    )


def _rows(chart: Chart, rows: int, inner: int) -> list[tuple[float, float]]:
    """Where each row starts and ends, from below, as shares of the drawing area."""
    weights = np.array(chart.heights or [1.0] * rows, dtype=np.float64)
    titled = any(panel.title for panel in chart.panels)
    gap = (28 if chart.shared_x else LABELS + (TITLE if titled else 0)) / inner
    free = 1.0 - gap * (rows - 1)
    shares = free * weights / weights.sum()
    tops = 1.0 - np.concatenate([[0.0], np.cumsum(shares[:-1] + gap)])
    return [(max(0.0, float(top - share)), float(top)) for top, share in zip(tops, shares, strict=True)]


def _axis(given: Axis, **more: Any) -> dict[str, Any]:
    settings: dict[str, Any] = {"showgrid": given.grid, **more}
    if given.unit:
        settings["ticksuffix"] = given.unit
    if given.log:
        settings |= {"type": "log", "exponentformat": "power", "nticks": 6}
    if given.limits is not None:
        low, high = given.limits
        settings["range"] = [float(np.log10(low)), float(np.log10(high))] if given.log else [low, high]
    elif given.zero:
        settings["rangemode"] = "tozero"
    if given.names:
        names = [plot_text(name, 40) for name in given.names]
        settings |= {"tickvals": list(range(len(names))), "ticktext": names}
        settings |= {"tickangle": -40} if given.slanted else {}
    if given.hidden:
        settings["visible"] = False
    return axis(plot_text(given.label, 100), **settings)


def _title(text: str, x: float, y: float) -> dict[str, Any]:
    return {
        "text": f"<b>{plot_text(text, 80)}</b>",
        "x": x, "y": y, "yshift": 4, "xref": "paper", "yref": "paper", "xanchor": "left", "yanchor": "bottom",
        "showarrow": False,
    }  # fmt: skip


def _words(mark: Words, x_tag: str, y_tag: str) -> dict[str, Any]:
    sides = {
        "left": "right",
        "right": "left",
        "middle": "center",
    }  # plotly anchors by the edge of the text that is at the point
    return {
        "text": plot_text(mark.text, NAME_LENGTH), "x": mark.x, "y": mark.y, "xref": f"x{x_tag}", "yref": f"y{y_tag}",
        "xanchor": sides[mark.side], "yanchor": "bottom" if mark.above else "middle", "showarrow": False,
        "font": {"size": 11},
    }  # fmt: skip


def _traces(mark: Mark, seen: set[str]) -> list[Any]:
    if isinstance(mark, Line):
        return _line(mark, seen)
    if isinstance(mark, Bars):
        return [_bars(mark, seen)]
    if isinstance(mark, Dots):
        return [_dots(mark, seen)]
    return _plain(mark)


def _line(mark: Line, seen: set[str]) -> list[Any]:
    import plotly.graph_objects as go

    x, group = numbers(mark.x), mark.group or mark.name
    common: dict[str, Any] = {"x": x, "legendgroup": plot_text(group, 40)}
    traces = []
    if mark.low is not None and mark.high is not None:
        edge = {"line": {"color": mark.colour, "width": 0}, "mode": "lines", "hoverinfo": "skip", "showlegend": False}
        fill = {"fill": "tonexty", "fillcolor": translucent(mark.colour, mark.band_opacity)}
        traces.append(go.Scatter(y=numbers(mark.low), **edge, **common))
        traces.append(go.Scatter(y=numbers(mark.high), **edge, **fill, **common))
    mode = "lines+markers" if mark.dots and len(x) > 1 else "lines" if len(x) > 1 else "markers"
    hover: dict[str, Any] = {"hoverinfo": "skip"}
    if mark.hover is not None:
        hover = {"hovertemplate": mark.hover + _extra(mark.name)}
    traces.append(
        go.Scatter(
            y=numbers(mark.y),
            mode=mode,
            line={"color": mark.colour, "width": mark.width, "dash": mark.dash},
            marker={"color": mark.colour, "symbol": mark.symbol, "size": 6, "maxdisplayed": MOST_SYMBOLS},
            opacity=mark.opacity,
            **_named(mark, seen),
            **hover,
            **common,
        )
    )
    return traces


def _bars(mark: Bars, seen: set[str]) -> Any:
    import plotly.graph_objects as go

    along, value = numbers(mark.x), numbers(mark.y)
    place = {"x": value, "y": along, "orientation": "h"} if mark.horizontal else {"x": along, "y": value}
    labels: dict[str, Any] = {}
    if mark.labels is not None:
        shown = [plot_text(label, 40) for label in mark.labels]
        labels = {"text": shown, "textposition": "outside", "cliponaxis": False}
    pattern = {"shape": mark.pattern, "fillmode": "overlay", "size": 6, "solidity": 0.15}
    return go.Bar(
        width=mark.width,
        customdata=None if mark.details is None else list(mark.details),
        marker={"color": mark.colour, "pattern": pattern},
        opacity=mark.opacity,
        hovertemplate=mark.hover + _extra(mark.name),
        **place,
        **labels,
        **_named(mark, seen),
    )


def _dots(mark: Dots, seen: set[str]) -> Any:
    import plotly.graph_objects as go

    symbol = mark.symbol if mark.filled else f"{mark.symbol}-open"
    marker: dict[str, Any] = {"symbol": symbol, "size": mark.size, "opacity": mark.opacity, "color": mark.colour}
    if mark.values is not None:
        bar = {"title": {"text": plot_text(mark.value_name), "side": "right"}, "thickness": 12, "len": 0.8}
        marker |= {"color": numbers(mark.values), "colorscale": SCALE, "colorbar": bar}
        marker["showscale"] = bool(mark.value_name)
        if mark.value_limits is not None:
            marker |= {"cmin": mark.value_limits[0], "cmax": mark.value_limits[1]}
    return go.Scatter(
        mode="markers",
        x=numbers(mark.x),
        y=numbers(mark.y),
        text=None if mark.texts is None else [plot_text(text, 40) for text in mark.texts],
        marker=marker,
        error_x=_whiskers(mark.x, mark.x_low, mark.x_high),
        error_y=_whiskers(mark.y, mark.y_low, mark.y_high),
        hovertemplate=mark.hover + _extra(mark.name),
        **_named(mark, seen),
    )


def _plain(mark: Mark) -> list[Any]:
    import plotly.graph_objects as go

    if isinstance(mark, Segments):
        ends = np.stack([mark.starts, mark.ends, np.full_like(mark.ends, np.nan)], axis=1).reshape(-1, 2)
        return [_strokes(ends, mark.colour, mark.width, mark.opacity)]
    if isinstance(mark, Arrows):
        return [_strokes(arrow_outlines(mark), mark.colour, mark.width, 1.0)]
    assert isinstance(mark, Tiles)
    values = [numbers(row) for row in mark.values]
    tint = [[place, translucent(*end)] for place, end in enumerate(mark.colours)]
    low, high = mark.limits or (None, None)
    return [
        go.Heatmap(
            x=numbers(mark.x), y=numbers(mark.y), z=values, colorscale=tint, showscale=False, zmin=low, zmax=high,
            hovertemplate="%{z:.3g}" + _extra(mark.name),
        )
    ]  # fmt: skip


def _strokes(points: np.ndarray, colour: str, width: float, opacity: float) -> Any:
    import plotly.graph_objects as go

    return go.Scatter(
        x=numbers(points[:, 0]), y=numbers(points[:, 1]), mode="lines", line={"color": colour, "width": width},
        opacity=opacity, hoverinfo="skip", showlegend=False,
    )  # fmt: skip


def arrow_outlines(mark: Arrows) -> np.ndarray:
    """Each arrow as a broken line with gaps between them; plotly has no arrows that scale with the axes.  # [6n, 2]"""
    tail = np.column_stack([mark.x, mark.y]).astype(np.float64)
    step = np.column_stack([mark.dx, mark.dy]).astype(np.float64)
    side = np.column_stack([-step[:, 1], step[:, 0]])
    head, gap = tail + step, np.full_like(tail, np.nan)
    wings = [head - 0.3 * step + 0.18 * side, head - 0.3 * step - 0.18 * side]
    return np.stack([tail, head, wings[0], head, wings[1], gap], axis=1).reshape(-1, 2)


def _whiskers(middle: Any, low: Any, high: Any) -> dict[str, Any] | None:
    if low is None or high is None:
        return None
    up, down = np.asarray(high, dtype=np.float64) - middle, middle - np.asarray(low, dtype=np.float64)
    return {"type": "data", "symmetric": False, "array": numbers(up), "arrayminus": numbers(down), "thickness": 1.2}


def _named(mark: Line | Bars | Dots, seen: set[str]) -> dict[str, Any]:
    """A name is in the legend once, however many panels show it."""
    if not mark.legend:
        return {"showlegend": False}
    first = mark.name not in seen
    seen.add(mark.name)
    return {"name": plot_text(mark.name, NAME_LENGTH), "showlegend": first}


def _extra(name: str) -> str:
    return f"<extra>{plot_text(name, NAME_LENGTH)}</extra>"
