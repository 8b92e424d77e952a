"""What noisy features do: to accuracy, and to the latent state against the bound of proposition 2."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from graphsde.view.figures.chart import Axis, Chart, Line, Panel
from graphsde.view.figures.curves import Curve, Curves
from graphsde.view.figures.palette import BLUE, GREEN, ORANGE, VERMILLION
from graphsde.view.figures.picture import Picture

STYLES = {"exponential": (VERMILLION, "dash"), "chain": (ORANGE, "dashdot"), "contractive": (GREEN, "dot")}


@dataclass(frozen=True, eq=False)
class NoiseRobustness(Picture):
    """Accuracy of systems over the severity of the noise; beside it how far the states of one of them move.

    Args:
        accuracy: of every system, over severity.
        severity: where the states were looked at.  # [k]
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
            colour, dash = STYLES[name]
            shown = np.isfinite(right)
            lines.append(Line(f"{name} bound", self.start[shown], right[shown], colour, dash))  # type: ignore[arg-type]
        right_panel = Panel(
            Axis("ε: distance of the initial states", log=True),
            Axis("distance at the horizon", log=True),
            tuple(lines),
            title="proposition 2 under this noise",
        )
        return Chart((*left.panels, right_panel), across=len(left.panels) + 1, size=(3.9, 3.1), page_height=340)
