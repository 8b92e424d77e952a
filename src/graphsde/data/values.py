"""Numbers to be predicted: what a label column holds where the target is numeric."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from graphsde.data.findings import Finding
from graphsde.data.labels import is_missing, one_per_node
from graphsde.errors import BadInput, BadUsage

_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def encode_values(
    values: Sequence[Any] | np.ndarray, place: Callable[[int], str], class_names: Sequence[str] | None = None
) -> tuple[np.ndarray, list[Finding]]:
    """Numbers of nodes, NaN where unknown.

    Unknown are ``None``, NaN, ``""``, ``"NA"``, ``"NaN"``, ``"nan"`` and ``"null"``; ``-1`` is a number like any other.

    Args:
        values: one per node: numbers, or text that reads as a number with a decimal point.
        place: tells the user where row ``i`` is.
        class_names: refused: a number has no classes.

    Returns:
        float64 [N], and what was noticed.

    Example:
        >>> encode_values(["1.5", "", -1], str)[0].tolist()
        [1.5, nan, -1.0]
    """
    if class_names:
        raise BadUsage(
            "a numeric target has no classes",
            code="E-TARGET",
            found=", ".join(str(name) for name in list(class_names)[:5]),
            fix="leave the class names out, or leave out 'target: numeric'",
        )
    array = one_per_node(values)
    if array.dtype.kind in "OUST":
        numbers = _parsed(array.tolist(), place)
    elif array.dtype.kind in "iufb":
        numbers = array.astype(np.float64)
    else:
        raise BadInput(f"values have dtype {array.dtype}", code="E-DTYPE", expected="real numbers")
    infinite = np.flatnonzero(np.isinf(numbers))
    if len(infinite):
        raise BadInput(
            f"{len(infinite):,} {'values are' if len(infinite) > 1 else 'value is'} infinite",
            code="E-VALUE-INF",
            place=place(int(infinite[0])),
            found=str(array[infinite[0]]),
            expected="finite numbers",
            fix="leave the cell empty where the value is not known",
        )
    return numbers, _findings(numbers, place)


def _parsed(items: list[Any], place: Callable[[int], str]) -> np.ndarray:
    numbers = np.full(len(items), np.nan)
    for row, item in enumerate(items):
        if is_missing(item):
            continue
        number = item.strip() if isinstance(item, str) else item
        readable = _NUMBER.fullmatch(number) if isinstance(number, str) else isinstance(number, int | float | np.number)
        if not readable:
            raise BadInput(
                "a value of the numeric target is no number",
                code="E-VALUE-TYPE",
                place=place(row),
                found=item,
                expected="a number such as 151 or 1.5e-3, with a decimal point and no thousands separator",
                fix="correct the cell, or leave out 'target: numeric' if these are classes",
            )
        try:
            numbers[row] = float(number)
        except OverflowError:
            numbers[row] = np.inf
    return numbers


def _findings(numbers: np.ndarray, place: Callable[[int], str]) -> list[Finding]:
    missing = np.flatnonzero(np.isnan(numbers))
    if not len(missing):
        return []
    where = tuple(place(int(row)) for row in missing[:5])
    message = f"{len(missing):,} of {len(numbers):,} nodes have no value"
    return [Finding("W-UNLABELLED", "note", message, len(missing), where)]
