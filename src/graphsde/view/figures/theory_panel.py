"""Both sides of the two propositions: over time, and over the size of the perturbation."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from graphsde.view.figures.palette import BLUE, GREEN, ORANGE, PURPLE, VERMILLION
from graphsde.view.figures.plot_style import axis, layout, numbers

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from graphsde.tasks.theory import TheoryReport

MEASURED = "measured"
# colours and dashes both tell the lines apart
STYLES = {
    MEASURED: (BLUE, "solid"),
    "bound": (PURPLE, "longdash"),
    "exponential": (VERMILLION, "dash"),
    "chain": (ORANGE, "dashdot"),
    "contractive": (GREEN, "dot"),
}
LEGENDS = {
    MEASURED: "left side, measured",
    "bound": "L_h² × variance of the state",
    "exponential": "exponential bound",
    "chain": "bound of the simulated steps",
    "contractive": "contractive bound",
}
_ROUNDING = 1e-20
_LINE_STYLES = {"solid": "-", "dash": "--", "longdash": (0, (8, 2)), "dashdot": "-.", "dot": ":"}


@dataclass(frozen=True)
class Panel:
    """One pair of axes: lines by the key of their style; what is not positive is left out of a logarithmic axis."""

    title: str
    x_label: str
    y_label: str
    x: np.ndarray
    lines: dict[str, np.ndarray]
    log_x: bool = False

    def points(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        values = np.asarray(self.lines[name], dtype=np.float64)
        shown = np.isfinite(values) & (values > 0)
        if name == MEASURED and shown.any():
            shown &= values > _ROUNDING * values[shown].max()  # paths that start alike differ by rounding only
        return self.x[shown], values[shown]


def theory_panels(report: TheoryReport) -> list[Panel]:
    """What the pictures show, without a drawing library: five panels, or two where there is no noise."""
    first, second = report.proposition_1, report.proposition_2
    place = second.closest
    by_epsilon = {name: second.epsilons * right[-1] for name, right in second.bounds.named().items()}
    distances = {MEASURED: second.distance[place] / second.epsilons[place], **second.bounds.named()}
    noisy = [
        Panel(
            "Proposition 1: logits",
            "time t",
            "total variance",
            first.times,
            {MEASURED: first.logits, "bound": first.logits_right},
        ),
        Panel(
            "Proposition 1: class probabilities",
            "time t",
            "total variance",
            first.times,
            {MEASURED: first.probabilities, "bound": first.probabilities_right},
        ),
        Panel(
            "Proposition 1: state H(t)",
            "time t",
            "total variance",
            first.times,
            {MEASURED: first.latent, **first.bounds.named()},
        ),
    ]
    return [
        *(noisy if first.latent[-1] > 0 else []),
        Panel("Proposition 2: over time", "time t", "distance / ε", second.times, distances),
        Panel(
            "Proposition 2: at the horizon",
            "ε, distance at the start",
            "distance at T",
            second.epsilons,
            {MEASURED: second.distance[:, -1], **by_epsilon},
            log_x=True,
        ),
    ]


def theory_figure(report: TheoryReport) -> go.Figure:
    """The panels side by side, for a page."""
    import plotly.graph_objects as go

    panels, seen = theory_panels(report), set()
    traces, axes, notes = [], {}, []
    columns, rows = _shape(len(panels))
    for place, panel in enumerate(panels):
        row, column = divmod(place, columns)
        tag = "" if place == 0 else str(place + 1)
        left, top = column / columns, 1.0 - row / rows
        x_range = [left + 0.045, left + 1.0 / columns - 0.02]
        y_range = [top - 1.0 / rows + 0.14 / rows, top - 0.12 / rows]
        kind = {"type": "log"} if panel.log_x else {}
        axes[f"xaxis{tag}"] = axis(panel.x_label, domain=x_range, anchor=f"y{tag}", **kind)
        axes[f"yaxis{tag}"] = axis(
            panel.y_label, domain=y_range, anchor=f"x{tag}", type="log", exponentformat="power", nticks=6
        )
        notes.append(
            {
                "text": f"<b>{panel.title}</b>",
                "x": x_range[0],
                "y": y_range[1] + 0.01,
                "xref": "paper",
                "yref": "paper",
                "xanchor": "left",
                "yanchor": "bottom",
                "showarrow": False,
            }
        )
        for name in panel.lines:
            x, y = panel.points(name)
            colour, dash = STYLES[name]
            traces.append(
                go.Scatter(
                    name=LEGENDS[name],
                    x=numbers(x),
                    y=numbers(y),
                    xaxis=f"x{tag}",
                    yaxis=f"y{tag}",
                    mode="lines+markers" if name == MEASURED or len(x) < 2 else "lines",
                    line={"color": colour, "width": 2, "dash": dash},
                    legendgroup=name,
                    showlegend=name not in seen,
                    hovertemplate="%{x:.4g}: %{y:.4g}<extra>" + LEGENDS[name] + "</extra>",
                )
            )
            seen.add(name)
    legend = {"orientation": "h", "x": 0, "y": -0.08, "xanchor": "left", "yanchor": "top"}
    return go.Figure(traces, layout(height=330 * rows, annotations=notes, legend=legend, **axes))


def theory_png(report: TheoryReport) -> bytes:
    """The panels as a PNG image, for a paper or a slide."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    panels = theory_panels(report)
    columns, rows = _shape(len(panels))
    figure = Figure(figsize=(4.4 * columns, 3.5 * rows + 0.5), layout="constrained")
    FigureCanvasAgg(figure)
    handles = {}
    for place, panel in enumerate(panels):
        axes = figure.add_subplot(rows, columns, place + 1)
        for name in panel.lines:
            colour, dash = STYLES[name]
            # what is measured lies below: a bound that it reaches stays visible as dots on it
            look: dict[str, Any] = {"linewidth": 2, "zorder": 3}
            if name == MEASURED:
                look = {"linewidth": 4, "zorder": 2, "alpha": 0.55, "marker": "o", "markersize": 6}
            line = axes.plot(*panel.points(name), linestyle=_LINE_STYLES[dash], color=colour, **look)
            line[0].set_label(LEGENDS[name])
            handles[name] = line[0]
        axes.set_yscale("log")
        if panel.log_x:
            axes.set_xscale("log")
        axes.set_title(panel.title, fontsize=11, loc="left")
        axes.set_xlabel(panel.x_label)
        axes.set_ylabel(panel.y_label)
        axes.grid(True, color="#dddddd", linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
    lines = [handles[name] for name in STYLES if name in handles]
    if rows * columns > len(panels):
        corner = figure.add_subplot(rows, columns, rows * columns)
        corner.set_axis_off()
        corner.legend(handles=lines, loc="center", frameon=False, handlelength=3.5, fontsize=11)
    else:
        figure.legend(handles=lines, loc="outside lower center", ncols=2, frameon=False, handlelength=3.5)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=150)
    return buffer.getvalue()


def _shape(count: int) -> tuple[int, int]:
    columns = 3 if count > 2 else count
    return columns, -(-count // columns)
