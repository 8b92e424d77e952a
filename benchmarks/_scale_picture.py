"""The curves of benchmarks/scale.py, with what the paper claims as slopes beside them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from graphsde.view.figures.chart import Axis, Chart, Line, Panel
from graphsde.view.figures.print_face import draw_print
from graphsde.view.figures.style import GREY, Look, look, save_figure

TITLES = {"nodes": "nodes", "degree": "edges a node", "steps": "steps L"}
CLAIMS = {"epoch_seconds": "claimed: O(L log L (|E| d + |V| d)) time", "epoch_peak_gb": "claimed: O(1) memory"}


def claimed(sweep: str, figure: str, sizes: np.ndarray) -> np.ndarray | None:
    """What the paper's claim says of growth, up to a factor; of memory it speaks for steps alone."""
    if figure == "epoch_peak_gb":
        return np.ones_like(sizes) if sweep == "steps" else None
    if sweep == "steps":
        return sizes * np.log(np.maximum(sizes, 2.0))
    return sizes + 1.0 if sweep == "degree" else sizes  # |E| + |V| over |V|


def draw(result: dict[str, Any], path: Path) -> Path:
    """Time above, memory below; one column for each way of growing."""
    models = list(dict.fromkeys(model for found in result["sweeps"].values() for model in found))
    looks = {model: look(place) for place, model in enumerate(models)}
    panels = [
        _panel(result["sweeps"][sweep], sweep, figure, looks, _limits(result, figure))
        for figure in ("epoch_seconds", "epoch_peak_gb")
        for sweep in result["sweeps"]
    ]
    chart = Chart(tuple(panels), across=len(result["sweeps"]), size=(3.4, 2.8))
    return save_figure(draw_print(chart), path, dpi=150)


def _limits(result: dict[str, Any], figure: str) -> tuple[float, float] | None:
    """One scale for all panels of memory, so that little growth looks like little."""
    models = [found for sweep in result["sweeps"].values() for found in sweep.values()]
    values = [row[figure] for found in models for row in found["rows"]]
    return (0.8 * min(values), 1.25 * max(values)) if values and figure == "epoch_peak_gb" else None


def _panel(
    models: dict[str, Any], sweep: str, figure: str, looks: dict[str, Look], limits: tuple[float, float] | None
) -> Panel:
    marks = []
    for model, found in models.items():
        rows, style = found["rows"], looks[model]
        if not rows:
            continue
        sizes = [row["size"] for row in rows]
        name = "lgnsde (default, σ = 0.25)" if model == "default" else "lgnsde@paper (d = 64)"
        marks.append(Line(f"{name}, an epoch", sizes, [row[figure] for row in rows], colour=style.colour, dots=True))
        if figure == "epoch_seconds":
            known = [row for row in rows if row["sample_seconds"] is not None]
            marks.append(
                Line(
                    f"{name}, 64 samples",
                    [row["size"] for row in known],
                    [64 * row["sample_seconds"] for row in known],
                    colour=style.colour,
                    dash="dash",
                    symbol="square",
                    dots=True,
                )
            )
        if model == "paper" or len(models) == 1:
            marks += _claim(marks[-1 if figure == "epoch_peak_gb" else -2], sweep, figure)
    unit = "CPU seconds" if figure == "epoch_seconds" else "peak of the process, GB"
    return Panel(Axis(TITLES[sweep], log=bool(marks)), Axis(unit, log=bool(marks), limits=limits), tuple(marks))


def _claim(curve: Line, sweep: str, figure: str) -> list[Line]:
    """Through the first point of a curve, so that one that grows faster than claimed ends above it."""
    sizes = np.asarray(curve.x, dtype=float)
    growth = claimed(sweep, figure, sizes)
    if growth is None:
        return []
    values = growth * (np.asarray(curve.y, dtype=float)[0] / growth[0])
    return [Line(CLAIMS[figure], sizes, values, colour=GREY, dash="dot")]
