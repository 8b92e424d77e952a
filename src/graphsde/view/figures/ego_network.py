"""A node and the neighbours it hears from, as a small picture."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from graphsde.errors import shorten
from graphsde.view.figures.palette import class_colour

SIZE = 132
RING = 48.0


@dataclass(frozen=True)
class EgoNode:
    """One dot: what the pointer shows over it, and the class that colours it."""

    text: str
    colour_index: int


def ego_network_svg(centre: EgoNode, neighbours: Sequence[EgoNode], links: np.ndarray) -> str:
    """Inline SVG: the node in the middle, neighbours around it, coloured by predicted class.

    Args:
        centre: the node itself.
        neighbours: around it, clockwise from the top.
        links: whether neighbours are connected among themselves, drawn thin.  # [k, k] bool

    Example:
        >>> svg = ego_network_svg(EgoNode("a", 0), [EgoNode("b", 1)], np.zeros((1, 1), dtype=bool))
        >>> svg.count("<circle")
        2
    """
    middle = SIZE / 2
    angles = 2 * np.pi * np.arange(len(neighbours)) / max(len(neighbours), 1) - np.pi / 2
    x, y = middle + RING * np.cos(angles), middle + RING * np.sin(angles)
    parts = [f'<svg class="ego" viewBox="0 0 {SIZE} {SIZE}" width="{SIZE}" height="{SIZE}" role="img">']
    parts.append(f"<title>{_safe(centre.text)} and {len(neighbours)} of its neighbours</title>")
    upper = np.triu(links | links.T, k=1)
    for first, second in np.argwhere(upper).tolist():
        parts.append(_line(x[first], y[first], x[second], y[second], "ego-side"))
    for index in range(len(neighbours)):
        parts.append(_line(middle, middle, x[index], y[index], "ego-edge"))
    for index, neighbour in enumerate(neighbours):
        parts.append(_dot(x[index], y[index], 8, neighbour))
    parts.append(_dot(middle, middle, 12, centre))
    parts.append("</svg>")
    return "".join(parts)


def _safe(text: str) -> str:
    return html.escape(shorten(text, 80))


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _dot(x: float, y: float, radius: int, node: EgoNode) -> str:
    colour = class_colour(node.colour_index)
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius}" fill="{colour}"><title>{_safe(node.text)}</title></circle>'
