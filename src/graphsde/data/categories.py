"""Categorical columns: text per node, with a clear mark for what is missing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np

from graphsde.data.labels import MISSING
from graphsde.errors import BadInput, shorten


def clean_categories(
    columns: Mapping[str, Sequence[Any] | np.ndarray], place: Callable[[int], str]
) -> dict[str, np.ndarray]:
    """Every column as an object array of ``str``, ``None`` where the value is missing.

    Example:
        >>> clean_categories({"town": ["Ulm", "", None, 7]}, str)["town"].tolist()
        ['Ulm', None, None, '7']
    """
    clean = {}
    for name, column in columns.items():
        items = column.tolist() if isinstance(column, np.ndarray) else list(column)
        values = np.empty(len(items), dtype=object)
        for row, item in enumerate(items):
            if isinstance(item, str):
                values[row] = None if item.strip() in MISSING else item
            elif item is not None and not isinstance(item, (Real, np.bool_)):
                raise BadInput(
                    f"the categorical column {shorten(str(name), 60)} holds a {type(item).__name__}",
                    code="E-DTYPE",
                    place=place(row),
                    found=item,
                    expected="text",
                )
            elif item is not None and item == item:
                values[row] = str(item)
        clean[str(name)] = values
    return clean
