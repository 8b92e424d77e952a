"""Ranks with ties: the one place where equal scores are grouped, and the two areas that follow."""

from __future__ import annotations

import numpy as np


def tied_blocks(values: np.ndarray, marked: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Group equal values.

    Returns:
        The distinct values in ascending order, how many nodes have each, and how many of these are marked.  # [B] each
    """
    distinct, block = np.unique(values, return_inverse=True)
    size = np.bincount(block, minlength=len(distinct))
    hits = np.bincount(block[marked], minlength=len(distinct))
    return distinct, size, hits


def auroc(values: np.ndarray, positive: np.ndarray) -> float:
    """P(value of a positive > value of a negative) + ½ P(equal); NaN if either group is empty."""
    _, size, hits = tied_blocks(values, positive)
    misses = size - hits
    positives, negatives = int(hits.sum()), int(misses.sum())
    if positives == 0 or negatives == 0:
        return float("nan")
    below = np.cumsum(misses) - misses
    twice_won = int(np.sum(hits * (2 * below + misses)))  # whole numbers: exact
    return twice_won / (2 * positives * negatives)


def average_precision(values: np.ndarray, positive: np.ndarray) -> float:
    """Step-wise area under precision against recall, tied values entering together; NaN if either group is empty."""
    _, size, hits = tied_blocks(values, positive)
    positives = int(hits.sum())
    if positives == 0 or positives == len(values):
        return float("nan")
    size, hits = size[::-1], hits[::-1]
    precision = np.cumsum(hits) / np.cumsum(size)
    return float(np.sum(precision * hits) / positives)
