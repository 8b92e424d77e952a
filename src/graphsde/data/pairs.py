"""Node pairs as whole numbers, so that pairs can be drawn and skipped without listing them."""

from __future__ import annotations

import numpy as np


def count_pairs(n: int, *, directed: bool) -> int:
    return n * (n - 1) if directed else n * (n - 1) // 2


def encode(first: np.ndarray, second: np.ndarray, n: int, *, directed: bool) -> np.ndarray:
    """The number of each pair of different nodes; undirected pairs come with ``first < second``."""
    if directed:
        return first * (n - 1) + second - (second > first)
    return first * (2 * n - first - 1) // 2 + second - first - 1


def decode(numbers: np.ndarray, n: int, *, directed: bool) -> tuple[np.ndarray, np.ndarray]:
    """The pairs that :func:`encode` numbered."""
    if directed:
        first, second = np.divmod(numbers, n - 1)
        return first, second + (second >= first)
    # counted from the last pair, row r holds r + 1 pairs: the root of a small number is exact enough at any n
    last = count_pairs(n, directed=False) - 1 - numbers
    row = ((np.sqrt(8.0 * last + 1.0) - 1.0) / 2.0).astype(np.int64)
    row -= row * (row + 1) // 2 > last  # rounding can only lead one row too far
    return n - 2 - row, n - 1 - (last - row * (row + 1) // 2)


def draw_new_pairs(
    taken: np.ndarray, count: int, n: int, rng: np.random.Generator, *, directed: bool
) -> tuple[np.ndarray, np.ndarray]:
    """``count`` distinct pairs that are not in ``taken`` (sorted numbers), all equally likely.

    Draws ranks among the free pairs and shifts each by the taken ones before it: exact, with no rejection.
    """
    free = count_pairs(n, directed=directed) - taken.size
    ranks = rng.choice(free, size=count, replace=False, shuffle=False)
    numbers = ranks + np.searchsorted(taken - np.arange(taken.size), ranks, side="right")
    return decode(numbers, n, directed=directed)
