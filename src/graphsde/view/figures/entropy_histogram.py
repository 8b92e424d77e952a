"""How uncertain the model is where it is right, and where it is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphsde.view.figures.palette import RIGHT, WRONG
from graphsde.view.figures.plot_style import axis, layout, numbers

if TYPE_CHECKING:
    import plotly.graph_objects as go

BINS = 30


def entropy_histogram(total: np.ndarray, right: np.ndarray | None, num_classes: int) -> go.Figure:
    """Overlaid histograms of the predictive entropy, each scaled to its own group.

    The counts are binned here, so that the picture has the same size for any number of nodes.

    Args:
        total: predictive entropy in nats.  # [n]
        right: whether the prediction is right; ``None`` where nobody knows, then there is one group.  # [n] bool
        num_classes: sets the right end of the axis, ln C.

    Example:
        >>> figure = entropy_histogram(np.array([0.1, 0.6]), np.array([True, False]), num_classes=2)
        >>> [trace.name for trace in figure.data]
        ['right (n = 1)', 'wrong (n = 1)']
    """
    import plotly.graph_objects as go

    edges = np.linspace(0.0, float(np.log(max(num_classes, 2))), BINS + 1)
    clipped = np.clip(total, edges[0], edges[-1])  # rounding may leave an entropy a hair outside
    if right is None:
        groups = [("all", RIGHT, "", clipped)]
    else:
        groups = [("right", RIGHT, "", clipped[right]), ("wrong", WRONG, "/", clipped[~right])]
    traces = [_bars(name, colour, pattern, values, edges) for name, colour, pattern, values in groups]
    return go.Figure(
        data=traces,
        layout=layout(
            barmode="overlay",
            bargap=0.04,
            xaxis=axis("predictive entropy (nats)", range=[edges[0], edges[-1]], showgrid=False),
            yaxis=axis("share of its group", ticksuffix=" %", rangemode="tozero"),
            showlegend=right is not None,
        ),
    )


def _bars(name: str, colour: str, pattern: str, values: np.ndarray, edges: np.ndarray) -> go.Bar:
    import plotly.graph_objects as go

    counts, _ = np.histogram(values, bins=edges)
    share = 100.0 * counts / max(len(values), 1)
    return go.Bar(
        name=f"{name} (n = {len(values):,})",
        x=numbers((edges[:-1] + edges[1:]) / 2),
        y=numbers(share),
        width=float(edges[1] - edges[0]),
        customdata=counts.tolist(),
        marker={"color": colour, "pattern": {"shape": pattern, "fillmode": "overlay", "size": 6, "solidity": 0.15}},
        opacity=0.65,
        hovertemplate="entropy %{x:.2f}: %{customdata} nodes (%{y:.1f} %)<extra>" + name + "</extra>",
    )
