"""The curves of benchmarks/scale.py, with what the paper claims as slopes beside them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from graphsde.view.figures.chart import Axis, Chart, Line, Panel
from graphsde.view.figures.print_face import draw_print
from graphsde.view.figures.style import GREY, Look, look, save_figure

TITLES = {"nodes": "nodes", "degree": "edges a node", "steps": "steps L"}
CLAIMS = {
    "epoch_seconds": "claimed: O(L log L (|E| d + |V| d)) time",
    "epoch_peak_gb": "claimed: O(1) memory in L, linear in the graph",
}


def claimed(sweep: str, figure: str, sizes: np.ndarray) -> np.ndarray:
    """What the paper's claim says of growth, up to a factor."""
    if sweep != "steps":
        return sizes
    return sizes * np.log(np.maximum(sizes, 2.0)) if figure == "epoch_seconds" else np.ones_like(sizes)


def draw(result: dict[str, Any], path: Path) -> Path:
    """Time above, memory below; one column for each way of growing."""
    models = list(dict.fromkeys(model for found in result["sweeps"].values() for model in found))
    looks = {model: look(place) for place, model in enumerate(models)}
    panels = [
        _panel(result["sweeps"][sweep], sweep, figure, looks)
        for figure in ("epoch_seconds", "epoch_peak_gb")
        for sweep in result["sweeps"]
    ]
    chart = Chart(tuple(panels), across=len(result["sweeps"]), size=(3.4, 2.8))
    return save_figure(draw_print(chart), path, dpi=150)


def _panel(models: dict[str, Any], sweep: str, figure: str, looks: dict[str, Look]) -> Panel:
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
    if marks:
        marks.append(_claim(marks[0], sweep, figure))
    unit = "CPU seconds" if figure == "epoch_seconds" else "peak of the process, GB"
    return Panel(Axis(TITLES[sweep], log=bool(marks)), Axis(unit, log=bool(marks)), tuple(marks))


def _claim(curve: Line, sweep: str, figure: str) -> Line:
    """Through the last point of a curve, so that a steeper curve comes from below."""
    sizes = np.asarray(curve.x, dtype=float)
    growth = claimed(sweep, figure, sizes)
    values = growth * (np.asarray(curve.y, dtype=float)[-1] / growth[-1])
    return Line(CLAIMS[figure], sizes, values, colour=GREY, dash="dot")
