"""Whether stated confidence comes true, and how many nodes say so."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphsde.scores.metrics import reliability
from graphsde.view.figures.palette import BLUE, GREY, ORANGE
from graphsde.view.figures.plot_style import axis, layout, numbers

if TYPE_CHECKING:
    import plotly.graph_objects as go

BINS = 15


def reliability_diagram(probs: np.ndarray, labels: np.ndarray) -> go.Figure:
    """Accuracy against confidence in 15 bins of equal width, with the number of nodes of each bin below.

    Args:
        probs: mean probabilities.  # [n, C]
        labels: true columns.  # [n]

    Example:
        >>> figure = reliability_diagram(np.array([[0.9, 0.1], [0.9, 0.1]]), np.array([0, 1]))
        >>> figure.data[0].y, figure.data[2].y
        ((50.0,), (2,))
    """
    import plotly.graph_objects as go

    curve = reliability(probs, labels, bins=BINS)
    width = 100.0 / BINS
    # a bar stands where its interval is, open on the left; empty bins are not in the curve
    edges = np.linspace(0.0, 1.0, BINS + 1)
    slot = np.clip(np.searchsorted(edges, curve.upper, side="left") - 1, 0, BINS - 1)
    centre = numbers((slot + 0.5) * width)
    counts = [int(c) for c in curve.count]
    bars = go.Bar(
        name="how often it is right",
        x=centre,
        y=numbers(100 * curve.accuracy),
        width=0.94 * width,
        customdata=list(zip(numbers(100 * curve.confidence), counts, strict=True)),
        marker={"color": BLUE},
        opacity=0.8,
        hovertemplate="confidence %{customdata[0]:.1f} %, right %{y:.1f} %, n = %{customdata[1]}<extra></extra>",
    )
    line = {"color": ORANGE, "width": 2.5, "dash": "dash"}
    diagonal = go.Scatter(name="honest", x=[0, 100], y=[0, 100], mode="lines", line=line, hoverinfo="skip")
    below = go.Bar(
        name="nodes in the bin",
        x=centre,
        y=counts,
        width=0.94 * width,
        yaxis="y2",
        text=[f"{c:,}" for c in counts],
        textposition="outside",
        cliponaxis=False,
        marker={"color": GREY},
        hovertemplate="n = %{y}<extra></extra>",
        showlegend=False,
    )
    return go.Figure(
        data=[bars, diagonal, below],
        layout=layout(
            height=480,
            xaxis=axis("stated confidence", range=[0, 100], ticksuffix=" %", anchor="y2", showgrid=False),
            yaxis=axis("right", range=[0, 100], ticksuffix=" %", domain=[0.38, 1.0]),
            yaxis2=axis("nodes", domain=[0.0, 0.26], rangemode="tozero", nticks=3),
            uniformtext={"minsize": 8, "mode": "hide"},
        ),
    )
