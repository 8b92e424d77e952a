"""Class probabilities of one node along the paths of a stochastic model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from graphsde.prediction import Trajectories
from graphsde.view.figures.chart import Axis, Chart, Line, Panel
from graphsde.view.figures.palette import class_colour
from graphsde.view.figures.picture import Picture

if TYPE_CHECKING:
    import plotly.graph_objects as go

SHOWN_CLASSES = 3
SHOWN_PATHS = 12


def leading_classes(trajectories: Trajectories, node: int, count: int = SHOWN_CLASSES) -> np.ndarray:
    """The classes that are most probable at the horizon, first the leading one."""
    final = trajectories.probs[-1, :, node].mean(axis=0)
    return np.argsort(-final, kind="stable")[:count]


@dataclass(frozen=True, eq=False)
class SamplePaths(Picture):
    """Mean, 90 % band and a dozen single paths of the three leading classes of one node over time.

    Args:
        trajectories: of one or more nodes.
        node: which of them.
    """

    trajectories: Trajectories
    node: int = 0

    def chart(self) -> Chart:
        given, marks = self.trajectories, []
        for position in leading_classes(given, self.node):
            values = given.probs[:, :, self.node, position]
            low, high = given.band(self.node, int(position))
            name, colour = f"class {given.class_names[position]}", class_colour(int(position))
            marks += [
                Line(name, given.times, path, colour, width=0.7, opacity=0.35, legend=False, hover=None)
                for path in values.T[:SHOWN_PATHS]
            ]
            marks.append(
                Line(
                    name,
                    given.times,
                    values.mean(axis=1),
                    colour,
                    width=2.5,
                    dots=True,
                    low=low,
                    high=high,
                    band_opacity=0.15,
                    hover="t = %{x}: %{y:.1%}",
                )
            )
        x = Axis("time of the latent dynamics")
        return Chart((Panel(x, Axis("probability", zero=True), tuple(marks)),))


def sample_paths(trajectories: Trajectories, node: int) -> go.Figure:
    """The paths as a plotly figure.

    Args:
        trajectories: of one or more nodes.
        node: which of them.

    Example:
        >>> steps = Trajectories(np.arange(3.0), np.full((3, 4, 1, 2), 0.5), np.array([7]), ("a", "b"))
        >>> [trace.name for trace in sample_paths(steps, 0).data if trace.name]
        ['class a', 'class b']
    """
    return SamplePaths(trajectories, node).plotly()
