"""Colours that stay apart for every kind of colour vision (Okabe and Ito, 2008), on light and on dark paper."""

from __future__ import annotations

BLUE = "#0072B2"
VERMILLION = "#D55E00"
GREEN = "#009E73"
ORANGE = "#E69F00"
SKY = "#56B4E9"
PURPLE = "#CC79A7"
YELLOW = "#F0E442"
GREY = "#8A8F98"
WINE = "#882255"

RIGHT = BLUE
WRONG = VERMILLION

CLASS_COLOURS = (BLUE, ORANGE, GREEN, PURPLE, SKY, VERMILLION, YELLOW, GREY)
# a thin yellow line can't be seen on white paper
LINE_COLOURS = (VERMILLION, BLUE, GREEN, PURPLE, SKY, ORANGE, WINE, GREY)


def class_colour(index: int) -> str:
    """Colour of a class; with more classes than colours they repeat, so the name must stand beside it."""
    return CLASS_COLOURS[index % len(CLASS_COLOURS)]


def translucent(colour: str, alpha: float) -> str:
    """A colour that lets others shine through, for bands that overlap."""
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{alpha})"
