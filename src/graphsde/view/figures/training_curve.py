"""How training went: loss on training nodes, and validation metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphsde.view.figures.chart import Axis, Chart, Dash, Line, Panel
from graphsde.view.figures.picture import Picture
from graphsde.view.figures.style import BLUE, GREEN, GREY, VERMILLION, thin


def history_column(history: Sequence[Mapping[str, Any]], key: str) -> np.ndarray:
    """One column of a training history, NaN if a row has no usable number.  # [n]"""
    values = (row.get(key) for row in history)
    return np.array([float(v) if isinstance(v, int | float | np.number) else np.nan for v in values], dtype=np.float64)


def best_epoch(history: Sequence[Mapping[str, Any]]) -> int | None:
    """The epoch that early stopping keeps: the last one that was better than all before; where a history does not say,
    that of the lowest validation NLL."""
    if marked := [row["epoch"] for row in history if row.get("best")]:
        return int(marked[-1])
    epochs, val_nll = history_column(history, "epoch"), history_column(history, "val_nll")
    known = np.isfinite(val_nll) & np.isfinite(epochs)
    return int(epochs[known][val_nll[known].argmin()]) if known.any() else None


@dataclass(frozen=True, eq=False)
class TrainingCurve(Picture):
    """Losses above, validation accuracy below, over epochs, with the kept epoch marked.

    Args:
        lines: epochs and values by name; each has the epochs at which it was measured.
        best: the epoch kept.
    """

    lines: dict[str, tuple[np.ndarray, np.ndarray]]
    best: int | None

    @classmethod
    def of(cls, history: Sequence[Mapping[str, Any]]) -> TrainingCurve:
        """From rows with ``epoch``, ``train_loss``, ``val_nll``, ``val_accuracy``; any but the epoch may be missing."""
        epochs, lines = history_column(history, "epoch"), {}
        for key in ("train_loss", "val_nll", "val_accuracy"):
            values = history_column(history, key)
            rows = np.flatnonzero(np.isfinite(values) & np.isfinite(epochs))
            lines[key] = (epochs[rows], values[rows])
        return cls(lines, best_epoch(history))

    def chart(self) -> Chart:
        x = Axis("epoch", grid=False)
        loss = (self._line("train_loss", "training loss", GREY), self._line("val_nll", "validation NLL", BLUE))
        accuracy = (self._line("val_accuracy", "validation accuracy", GREEN),)
        panels = ((Axis("loss (nats)"), loss), (Axis("accuracy", " %"), accuracy))
        drawn = tuple(Panel(x, y, (*lines, *self._kept(lines))) for y, lines in panels)
        return Chart(drawn, size=(4.8, 2.0), page_height=230, heights=(1.6, 1.0), shared_x=True)

    def _line(self, key: str, name: str, colour: str) -> Line:
        epochs, values = self.lines[key]
        rows = thin(len(epochs))  # thinned per line: validation may be measured every few epochs only
        percent = key == "val_accuracy"
        hover = "epoch %{x}: %{y:.4g}" + (" %" if percent else "")
        scale = 100.0 if percent else 1.0
        dash: Dash = "dot" if key == "train_loss" else "dash" if percent else "solid"
        return Line(name, epochs[rows], scale * values[rows], colour, dash, hover=hover)

    def _kept(self, lines: tuple[Line, ...]) -> tuple[Line, ...]:
        seen = [float(value) for line in lines for value in line.y]
        if self.best is None or not seen:
            return ()
        ends = [min(seen), max(seen)]
        return (Line("kept epoch", [float(self.best)] * 2, ends, VERMILLION, "dashdot", 1.5, hover="kept: epoch %{x}"),)
