"""The trade-off between errors and accepted nodes: the numbers behind the slider."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from graphsde.acting.abstain import Abstention
from graphsde.acting.decisions import Decisions
from graphsde.view.figures.chart import Axis, Chart, Line, Panel
from graphsde.view.figures.picture import Picture
from graphsde.view.figures.style import BLUE, GREEN, GREY, ORANGE


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


@dataclass(frozen=True, eq=False)
class AbstentionPicture(Picture):
    """Error rate and its bound against the share of nodes accepted, with the slider's choice."""

    abstention: Abstention

    def chart(self) -> Chart:
        found, curve = self.abstention, self.abstention.curve
        x, allowed = 100 * curve.coverages, 100 * found.max_error
        bound = 100 * np.where(curve.accepted > 0, curve.upper_bounds, np.nan)
        top = float(np.nanmax(np.minimum(bound, 100.0), initial=1.0))
        last = float(np.nan_to_num(curve.calibration_errors[-1]))
        ceiling = min(100.0, max(3.0 * 100 * found.max_error, 1.2 * 100 * last, 2.0), 1.1 * top)
        hover = "answering %{x:.1f} %: %{y:.2f} %"
        marks = [
            Line("on calibration nodes", x, 100 * curve.calibration_errors, BLUE, width=2.5, hover=hover),
            Line("upper bound", x, np.minimum(bound, ceiling), ORANGE, "dash", hover=hover),
            Line("allowed", [0, 100], [allowed] * 2, GREY, "dot", hover=None),
        ]
        if found.threshold is not None:
            marks.append(Line("chosen", [100 * found.coverage] * 2, [0, ceiling], GREEN, width=2.5, hover=None))
        answered = Axis("nodes accepted, most certain first", " %", limits=(0.0, 100.0), grid=False)
        wrong = Axis("wrong among them", " %", limits=(0.0, ceiling))
        return Chart((Panel(answered, wrong, tuple(marks)),), page_height=340)
