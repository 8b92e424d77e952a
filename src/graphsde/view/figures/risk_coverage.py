"""How many mistakes remain when the model answers only where it is surest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphsde.scores.metrics import risk_coverage
from graphsde.view.figures.palette import BLUE, GREEN, GREY
from graphsde.view.figures.plot_style import MAX_POINTS, axis, layout, numbers, thin

if TYPE_CHECKING:
    import plotly.graph_objects as go


def risk_coverage_curve(uncertainty: np.ndarray, errors: np.ndarray) -> go.Figure:
    """Error rate among the nodes kept against the share kept, between an oracle and a random order.

    Args:
        uncertainty: higher = more uncertain.  # [n]
        errors: whether the prediction is wrong.  # [n] bool

    Example:
        >>> figure = risk_coverage_curve(np.array([0.1, 0.9]), np.array([False, True]))
        >>> [trace.name for trace in figure.data]
        ['this model', 'oracle', 'random order']
    """
    import plotly.graph_objects as go

    model = risk_coverage(uncertainty, errors)
    oracle = risk_coverage(errors.astype(np.float64), errors)  # a score that knows the mistakes
    random = np.full(len(errors), errors.mean())
    rows = _rows(len(errors))
    lines = [
        ("this model", BLUE, "solid", 2.5, model.risk),
        ("oracle", GREEN, "dash", 2, oracle.risk),
        ("random order", GREY, "dot", 2, random),
    ]
    traces = [
        go.Scatter(
            name=name,
            x=numbers(100 * model.coverage[rows]),
            y=numbers(100 * risk[rows]),
            mode="lines" if len(rows) > 1 else "markers",
            line={"color": colour, "width": width, "dash": dash},
            hovertemplate="keeping %{x:.1f} %: %{y:.2f} % wrong<extra>" + name + "</extra>",
        )
        for name, colour, dash, width, risk in lines
    ]
    return go.Figure(
        data=traces,
        layout=layout(
            xaxis=axis("nodes kept, surest first", range=[0, 100], ticksuffix=" %", showgrid=False),
            yaxis=axis("wrong among them", ticksuffix=" %", rangemode="tozero"),
        ),
    )


def _rows(length: int) -> np.ndarray:
    """Points drawn; below the first hundredth of the nodes the curve is mere noise and would set the scale."""
    start = length // 100
    return start + thin(length - start, MAX_POINTS)
