"""The paper's figures from the journals that ``graphsde reproduce`` keeps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from graphsde.bench.paper import PaperTable
from graphsde.view.figures.bench import Curves, gather
from graphsde.view.figures.dynamics import EntropyByModel, PhasePortrait
from graphsde.view.figures.picture import Picture

Journals = Iterable[tuple[PaperTable, list[Mapping[str, Any]]]]
"""A plan and the records of its cells."""
TITLES = {"random": "at random", "entropy": "by entropy"}


def active_figure(journals: Journals) -> Picture:
    """Accuracy over the number of labels, acquired at random (left) and by entropy (right)."""
    curves = []
    for plan, records in journals:
        who = str(plan.options["acquisition"])
        curves += list(gather(records, "labels", "accuracy", f"labels acquired {TITLES.get(who, 'by ' + who)}"))
    return Curves(tuple(curves), "labels", "accuracy on test nodes", percent=True)


def _all(journals: Journals) -> list[Mapping[str, Any]]:
    return [record for _, records in journals for record in records]


PAPER_FIGURES: dict[str, Callable[[Journals], Picture]] = {
    # figure 2: right and wrong above, in-distribution and OOD below
    "figure-entropy": lambda journals: EntropyByModel.of(_all(journals)),
    "figure-active": active_figure,
    # figure 1 and its variant with another drift
    "figure-dynamics": lambda journals: PhasePortrait.of(_all(journals)),
}
