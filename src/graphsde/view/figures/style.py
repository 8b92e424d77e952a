"""What all figures share: colours that are distinct for the colour-blind, marks, axes, sizes."""

from __future__ import annotations

import html
import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from graphsde.base import storage
from graphsde.base.errors import shorten

if TYPE_CHECKING:
    from matplotlib.figure import Figure


BLUE = "#0072B2"
VERMILLION = "#D55E00"
GREEN = "#009E73"
ORANGE = "#E69F00"
SKY = "#56B4E9"
PURPLE = "#CC79A7"
GREY = "#8A8F98"
WINE = "#882255"
VIOLET = "#7B2FD6"
INK = "#3f4650"

RIGHT = BLUE
WRONG = VERMILLION

# no yellow, which can't be seen on white paper, and no grey, which is PURPLE to whoever sees no green
CLASS_COLOURS = (BLUE, ORANGE, GREEN, PURPLE, SKY, VERMILLION, WINE, VIOLET)
LINE_COLOURS = (VERMILLION, BLUE, GREEN, PURPLE, SKY, ORANGE, WINE, VIOLET)


def class_colour(index: int) -> str:
    """Colour of a class; with more classes than colours they repeat, so always show the name, too."""
    return CLASS_COLOURS[index % len(CLASS_COLOURS)]


def translucent(colour: str, alpha: float) -> str:
    """A translucent colour, for overlapping bands."""
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{alpha})"


Dash = Literal["solid", "dash", "longdash", "dashdot", "dot"]
Symbol = Literal["circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "x", "star"]
SYMBOLS: tuple[Symbol, ...] = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "x", "star")
DASHES: tuple[Dash, ...] = ("solid", "dash", "dot", "dashdot")


@dataclass(frozen=True)
class Look:
    """Of one system: a curve uses colour, dash and symbol; dots whose shape means something else use the filling."""

    colour: str
    dash: Dash
    symbol: Symbol
    filled: bool


def look(index: int) -> Look:
    """The look of the n-th system; 32 differ as curves, 16 as dots of one shape, and eight without their colours.

    Example:
        >>> len({look(i) for i in range(32)}), len({(look(i).colour, look(i).filled) for i in range(16)})
        (32, 16)
    """
    turn = index // len(LINE_COLOURS)
    symbol, dash = SYMBOLS[(index + turn) % len(SYMBOLS)], DASHES[(index + turn) % len(DASHES)]
    return Look(LINE_COLOURS[index % len(LINE_COLOURS)], dash, symbol, turn % 2 == 0)


MAX_POINTS = 400
NEUTRAL_INK = "#767b84"  # readable on white and on near-black; the report replaces it by the reader's colour scheme
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"


def axis(title: str, **settings: Any) -> dict[str, Any]:
    return {
        "title": {"text": title, "standoff": 10, "font": {"size": 13}},
        "automargin": True,
        "fixedrange": True,  # scrolling on a phone must not zoom the figure
        "zeroline": False,
        "showline": True,
        "linecolor": NEUTRAL_INK,
        "gridcolor": "rgba(128,128,128,0.22)",
        "ticks": "",
        "ticklabeloverflow": "allow",
        **settings,
    }


def layout(*, height: int = 360, **settings: Any) -> dict[str, Any]:
    return {
        "template": {},
        "height": height,
        "autosize": True,
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"family": FONT, "size": 13, "color": NEUTRAL_INK},
        "margin": {"l": 56, "r": 30, "t": 36, "b": 48},
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "xanchor": "left", "yanchor": "bottom"},
        "dragmode": False,
        "hovermode": "closest",
        **settings,
    }


def plot_text(value: object, limit: int = 60) -> str:
    """Untrusted text, escaped for plotly, which reads a subset of HTML in its labels."""
    plain = value.item() if isinstance(value, np.generic) else value
    return html.escape(shorten(plain, limit))


def numbers(values: np.ndarray | Sequence[float]) -> list[float | None]:
    """Plain numbers with five significant digits; nonfinite values become gaps."""
    return [float(f"{v:.5g}") if np.isfinite(v) else None for v in np.asarray(values, dtype=np.float64).tolist()]


def thin(length: int, limit: int = MAX_POINTS) -> np.ndarray:
    """Positions of at most ``limit`` points spread evenly over a curve, both ends kept."""
    if length <= limit:
        return np.arange(length)
    return np.unique(np.linspace(0, length - 1, limit).round().astype(np.int64))


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

    class Shown(Figure):
        """A figure that a notebook shows as it is, whatever backend matplotlib has."""

        def _repr_png_(self) -> bytes:
            buffer = io.BytesIO()
            self.savefig(buffer, format="png", dpi=110)
            return buffer.getvalue()

    with mpl.rc_context(STYLE):  # type: ignore[arg-type]
        figure = Shown(figsize=(width, height), layout="constrained")
        FigureCanvasAgg(figure)
        yield figure, figure.subplots(**grid)


def save_figure(figure: Figure, path: Path, dpi: int = 200) -> Path:
    """PNG, SVG or PDF by suffix; without a date, so that the same data gives the same file."""
    import matplotlib as mpl

    buffer = io.BytesIO()
    kind = path.suffix.lstrip(".") or "png"
    with mpl.rc_context(STYLE):  # type: ignore[arg-type]
        figure.savefig(buffer, format=kind, dpi=dpi, metadata={"Date": None} if kind in ("svg", "pdf") else None)
    storage.write_bytes(path, buffer.getvalue())
    return path
