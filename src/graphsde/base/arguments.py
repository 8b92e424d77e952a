"""Checks of arguments: numbers inside a range, integers, one of a few names."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from numbers import Integral, Real

from graphsde.base.errors import BadUsage
from graphsde.base.registry import unknown_name


def number(
    value: float,
    name: str,
    *,
    at_least: float = -math.inf,
    above: float = -math.inf,
    at_most: float = math.inf,
    below: float = math.inf,
) -> float:
    """``value`` as a finite float inside its range, or :class:`BadUsage`."""
    good = isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
    if not good or not at_least <= value <= at_most or not above < value < below:
        raise BadUsage(
            f"{name} can't be {value!r}",
            code="E-SETTING",
            found=value,
            expected=_range_in_words(at_least, above, at_most, below),
        )
    return float(value)


def _range_in_words(at_least: float, above: float, at_most: float, below: float) -> str:
    words = [
        text
        for limit, text in (
            (at_least, f"at least {at_least:g}"),
            (above, f"above {above:g}"),
            (at_most, f"at most {at_most:g}"),
            (below, f"below {below:g}"),
        )
        if math.isfinite(limit)
    ]
    return " ".join(["a finite number", " and ".join(words)]).strip()


def whole(value: int, name: str, *, at_least: int, at_most: int | None = None) -> int:
    good = isinstance(value, Integral) and not isinstance(value, bool)
    if not good or value < at_least or (at_most is not None and value > at_most):
        span = f"from {at_least} to {at_most}" if at_most is not None else f"of at least {at_least}"
        raise BadUsage(f"{name} can't be {value!r}", code="E-SETTING", found=value, expected=f"an integer {span}")
    return int(value)


def choice(value: str, name: str, choices: Sequence[str]) -> str:
    if value not in choices:
        raise unknown_name(name, str(value), list(choices))
    return value


_INSTEAD = {
    "a valid number": "a number such as 0.05",
    "a valid integer": "an integer",
    "a valid boolean": "true or false",
    "a valid string": "text",
}


def expected_in_words(message: str) -> str:
    """What pydantic would have accepted, without its words about parsing.

    Example:
        >>> expected_in_words("Input should be a valid integer, unable to parse string as an integer")
        'an integer'
        >>> expected_in_words("Input should be less than 1")
        'less than 1'
    """
    told = re.sub(r"^Input should be ", "", message)
    told = re.sub(r", (unable to |got a number ).*$", "", told)
    return _INSTEAD.get(told, told)
