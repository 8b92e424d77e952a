"""Two reasons to be unsure: ambiguity of the node against disagreement among the samples."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphsde.view.figures.palette import RIGHT, WRONG
from graphsde.view.figures.plot_style import axis, layout, numbers, plot_text

if TYPE_CHECKING:
    import plotly.graph_objects as go

MAX_DOTS = 2000


def chosen_dots(length: int, limit: int = MAX_DOTS) -> np.ndarray:
    """Positions of the nodes drawn: all of them, or always the same ``limit`` of them."""
    if length <= limit:
        return np.arange(length)
    return np.sort(np.random.default_rng(0).choice(length, size=limit, replace=False))


def uncertainty_scatter(
    aleatoric: np.ndarray, epistemic: np.ndarray, right: np.ndarray | None, node_ids: np.ndarray
) -> go.Figure:
    """Aleatoric against epistemic uncertainty, one dot per node, at most 2,000 of them.

    Args:
        aleatoric, epistemic: in nats.  # [n]
        right: whether the prediction is right, ``None`` where nobody knows.  # [n] bool
        node_ids: shown when the pointer is over a dot.  # [n]

    Example:
        >>> one = np.array([0.5])
        >>> len(uncertainty_scatter(one, one, None, np.array(["a"], dtype=object)).data)
        1
    """
    import plotly.graph_objects as go

    rows = chosen_dots(len(aleatoric))
    if right is None:
        groups = [("nodes", RIGHT, "circle", rows)]
    else:
        groups = [("right", RIGHT, "circle", rows[right[rows]]), ("wrong", WRONG, "x", rows[~right[rows]])]
    traces = [
        go.Scatter(  # never scattergl: it would need eval, which the report's security policy forbids
            name=f"{name} (n = {len(members):,})",
            mode="markers",
            x=numbers(aleatoric[members]),
            y=numbers(epistemic[members]),
            text=[plot_text(node, 40) for node in node_ids[members]],
            marker={"color": colour, "symbol": symbol, "size": 6, "opacity": 0.55},
            hovertemplate="node %{text}<br>aleatoric %{x:.3f}, epistemic %{y:.3f}<extra>" + name + "</extra>",
        )
        for name, colour, symbol, members in groups
    ]
    return go.Figure(
        data=traces,
        layout=layout(
            height=420,
            xaxis=axis("aleatoric (nats): the node itself is ambiguous", rangemode="tozero"),
            yaxis=axis("epistemic (nats): the samples disagree", rangemode="tozero"),
            showlegend=right is not None,
        ),
    )
