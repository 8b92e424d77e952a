"""Whether stated confidence comes true, and how many nodes say so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from graphsde.scores.metrics import reliability
from graphsde.view.figures.chart import Axis, Bars, Chart, Line, Panel
from graphsde.view.figures.palette import BLUE, GREY, ORANGE
from graphsde.view.figures.picture import Picture

if TYPE_CHECKING:
    import plotly.graph_objects as go

BINS = 15
WIDTH = 100.0 / BINS


@dataclass(frozen=True, eq=False)
class ReliabilityDiagram(Picture):
    """Accuracy against confidence in 15 bins of equal width, with the number of nodes of each bin below.

    Args:
        centre: of the bins that have nodes.  # [b]
        accuracy, confidence: of their nodes.  # [b] each
        count: of their nodes.  # [b]
    """

    centre: np.ndarray
    accuracy: np.ndarray
    confidence: np.ndarray
    count: np.ndarray

    @classmethod
    def of(cls, probs: np.ndarray, labels: np.ndarray) -> ReliabilityDiagram:
        """From mean probabilities [n, C] and true columns [n]."""
        curve = reliability(probs, labels, bins=BINS)
        # a bar stands where its interval is, open on the left; empty bins are not in the curve
        edges = np.linspace(0.0, 1.0, BINS + 1)
        slot = np.clip(np.searchsorted(edges, curve.upper, side="left") - 1, 0, BINS - 1)
        return cls((slot + 0.5) / BINS, curve.accuracy, curve.confidence, curve.count.astype(int))

    def chart(self) -> Chart:
        x, counts = 100 * self.centre, self.count.tolist()
        details = [[round(100 * float(c), 3), n] for c, n in zip(self.confidence, counts, strict=True)]
        told = "confidence %{customdata[0]:.1f} %, right %{y:.1f} %, n = %{customdata[1]}"
        bars = Bars(
            "how often it is right",
            x,
            100 * self.accuracy,
            0.94 * WIDTH,
            BLUE,
            opacity=0.8,
            details=details,
            hover=told,
        )
        honest = Line("honest", [0.0, 100.0], [0.0, 100.0], ORANGE, "dash", 2.5, hover=None)
        below = Bars(
            "nodes in the bin",
            x,
            self.count,
            0.94 * WIDTH,
            GREY,
            opacity=1.0,
            labels=[f"{c:,}" for c in counts],
            legend=False,
            hover="n = %{y}",
        )
        confidence = Axis("stated confidence", " %", limits=(0.0, 100.0), grid=False)
        return Chart(
            (
                Panel(confidence, Axis("right", " %", limits=(0.0, 100.0)), (bars, honest)),
                Panel(confidence, Axis("nodes", zero=True), (below,)),
            ),
            size=(4.6, 2.2),
            page_height=240,
            heights=(2.4, 1.0),
            shared_x=True,
        )


def reliability_diagram(probs: np.ndarray, labels: np.ndarray) -> go.Figure:
    """The diagram as a plotly figure.

    Args:
        probs: mean probabilities.  # [n, C]
        labels: true columns.  # [n]

    Example:
        >>> figure = reliability_diagram(np.array([[0.9, 0.1], [0.9, 0.1]]), np.array([0, 1]))
        >>> figure.data[0].y, figure.data[2].y
        ((50.0,), (2.0,))
    """
    return ReliabilityDiagram.of(probs, labels).plotly()
