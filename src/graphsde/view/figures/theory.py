"""Both sides of the two propositions; the effect of noisy features."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from graphsde.view.figures.bench import Curve, Curves
from graphsde.view.figures.chart import Axis, Chart, Dash, Line, Panel
from graphsde.view.figures.picture import Picture
from graphsde.view.figures.style import BLUE, GREEN, ORANGE, PURPLE, VERMILLION

if TYPE_CHECKING:
    from graphsde.bench.theory import TheoryReport


MEASURED = "measured"
# lines differ in both colour and dash
STYLES: dict[str, tuple[str, Dash]] = {
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


@dataclass(frozen=True, eq=False)
class NoiseRobustness(Picture):
    """Accuracy of systems over the severity of the noise; next to it how far the states of one of them move.

    Args:
        accuracy: of every system, over severity.
        severity: at which the states were measured.  # [k]
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
            shown = np.isfinite(right)
            lines.append(Line(f"{name} bound", self.start[shown], right[shown], *STYLES[name]))
        x, y = Axis("ε: distance of the initial states", log=True), Axis("distance at the horizon", log=True)
        beside = Panel(x, y, tuple(lines), title="proposition 2 under this noise")
        return Chart((*left.panels, beside), across=len(left.panels) + 1, size=(3.9, 3.1), page_height=340)


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
    """What the figures show, without a drawing library: five panels, or two if there is no noise."""
    first, second = report.proposition_1, report.proposition_2
    place = second.closest
    by_epsilon = {name: second.epsilons * right[-1] for name, right in second.bounds.named().items()}
    distances = {MEASURED: second.distance[place] / second.epsilons[place], **second.bounds.named()}
    noisy = {"logits": {MEASURED: first.logits, "bound": first.logits_right}}
    if first.probabilities is not None and first.probabilities_right is not None:
        noisy["class probabilities"] = {MEASURED: first.probabilities, "bound": first.probabilities_right}
    noisy["state H(t)"] = {MEASURED: first.latent, **first.bounds.named()}
    panels = [PropositionPanel("Proposition 2: over time", "time t", "distance / ε", second.times, distances)]
    at_horizon = {MEASURED: second.distance[:, -1], **by_epsilon}
    titles = "Proposition 2: at the horizon", "ε, distance at the start", "distance at T"
    panels.append(PropositionPanel(*titles, second.epsilons, at_horizon, log_x=True))
    if first.latent[-1] > 0:
        panels = [
            PropositionPanel(f"Proposition 1: {what}", "time t", "total variance", first.times, lines)
            for what, lines in noisy.items()
        ] + panels
    return panels


@dataclass(frozen=True, eq=False)
class TheoryPanel(Picture):
    """All panels of a report; its table has both sides at all times."""

    report: TheoryReport

    def chart(self) -> Chart:
        panels = tuple(
            # measured values are drawn first, so that a bound on top of them stays visible
            Panel(Axis(p.x_label, log=p.log_x), Axis(p.y_label, log=True), tuple(_line(p, n) for n in p.lines), p.title)
            for p in theory_panels(self.report)
        )
        return Chart(panels, across=min(len(panels), 3), size=(4.0, 3.1), page_height=330)

    def columns(self) -> dict[str, list[Any]]:
        return self.report.columns()


def theory_png(report: TheoryReport) -> bytes:
    """The panels as a PNG image, for a paper or a slide."""
    buffer = io.BytesIO()
    TheoryPanel(report).matplotlib().savefig(buffer, format="png", dpi=150)
    return buffer.getvalue()


def _line(panel: PropositionPanel, name: str) -> Line:
    measured = name == MEASURED
    width, opacity = (4.0, 0.6) if measured else (2.2, 1.0)
    return Line(LEGENDS[name], *panel.points(name), *STYLES[name], width, dots=measured, opacity=opacity)
