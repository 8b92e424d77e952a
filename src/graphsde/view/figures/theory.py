"""Both sides of the two propositions; what noisy features do."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from graphsde.view.figures import chart
from graphsde.view.figures.bench import Curve, Curves
from graphsde.view.figures.chart import Axis, Chart, Line, Panel
from graphsde.view.figures.picture import Picture
from graphsde.view.figures.style import BLUE, GREEN, ORANGE, PURPLE, VERMILLION

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from graphsde.bench.theory import TheoryReport


ROBUSTNESS_STYLES = {"exponential": (VERMILLION, "dash"), "chain": (ORANGE, "dashdot"), "contractive": (GREEN, "dot")}


@dataclass(frozen=True, eq=False)
class NoiseRobustness(Picture):
    """Accuracy of systems over the severity of the noise; beside it how far the states of one of them move.

    Args:
        accuracy: of every system, over severity.
        severity: where the states were looked at.  # [k]
        start: how far the noise moves the initial state, ε.  # [k]
        moved: how far the final state is moved, the largest over paths and draws.  # [k]
        bounds: right sides of proposition 2 by name, ε times their factor.  # [k] each
    """

    accuracy: tuple[Curve, ...]
    severity: np.ndarray
    start: np.ndarray
    moved: np.ndarray
    bounds: dict[str, np.ndarray]

    def chart(self) -> Chart:
        left = Curves(self.accuracy, "noise, in standard deviations", "accuracy on test nodes", percent=True).chart()
        if not len(self.severity):
            return left
        lines = [Line("distance at the start, ε", self.start, self.start, BLUE, "longdash", 1.5)]
        lines.append(Line("distance at the horizon, measured", self.start, self.moved, BLUE, width=3.0, dots=True))
        for name, right in self.bounds.items():
            colour, dash = ROBUSTNESS_STYLES[name]
            shown = np.isfinite(right)
            lines.append(Line(f"{name} bound", self.start[shown], right[shown], colour, dash))  # type: ignore[arg-type]
        right_panel = Panel(
            Axis("ε: distance of the initial states", log=True),
            Axis("distance at the horizon", log=True),
            tuple(lines),
            title="proposition 2 under this noise",
        )
        return Chart((*left.panels, right_panel), across=len(left.panels) + 1, size=(3.9, 3.1), page_height=340)


MEASURED = "measured"
# colours and dashes both tell the lines apart
STYLES: dict[str, tuple[str, chart.Dash]] = {
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


@dataclass(frozen=True)
class PropositionPanel:
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


def theory_panels(report: TheoryReport) -> list[PropositionPanel]:
    """What the pictures show, without a drawing library: five panels, or two where there is no noise."""
    first, second = report.proposition_1, report.proposition_2
    place = second.closest
    by_epsilon = {name: second.epsilons * right[-1] for name, right in second.bounds.named().items()}
    distances = {MEASURED: second.distance[place] / second.epsilons[place], **second.bounds.named()}
    noisy = [
        PropositionPanel(
            "Proposition 1: logits",
            "time t",
            "total variance",
            first.times,
            {MEASURED: first.logits, "bound": first.logits_right},
        ),
        PropositionPanel(
            "Proposition 1: class probabilities",
            "time t",
            "total variance",
            first.times,
            {MEASURED: first.probabilities, "bound": first.probabilities_right},
        ),
        PropositionPanel(
            "Proposition 1: state H(t)",
            "time t",
            "total variance",
            first.times,
            {MEASURED: first.latent, **first.bounds.named()},
        ),
    ]
    return [
        *(noisy if first.latent[-1] > 0 else []),
        PropositionPanel("Proposition 2: over time", "time t", "distance / ε", second.times, distances),
        PropositionPanel(
            "Proposition 2: at the horizon",
            "ε, distance at the start",
            "distance at T",
            second.epsilons,
            {MEASURED: second.distance[:, -1], **by_epsilon},
            log_x=True,
        ),
    ]


@dataclass(frozen=True, eq=False)
class TheoryPanel(Picture):
    """All panels of a report; its table has both sides at all times."""

    report: TheoryReport

    def chart(self) -> chart.Chart:
        panels = tuple(
            chart.Panel(
                chart.Axis(panel.x_label, log=panel.log_x),
                chart.Axis(panel.y_label, log=True),
                # what is measured is drawn first: a bound that it reaches stays visible on it
                tuple(_line(panel, name) for name in panel.lines),
                title=panel.title,
            )
            for panel in theory_panels(self.report)
        )
        across = 3 if len(panels) > 2 else len(panels)
        return chart.Chart(panels, across=across, size=(4.0, 3.1), page_height=330)

    def columns(self) -> dict[str, list[Any]]:
        return self.report.columns()


def theory_figure(report: TheoryReport) -> go.Figure:
    """The panels for a page."""
    return TheoryPanel(report).plotly()


def theory_png(report: TheoryReport) -> bytes:
    """The panels as a PNG image, for a paper or a slide."""
    buffer = io.BytesIO()
    TheoryPanel(report).matplotlib().savefig(buffer, format="png", dpi=150)
    return buffer.getvalue()


def _line(panel: PropositionPanel, name: str) -> chart.Line:
    (x, y), (colour, dash) = panel.points(name), STYLES[name]
    measured = name == MEASURED
    return chart.Line(
        LEGENDS[name],
        x,
        y,
        colour,
        dash,
        width=4.0 if measured else 2.2,
        dots=measured,
        opacity=0.6 if measured else 1.0,
    )
