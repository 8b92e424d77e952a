"""What moves a node's uncertainty, as two rows of bars."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from graphsde.tasks.explain import Explanation
from graphsde.tasks.explain_numbers import NumericExplanation
from graphsde.view.figures.chart import Axis, Bars, Chart, Panel
from graphsde.view.figures.palette import BLUE, VERMILLION
from graphsde.view.figures.picture import Picture

MOST = 10


@dataclass(frozen=True, eq=False)
class ExplanationBars(Picture):
    """Uncertainty that neighbours and features add to a node (right) or take from it (left).

    Args:
        title: which node, and what is said of it.
        neighbours: names, the largest effect first.
        neighbour_adds: their effect, in nats or in standard deviations of numbers.
        features: names, the largest effect first.
        feature_adds: their effect, likewise.
        unit: of both, for the axes.
    """

    title: str
    neighbours: tuple[str, ...]
    neighbour_adds: tuple[float, ...]
    features: tuple[str, ...]
    feature_adds: tuple[float, ...]
    unit: str = "entropy added (nats)"

    @classmethod
    def of(cls, explanation: Explanation | NumericExplanation) -> ExplanationBars:
        if isinstance(explanation, NumericExplanation):
            return cls._of_numbers(explanation)
        around, own = explanation.neighbours[:MOST], explanation.features[:MOST]
        return cls(
            title=f"node {explanation.id}, predicted {explanation.predicted} ({explanation.confidence:.2f}), "
            f"entropy {explanation.entropy:.2f} nats",
            neighbours=tuple(f"{one.id} ({one.label or one.predicted})" for one in around),
            neighbour_adds=tuple(one.adds for one in around),
            features=tuple(one.name for one in own),
            feature_adds=tuple(one.adds for one in own),
        )

    @classmethod
    def _of_numbers(cls, explanation: NumericExplanation) -> ExplanationBars:
        near, own = explanation.neighbours[:MOST], explanation.features[:MOST]
        return cls(
            title=f"node {explanation.id}, predicted {explanation.mean:.4g} ± {explanation.deviation:.3g}",
            neighbours=tuple(f"{one.id} ({one.mean if one.value is None else one.value:.4g})" for one in near),
            neighbour_adds=tuple(one.adds for one in near),
            features=tuple(one.name for one in own),
            feature_adds=tuple(one.adds for one in own),
            unit="standard deviation added",
        )

    def chart(self) -> Chart:
        panels = []
        for title, names, adds in (
            ("edges to neighbours", self.neighbours, self.neighbour_adds),
            ("own features", self.features, self.feature_adds),
        ):
            if names:
                panels.append(_panel(title, names, adds, self.unit))
        if not panels:
            panels.append(Panel(Axis(self.unit), Axis(), (), "nothing moves it"))
        return Chart(tuple(panels), across=2, size=(4.2, 3.0), title=self.title)


def _panel(title: str, names: Sequence[str], adds: Sequence[float], unit: str) -> Panel:
    heights = np.arange(len(names))[::-1]  # the largest on top
    values = np.array(adds)
    marks = []
    for name, colour, pattern, chosen in (
        ("makes it less sure", VERMILLION, "/", values > 0),
        ("makes it surer", BLUE, "", values <= 0),
    ):
        if chosen.any():
            marks.append(
                Bars(name, heights[chosen], values[chosen], 0.7, colour, pattern, horizontal=True,
                     hover="%{y}: %{x:.4g}")
            )  # fmt: skip
    return Panel(Axis(unit), Axis(names=tuple(reversed(names)), grid=False), tuple(marks), title)
