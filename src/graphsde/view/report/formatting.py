"""Numbers and names as a reader sees them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from graphsde.errors import shorten

NOTHING = "—"


def is_number(value: object) -> bool:
    """Whether ``value`` is a finite number, and not a truth value."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.number):
        return False
    return math.isfinite(float(value))


def number(value: Any, digits: int = 3) -> str:
    if not is_number(value):
        return NOTHING
    if float(value).is_integer() and abs(value) >= 10:
        return f"{int(value):,}"
    if value != 0 and (abs(value) < 0.5 * 10**-digits or abs(value) >= 1e6):
        return f"{value:.2e}"
    return f"{value:,.{digits}f}"


def percent(value: Any) -> str:
    """A share as a percentage; more digits where rounding would claim all or nothing."""
    if not is_number(value):
        return NOTHING
    for digits in (1, 2, 3, 4):
        text = f"{100 * value:.{digits}f}"
        if value in (0, 1) or float(text) not in (0.0, 100.0):
            break
    return f"{text} %"


def count(value: Any, singular: str) -> str:
    """ "1 node", "1,297 nodes"."""
    plural = singular + ("es" if singular.endswith("s") else "s")
    return f"{int(value):,} {singular if value == 1 else plural}"


def name(value: object, limit: int = 200) -> str:
    """A value of unknown origin as one short, printable line (the template escapes it for HTML)."""
    plain = value.item() if isinstance(value, np.generic) else value
    if plain is None:
        return NOTHING
    return shorten(plain if isinstance(plain, str) else str(plain), limit)


def flatten(settings: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Nested settings as dotted lines."""
    lines: list[tuple[str, str]] = []
    for key, value in settings.items():
        dotted = f"{prefix}{key}"
        if isinstance(value, Mapping) and value:
            lines += flatten(value, f"{dotted}.")
        else:
            lines.append((name(dotted), name(value)))
    return lines
