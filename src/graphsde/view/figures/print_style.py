"""What all matplotlib pictures share: no global state, sizes for print, colours that everybody can tell apart."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from graphsde import storage

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STYLE: dict[str, Any] = {
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.labelsize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "svg.hashsalt": "graphsde",
}


@contextmanager
def print_figure(width: float, height: float, **grid: Any) -> Iterator[tuple[Figure, Any]]:
    """A figure in inches with its axes, drawn without a display and without pyplot's global state."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with mpl.rc_context(STYLE):  # type: ignore[arg-type]
        figure = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasAgg(figure)
        yield figure, figure.subplots(**grid)


def save_figure(figure: Figure, path: Path, dpi: int = 200) -> Path:
    """PNG, SVG or PDF by suffix; without a date, so that the same data gives the same file."""
    import io

    import matplotlib as mpl

    buffer = io.BytesIO()
    kind = path.suffix.lstrip(".") or "png"
    with mpl.rc_context(STYLE):  # type: ignore[arg-type]
        figure.savefig(buffer, format=kind, dpi=dpi, metadata={"Date": None} if kind in ("svg", "pdf") else None)
    storage.write_bytes(path, buffer.getvalue())
    return path
