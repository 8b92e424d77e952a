"""How training went: loss on training nodes, and what validation nodes said about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from graphsde.view.figures.palette import BLUE, GREEN, GREY, VERMILLION
from graphsde.view.figures.plot_style import axis, layout, numbers, thin

if TYPE_CHECKING:
    import plotly.graph_objects as go


def history_column(history: Sequence[Mapping[str, Any]], key: str) -> np.ndarray:
    """One column of a training history, NaN where a row has no usable number.  # [n]"""
    values = [row.get(key) for row in history]
    numeric = [float(v) if isinstance(v, int | float | np.number) else np.nan for v in values]
    return np.array(numeric, dtype=np.float64)


def best_epoch(history: Sequence[Mapping[str, Any]]) -> int | None:
    """Epoch with the lowest validation NLL, the one that early stopping keeps."""
    epochs, val_nll = history_column(history, "epoch"), history_column(history, "val_nll")
    known = np.isfinite(val_nll) & np.isfinite(epochs)
    return int(epochs[known][val_nll[known].argmin()]) if known.any() else None


def training_curve(history: Sequence[Mapping[str, Any]]) -> go.Figure:
    """Losses above, validation accuracy below, over epochs, with the kept epoch marked.

    Args:
        history: rows with ``epoch``, ``train_loss``, ``val_nll``, ``val_accuracy``; any but the epoch may be missing.

    Example:
        >>> figure = training_curve([{"epoch": 1, "train_loss": 2.0, "val_nll": 2.1, "val_accuracy": 0.3}])
        >>> [trace.name for trace in figure.data]
        ['training loss', 'validation NLL', 'validation accuracy']
    """
    import plotly.graph_objects as go

    epochs = history_column(history, "epoch")
    lines = [
        ("train_loss", "training loss", GREY, "solid", "y", 1.0),
        ("val_nll", "validation NLL", BLUE, "solid", "y", 1.0),
        ("val_accuracy", "validation accuracy", GREEN, "dash", "y2", 100.0),
    ]
    traces = []
    for key, name, colour, dash, side, scale in lines:
        values = history_column(history, key) * scale
        # thinned per line: validation may be measured every few epochs only
        rows = np.flatnonzero(np.isfinite(values) & np.isfinite(epochs))
        rows = rows[thin(len(rows))]
        traces.append(
            go.Scatter(
                name=name,
                x=numbers(epochs[rows]),
                y=numbers(values[rows]),
                yaxis=side,
                mode="lines" if len(rows) > 1 else "markers",
                line={"color": colour, "width": 2, "dash": dash},
                hovertemplate="epoch %{x}: %{y:.4g}" + (" %" if side == "y2" else "") + f"<extra>{name}</extra>",
            )
        )
    best = best_epoch(history)
    marks = [] if best is None else [_vertical(best)]
    return go.Figure(
        data=traces,
        layout=layout(
            height=460,
            xaxis=axis("epoch", anchor="y2", showgrid=False),
            yaxis=axis("loss (nats)", domain=[0.44, 1.0]),
            yaxis2=axis("accuracy", domain=[0.0, 0.34], ticksuffix=" %", anchor="x"),
            shapes=marks,
        ),
    )


def _vertical(epoch: int) -> dict[str, Any]:
    line = {"color": VERMILLION, "width": 1.5, "dash": "dot"}
    return {"type": "line", "x0": epoch, "x1": epoch, "y0": 0, "y1": 1, "xref": "x", "yref": "paper", "line": line}
