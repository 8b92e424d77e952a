"""Telling foreign nodes from familiar ones at every threshold: ROC, precision and recall, and the point of FPR95."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from graphsde.scores.metrics.detection import fpr95
from graphsde.scores.metrics.ranking import auroc, average_precision, tied_blocks
from graphsde.view.figures.chart import Axis, Chart, Dots, Line, Mark, Panel
from graphsde.view.figures.looks import look
from graphsde.view.figures.palette import GREY
from graphsde.view.figures.picture import Picture
from graphsde.view.figures.plot_style import thin


@dataclass(frozen=True, eq=False)
class Detection:
    """One score's curves; a node is accepted as familiar if its uncertainty is at most the threshold.

    Args:
        accepted_familiar, accepted_foreign: shares accepted as the threshold rises, from 0 to 1.  # [B + 1] each
        recall, precision: of finding foreign nodes by high uncertainty, tied nodes together.  # [B] each
        auroc, aupr, fpr95: the areas, and the share of foreign nodes accepted along with 95 % of the familiar ones.
        chance: precision of a random choice.
    """

    accepted_familiar: np.ndarray
    accepted_foreign: np.ndarray
    recall: np.ndarray
    precision: np.ndarray
    auroc: float
    aupr: float
    fpr95: float
    chance: float

    @classmethod
    def of(cls, inside: np.ndarray, outside: np.ndarray) -> Detection:
        """From uncertainties of familiar [n] and foreign [m] nodes, neither of them empty."""
        values = np.concatenate([inside, outside])
        foreign = np.repeat([False, True], [len(inside), len(outside)])
        _, size, hits = tied_blocks(values, foreign)
        found, chosen = np.cumsum(hits[::-1]), np.cumsum(size[::-1])
        return cls(
            np.concatenate([[0.0], np.cumsum(size - hits) / len(inside)]),
            np.concatenate([[0.0], np.cumsum(hits) / len(outside)]),
            found / len(outside),
            found / chosen,
            auroc(values, foreign),
            average_precision(values, foreign),
            fpr95(inside, outside),
            len(outside) / len(values),
        )


@dataclass(frozen=True, eq=False)
class DetectionCurves(Picture):
    """ROC on the left, precision against recall on the right; a curve for every score or system."""

    systems: dict[str, Detection]

    @classmethod
    def of(cls, systems: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> DetectionCurves:
        """From uncertainties of familiar and of foreign nodes, by name."""
        return cls({name: Detection.of(inside, outside) for name, (inside, outside) in systems.items()})

    def chart(self) -> Chart:
        roc: list[Mark] = [Line("chance", [0.0, 100.0], [0.0, 100.0], GREY, "dot", 1.5, hover=None)]
        recall: list[Mark] = []
        for place, (name, found) in enumerate(self.systems.items()):
            how = look(place)
            label = f"{name}: AUROC {found.auroc:.3f}, AUPR {found.aupr:.3f}, FPR95 {found.fpr95:.1%}"
            at = thin(len(found.accepted_foreign))
            told = "%{x:.1f} % of foreign, %{y:.1f} % of familiar nodes accepted"
            roc.append(
                Line(
                    label,
                    100 * found.accepted_foreign[at],
                    100 * found.accepted_familiar[at],
                    how.colour,
                    how.dash,
                    hover=told,
                )
            )
            roc.append(
                Dots(label, [100 * found.fpr95], [95.0], how.colour, "diamond", size=9.0, opacity=1.0, legend=False)
            )
            at = thin(len(found.recall))
            recall.append(Line(label, 100 * found.recall[at], 100 * found.precision[at], how.colour, how.dash))
        base = 100 * next(iter(self.systems.values())).chance
        recall.append(Line("chance", [0.0, 100.0], [base, base], GREY, "dot", 1.5, hover=None))
        whole = {"unit": " %", "limits": (0.0, 102.0)}
        return Chart(
            (
                Panel(
                    Axis("foreign nodes accepted", **whole),  # type: ignore[arg-type]
                    Axis("familiar nodes accepted", **whole),  # type: ignore[arg-type]
                    tuple(roc),
                    title="ROC, ◆ at 95 % familiar",
                ),
                Panel(
                    Axis("foreign nodes found (recall)", **whole),  # type: ignore[arg-type]
                    Axis("foreign among the found", **whole),  # type: ignore[arg-type]
                    tuple(recall),
                    title="precision and recall",
                ),
            ),
            across=2,
            size=(3.6, 3.2),
            page_height=360,
        )
