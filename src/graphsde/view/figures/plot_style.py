"""What all plotly pictures share: transparent paper, quiet axes, no dragging, short numbers, harmless text."""

from __future__ import annotations

import html
from typing import Any

import numpy as np

from graphsde.errors import shorten

MAX_POINTS = 400
NEUTRAL_INK = "#767b84"  # readable on white and on near-black; the report replaces it by the reader's colour scheme
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"


def axis(title: str, **settings: Any) -> dict[str, Any]:
    return {
        "title": {"text": title, "standoff": 10, "font": {"size": 13}},
        "automargin": True,
        "fixedrange": True,  # a finger that scrolls the page must not zoom the picture
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
    """Text of unknown origin, made harmless for plotly, which reads a subset of HTML in its labels."""
    plain = value.item() if isinstance(value, np.generic) else value
    return html.escape(shorten(plain, limit))


def numbers(values: np.ndarray) -> list[float | None]:
    """Plain numbers with five significant digits; what is not finite becomes a gap."""
    return [float(f"{v:.5g}") if np.isfinite(v) else None for v in np.asarray(values, dtype=np.float64).tolist()]


def thin(length: int, limit: int = MAX_POINTS) -> np.ndarray:
    """Positions of at most ``limit`` points spread evenly over a curve, both ends kept."""
    if length <= limit:
        return np.arange(length)
    return np.unique(np.linspace(0, length - 1, limit).round().astype(np.int64))
