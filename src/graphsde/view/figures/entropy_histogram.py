"""How uncertain the model is where it is right, and where it is wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from graphsde.scores.entropy_bins import count_entropies, entropy_edges
from graphsde.view.figures.chart import Axis, Bars, Chart, Panel
from graphsde.view.figures.palette import RIGHT, WRONG
from graphsde.view.figures.picture import Picture

if TYPE_CHECKING:
    import plotly.graph_objects as go

LABEL = "predictive entropy (nats)"


@dataclass(frozen=True, eq=False)
class EntropyHistogram(Picture):
    """Counts per bin of one group of nodes or of two.

    Args:
        edges: of the bins, from 0 to ln C.  # [B + 1]
        counts: by name of the group: the one that should be sure first.  # [B] each
    """

    edges: np.ndarray
    counts: dict[str, np.ndarray]

    @classmethod
    def of(cls, total: np.ndarray, right: np.ndarray | None, num_classes: int) -> EntropyHistogram:
        """From entropies, and whether each prediction is right; ``None`` where nobody knows."""
        edges = entropy_edges(num_classes)
        groups = {"all": total} if right is None else {"right": total[right], "wrong": total[~right]}
        return cls(edges, {name: count_entropies(values, edges) for name, values in groups.items()})

    def bars(self, *, numbered: bool = True) -> tuple[Bars, ...]:
        """Each group scaled to its own size, the second hatched; ``numbered`` names say how many nodes there are."""
        centres, width = (self.edges[:-1] + self.edges[1:]) / 2, float(self.edges[1] - self.edges[0])
        return tuple(
            Bars(
                f"{name} (n = {int(counts.sum()):,})" if numbered else name,
                centres,
                100.0 * counts / max(counts.sum(), 1),
                width,
                colour,
                pattern,
                opacity=0.65,
                details=counts.astype(int).tolist(),
                hover="entropy %{x:.2f}: %{customdata} nodes (%{y:.1f} %)",
                legend=len(self.counts) > 1,
            )
            for (name, counts), colour, pattern in zip(self.counts.items(), (RIGHT, WRONG), ("", "/"), strict=False)
        )

    def chart(self) -> Chart:
        x = Axis(LABEL, limits=(float(self.edges[0]), float(self.edges[-1])), grid=False)
        y = Axis("share of its group", unit=" %", zero=True)
        return Chart((Panel(x, y, self.bars()),))


def entropy_histogram(total: np.ndarray, right: np.ndarray | None, num_classes: int) -> go.Figure:
    """Overlaid histograms of the predictive entropy, each scaled to its own group.

    Args:
        total: predictive entropy in nats.  # [n]
        right: whether the prediction is right; ``None`` where nobody knows, then there is one group.  # [n] bool
        num_classes: sets the right end of the axis, ln C.

    Example:
        >>> figure = entropy_histogram(np.array([0.1, 0.6]), np.array([True, False]), num_classes=2)
        >>> [trace.name for trace in figure.data]
        ['right (n = 1)', 'wrong (n = 1)']
    """
    return EntropyHistogram.of(total, right, num_classes).plotly()
