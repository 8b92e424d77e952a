"""What a limit on errors costs in answers: the frontier as a picture, and what is counted under one limit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from graphsde.acting.certified import Frontier
from graphsde.acting.decision_words import percent
from graphsde.acting.decisions import Decisions
from graphsde.acting.ladder import Status
from graphsde.graph.graph import Graph
from graphsde.view.figures.chart import Axis, Chart, Dots, Line, Panel
from graphsde.view.figures.picture import Picture
from graphsde.view.figures.style import BLUE, GREEN, GREY, VERMILLION, Symbol


@dataclass(frozen=True)
class Outcome:
    """Decisions as shown on the page, counted over nodes not used for training or calibration.

    Args:
        accepted, review, OOD: how many got each action.
        tested, wrong: accepted test nodes, and how many of those are wrong: a check of the guarantee, not part of it;
            cross-fitted if the test nodes were calibrated on.
    """

    accepted: int
    review: int
    ood: int
    tested: int
    wrong: int

    @property
    def share(self) -> float:
        return self.accepted / max(self.accepted + self.review + self.ood, 1)

    @property
    def error(self) -> float | None:
        return self.wrong / self.tested if self.tested else None


def outcome(decisions: Decisions) -> Outcome:
    counts = decisions.decided_counts()
    test = decisions.summary().get("test", {"accepted": 0, "wrong": 0})
    return Outcome(counts["accept"], counts["review"], counts.get("ood", 0), test["accepted"], test["wrong"])


def usual_tolerance(graph: Graph) -> float:
    """How far off a number may be by default: half the spread of the values that are known."""
    known = np.zeros(0) if graph.values is None else graph.values[graph.role("train") & graph.labelled]
    spread = float(known.std()) / 2 if len(known) else 1.0
    return float(f"{spread or 1.0:.2g}")


STATUS: dict[Status, tuple[str, str, Symbol]] = {
    "certified": ("holds", GREEN, "circle"),
    "failed": ("failed", VERMILLION, "x"),
    "not tested": ("not tested", GREY, "diamond"),
}


@dataclass(frozen=True, eq=False)
class FrontierPicture(Picture):
    """Which limits on errors hold, and how many nodes each accepts; the limit in use is ringed.

    Args:
        frontier: all limits of the ladder.
        in_use: the limit that the decisions shown were made at.
    """

    frontier: Frontier
    in_use: float | None = None

    @property
    def limits(self) -> tuple[float, ...]:
        """From the strictest to the loosest, as they stand along the axis: a point's x is its place here."""
        return tuple(one.limit for one in reversed(self.frontier.rungs))

    def chart(self) -> Chart:
        rungs = self.frontier.rungs[::-1]
        shares = 100 * np.array([one.accepted_share for one in rungs])
        marks: list[Line | Dots] = [
            Line("", np.arange(len(rungs)), shares, GREY, "dot", width=1.2, legend=False, hover=None)
        ]
        for place, one in enumerate(rungs):
            if self.in_use is not None and abs(one.limit - self.in_use) < 1e-12:
                ring = Dots("in use", [place], [shares[place]], BLUE, size=24, filled=False, opacity=1.0)
                marks.append(replace(ring, hover="%{y:.1f} % of the nodes"))
        for status, (name, colour, symbol) in STATUS.items():
            places = [place for place, one in enumerate(rungs) if one.status == status]
            if places:
                hover = f"limit %{{text}}, {name}: %{{y:.1f}} % of the nodes"
                texts = [percent(rungs[place].limit) for place in places]
                marks.append(
                    Dots(name, places, shares[places], colour, symbol, size=13, opacity=1.0, texts=texts, hover=hover)
                )
        names = tuple(percent(limit) for limit in self.limits)
        limit = Axis("error limit", names=names, grid=False, limits=(-0.5, len(rungs) - 0.5))
        answered = Axis("nodes answered", " %", limits=(-4.0, 108.0))
        return Chart((Panel(limit, answered, tuple(marks)),), page_height=270)

    def clicked(self, points: Sequence[Mapping[str, Any]]) -> float | None:
        """The limit at the first of some points that were clicked."""
        for point in points:
            place = point.get("x")
            if isinstance(place, int | float) and 0 <= round(place) < len(self.limits):
                return self.limits[round(place)]
        return None
