"""Entropies of two groups of nodes under several systems: the paper's figure 2."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphsde.runs.cells import Cell
from graphsde.scores.entropy_bins import entropy_edges
from graphsde.view.figures.chart import Axis, Chart, Panel
from graphsde.view.figures.entropy_histogram import LABEL, EntropyHistogram
from graphsde.view.figures.picture import Picture

GROUPS = {"errors": ("right", "wrong"), "foreign": ("familiar", "foreign")}


@dataclass(frozen=True)
class EntropyGroup:
    """One panel: a system, what its nodes are told apart by, and how much more entropy the second group has."""

    system: str
    groups: str
    histogram: EntropyHistogram
    gap: float


@dataclass(frozen=True, eq=False)
class EntropyByModel(Picture):
    """Right against wrong above, familiar against foreign below, a column for every system."""

    parts: tuple[EntropyGroup, ...]

    @classmethod
    def of(cls, records: Iterable[Mapping[str, Any]]) -> EntropyByModel:
        """From cells of the task ``entropies``; counts are added up over seeds, gaps are means over them."""
        found: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
        for record in records:
            cell = Cell(**record["cell"])
            if cell.task == "entropies" and record["status"] == "done":
                found.setdefault((str(cell.options.get("groups", "errors")), cell.label), []).append(record)
        parts = []
        for (groups, system), cells in found.items():
            edges = entropy_edges(int(cells[0]["metrics"]["num_classes"]))
            counts = {
                name: np.sum([cell["curves"][key] for cell in cells], axis=0)
                for name, key in zip(GROUPS[groups], ("sure", "unsure"), strict=True)
            }
            gaps = [cell["metrics"]["entropy_gap"] for cell in cells if cell["metrics"]["entropy_gap"] is not None]
            gap = float(np.mean(gaps)) if gaps else float("nan")
            parts.append(EntropyGroup(system, groups, EntropyHistogram(edges, counts), gap))
        order = list(dict.fromkeys(part.system for part in parts))
        parts.sort(key=lambda part: (list(GROUPS).index(part.groups), order.index(part.system)))
        return cls(tuple(parts))

    def chart(self) -> Chart:
        systems = list(dict.fromkeys(part.system for part in self.parts))
        # as many in a row as a printed page takes, so that a new group begins a new row
        across = next((n for n in (3, 4, 2) if len(systems) > 4 and len(systems) % n == 0), len(systems))
        panels = []
        for place, part in enumerate(self.parts):
            first, last_row = place % across == 0, place >= len(self.parts) - across
            more = "" if np.isnan(part.gap) else f": {GROUPS[part.groups][1]} {part.gap:+.0%}"
            edges = part.histogram.edges
            panels.append(
                Panel(
                    Axis(LABEL if last_row else "", limits=(0.0, float(edges[-1])), grid=False),
                    Axis("share of its group" if first else "", " %", zero=True),
                    part.histogram.bars(numbered=False),
                    title=f"{part.system}{more}",
                )
            )
        return Chart(tuple(panels), across=across, page_across=1, size=(3.0, 1.95), page_height=240)
