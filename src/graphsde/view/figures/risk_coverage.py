"""How many mistakes remain when the model answers only where it is surest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from graphsde.scores.metrics import risk_coverage
from graphsde.view.figures.chart import Axis, Chart, Line, Panel
from graphsde.view.figures.looks import look
from graphsde.view.figures.palette import BLUE, GREEN, GREY
from graphsde.view.figures.picture import Picture
from graphsde.view.figures.plot_style import MAX_POINTS, thin

if TYPE_CHECKING:
    import plotly.graph_objects as go

HOVER = "keeping %{x:.1f} %: %{y:.2f} % wrong"


@dataclass(frozen=True, eq=False)
class RiskCoverageCurves(Picture):
    """Error rate among the nodes kept against the share kept, between an oracle and a random order.

    Args:
        coverage: 1/n, 2/n, …, 1.  # [n]
        risk: by name of the system.  # [n] each
        oracle: of an order that knows all mistakes; one per system where their mistakes differ.  # [n] each
        error: the error rate, which is what a random order keeps.
    """

    coverage: np.ndarray
    risk: dict[str, np.ndarray]
    oracle: dict[str, np.ndarray]
    error: dict[str, float]

    @classmethod
    def of(cls, systems: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> RiskCoverageCurves:
        """From uncertainty (higher = more uncertain) and mistakes of every system on the same nodes."""
        curves = {name: risk_coverage(uncertainty, errors) for name, (uncertainty, errors) in systems.items()}
        best = {name: risk_coverage(e.astype(np.float64), e).risk for name, (_, e) in systems.items()}
        share = {name: float(errors.mean()) for name, (_, errors) in systems.items()}
        coverage = next(iter(curves.values())).coverage
        return cls(coverage, {name: curve.risk for name, curve in curves.items()}, best, share)

    def chart(self) -> Chart:
        rows = _rows(len(self.coverage))
        x = 100 * self.coverage[rows]
        marks: list[Line] = []
        single = len(self.risk) == 1
        for place, (name, risk) in enumerate(self.risk.items()):
            how = look(place)
            colour, best, chance = (BLUE, GREEN, GREY) if single else (how.colour,) * 3
            random = np.full(len(rows), self.error[name])
            thin_line = 2.0 if single else 1.2
            marks.append(Line(name, x, 100 * risk[rows], colour, how.dash, 2.5, hover=HOVER))
            marks.append(Line("oracle", x, 100 * self.oracle[name][rows], best, "dash", thin_line, hover=HOVER))
            marks.append(Line("random order", x, 100 * random, chance, "dot", thin_line, hover=HOVER))
        return Chart(
            (
                Panel(
                    Axis("nodes kept, surest first", " %", limits=(0.0, 100.0), grid=False),
                    Axis("wrong among them", " %", zero=True),
                    tuple(marks),
                ),
            )
        )


def risk_coverage_curve(uncertainty: np.ndarray, errors: np.ndarray) -> go.Figure:
    """The curve of one model as a plotly figure.

    Args:
        uncertainty: higher = more uncertain.  # [n]
        errors: whether the prediction is wrong.  # [n] bool

    Example:
        >>> figure = risk_coverage_curve(np.array([0.1, 0.9]), np.array([False, True]))
        >>> [trace.name for trace in figure.data]
        ['this model', 'oracle', 'random order']
    """
    return RiskCoverageCurves.of({"this model": (uncertainty, errors)}).plotly()


def _rows(length: int) -> np.ndarray:
    """Points drawn; below the first hundredth of the nodes the curve is mere noise and would set the scale."""
    start = length // 100
    return start + thin(length - start, MAX_POINTS)
