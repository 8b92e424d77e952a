"""Two reasons to be unsure: ambiguity of the node against disagreement among the samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from graphsde.view.figures.chart import Axis, Chart, Dots, Panel, Symbol
from graphsde.view.figures.palette import RIGHT, WRONG
from graphsde.view.figures.picture import Picture

if TYPE_CHECKING:
    import plotly.graph_objects as go

MAX_DOTS = 2000


def chosen_dots(length: int, limit: int = MAX_DOTS) -> np.ndarray:
    """Positions of the nodes drawn: all of them, or always the same ``limit`` of them."""
    if length <= limit:
        return np.arange(length)
    return np.sort(np.random.default_rng(0).choice(length, size=limit, replace=False))


@dataclass(frozen=True, eq=False)
class UncertaintyScatter(Picture):
    """Aleatoric against epistemic uncertainty, one dot per node, at most 2,000 of them.

    Args:
        aleatoric, epistemic: in nats.  # [n]
        right: whether the prediction is right, ``None`` where nobody knows.  # [n] bool
        node_ids: of the nodes.  # [n]
    """

    aleatoric: np.ndarray
    epistemic: np.ndarray
    right: np.ndarray | None
    node_ids: np.ndarray

    def chart(self) -> Chart:
        rows = chosen_dots(len(self.aleatoric))
        groups: list[tuple[str, str, Symbol, np.ndarray]] = [("nodes", RIGHT, "circle", rows)]
        if self.right is not None:
            right = self.right[rows]
            groups = [("right", RIGHT, "circle", rows[right]), ("wrong", WRONG, "x", rows[~right])]
        dots = tuple(
            Dots(
                f"{name} (n = {len(members):,})",
                self.aleatoric[members],
                self.epistemic[members],
                colour,
                symbol,
                opacity=0.55,
                texts=[str(node) for node in self.node_ids[members]],
                legend=self.right is not None,
                hover="node %{text}<br>aleatoric %{x:.3f}, epistemic %{y:.3f}",
            )
            for name, colour, symbol, members in groups
        )
        x = Axis("aleatoric (nats): the node itself is ambiguous", zero=True)
        y = Axis("epistemic (nats): the samples disagree", zero=True)
        return Chart((Panel(x, y, dots),), page_height=420, size=(4.6, 3.6))


def uncertainty_scatter(
    aleatoric: np.ndarray, epistemic: np.ndarray, right: np.ndarray | None, node_ids: np.ndarray
) -> go.Figure:
    """The scatter as a plotly figure; see :class:`UncertaintyScatter`.

    Example:
        >>> one = np.array([0.5])
        >>> len(uncertainty_scatter(one, one, None, np.array(["a"], dtype=object)).data)
        1
    """
    return UncertaintyScatter(aleatoric, epistemic, right, node_ids).plotly()
