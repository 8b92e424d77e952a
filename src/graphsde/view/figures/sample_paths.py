"""Class probabilities of one node along the paths of a stochastic model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphsde.prediction import Trajectories
from graphsde.view.figures.palette import class_colour, translucent
from graphsde.view.figures.plot_style import axis, layout, numbers, plot_text

if TYPE_CHECKING:
    import plotly.graph_objects as go

SHOWN_CLASSES = 3
SHOWN_PATHS = 12


def leading_classes(trajectories: Trajectories, node: int, count: int = SHOWN_CLASSES) -> np.ndarray:
    """The classes that are most probable at the horizon, first the leading one."""
    final = trajectories.probs[-1, :, node].mean(axis=0)
    return np.argsort(-final, kind="stable")[:count]


def sample_paths(trajectories: Trajectories, node: int) -> go.Figure:
    """Mean, 90 % band and a dozen single paths of the three leading classes over time.

    Args:
        trajectories: of one or more nodes.
        node: which of them.

    Example:
        >>> steps = Trajectories(np.arange(3.0), np.full((3, 4, 1, 2), 0.5), np.array([7]), ("a", "b"))
        >>> [trace.name for trace in sample_paths(steps, 0).data if trace.name]
        ['class a', 'class b']
    """
    import plotly.graph_objects as go

    times = numbers(trajectories.times)
    traces = []
    for position in leading_classes(trajectories, node):
        colour, name = class_colour(int(position)), plot_text(trajectories.class_names[position], 40)
        values = trajectories.probs[:, :, node, position]
        low, high = trajectories.band(node, int(position))
        common = {"x": times, "legendgroup": str(position), "hoverinfo": "skip", "showlegend": False}
        for path in range(min(SHOWN_PATHS, values.shape[1])):
            line = {"color": colour, "width": 0.7}
            traces.append(go.Scatter(y=numbers(values[:, path]), mode="lines", line=line, opacity=0.35, **common))
        invisible = {"color": colour, "width": 0}
        traces.append(go.Scatter(y=numbers(low), mode="lines", line=invisible, **common))
        band = {"fill": "tonexty", "fillcolor": translucent(colour, 0.15)}
        traces.append(go.Scatter(y=numbers(high), mode="lines", line=invisible, **band, **common))
        traces.append(
            go.Scatter(
                x=times,
                y=numbers(values.mean(axis=1)),
                name=f"class {name}",
                legendgroup=str(position),
                mode="lines+markers",
                line={"color": colour, "width": 2.5},
                hovertemplate="t = %{x}: %{y:.1%}<extra>class " + name + "</extra>",
            )
        )
    return go.Figure(
        data=traces,
        layout=layout(
            xaxis=axis("time of the latent dynamics"),
            yaxis=axis("probability", tickformat=".0%", rangemode="tozero"),
        ),
    )
