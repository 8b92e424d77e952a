"""How many systems are told apart in one picture: colour first, then dash and filling, so that no two look alike."""

from __future__ import annotations

from dataclasses import dataclass

from graphsde.view.figures.chart import SYMBOLS, Dash, Symbol
from graphsde.view.figures.palette import LINE_COLOURS

DASHES: tuple[Dash, ...] = ("solid", "dash", "dot", "dashdot")


@dataclass(frozen=True)
class Look:
    """Of one system: a curve takes colour, dash and symbol; dots whose shape means something else take the filling."""

    colour: str
    dash: Dash
    symbol: Symbol
    filled: bool


def look(index: int) -> Look:
    """The look of the n-th system; 32 differ as curves, 16 as dots of one shape.

    Example:
        >>> len({look(i) for i in range(32)}), len({(look(i).colour, look(i).filled) for i in range(16)})
        (32, 16)
    """
    turn = index // len(LINE_COLOURS)
    symbol = SYMBOLS[(index + turn) % len(SYMBOLS)]
    return Look(LINE_COLOURS[index % len(LINE_COLOURS)], DASHES[turn % len(DASHES)], symbol, turn % 2 == 0)
