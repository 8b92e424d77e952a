"""What systems cost: seconds per epoch and memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphsde.runs.compare import collect
from graphsde.view.figures.chart import Axis, Bars, Chart, Panel
from graphsde.view.figures.palette import BLUE, GREEN, ORANGE
from graphsde.view.figures.picture import Picture

# metric, title, axis, scale, colour
QUANTITIES = (
    ("epoch_seconds", "one epoch", "CPU seconds", 1.0, BLUE),
    ("predict_seconds", "one prediction", "CPU seconds", 1.0, ORANGE),
    ("peak_bytes", "memory above the start", "MB", 1e-6, GREEN),
)


@dataclass(frozen=True, eq=False)
class CostPanel(Picture):
    """Medians over seeds, on logarithmic axes, cheapest first.

    Args:
        systems: from cheap to dear.
        values: by quantity, NaN where not measured.  # [systems] each
    """

    systems: tuple[str, ...]
    values: dict[str, np.ndarray]

    @classmethod
    def of(cls, records: Iterable[Mapping[str, Any]], dataset: str) -> CostPanel:
        """From cells of the task ``cost`` on one graph."""
        runs = collect(records).get(dataset, {})
        known = {name: found for name, found in runs.items() if found.values}
        table = {
            key: {
                name: _median([run.get(key, np.nan) for run in found.values.values()]) for name, found in known.items()
            }
            for key, *_ in QUANTITIES
        }
        systems = sorted(known, key=lambda name: table["epoch_seconds"][name])
        return cls(tuple(systems), {key: np.array([row[name] for name in systems]) for key, row in table.items()})

    def chart(self) -> Chart:
        names, places = tuple(reversed(self.systems)), np.arange(len(self.systems))
        panels = []
        for place, (key, title, unit, scale, colour) in enumerate(QUANTITIES):
            values = scale * self.values[key][::-1]
            shown = np.isfinite(values) & (values > 0)
            bars = Bars(
                title,
                places[shown],
                values[shown],
                0.7,
                colour,
                horizontal=True,
                labels=[f"{value:,.0f}" if value >= 100 else f"{value:.3g}" for value in values[shown]],
                legend=False,
                hover="%{x:.3g}",
            )
            low, high = (values[shown].min(), values[shown].max()) if shown.any() else (1.0, 10.0)
            limits = (10 ** np.floor(np.log10(low) - 0.01), float(high) * (high / low) ** 0.25 * 1.6)
            y = Axis(names=names if place == 0 else ("",) * len(names), grid=False)
            panels.append(
                Panel(Axis(unit, log=True, limits=(float(limits[0]), float(limits[1]))), y, (bars,), title=title)
            )
        height = 0.9 + 0.22 * len(names)
        return Chart(tuple(panels), across=3, size=(3.2, height), page_height=90 + 24 * len(names), legend=False)

    def columns(self) -> dict[str, list[Any]]:
        return {"system": list(self.systems)} | {key: _plain(values) for key, values in self.values.items()}


def _median(values: list[float]) -> float:
    known = [value for value in values if not np.isnan(value)]
    return float(np.median(known)) if known else float("nan")


def _plain(values: np.ndarray) -> list[float | None]:
    return [float(value) if np.isfinite(value) else None for value in values]
