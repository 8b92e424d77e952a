"""How good sets of classes are: do they cover, and how small are they?"""

from __future__ import annotations

from typing import Any

import numpy as np

from graphsde.errors import BadInput


def summarise_sets(sets: np.ndarray, labels: np.ndarray) -> dict[str, Any]:
    """Coverage and size of sets on nodes of known class.

    Args:
        sets: of the nodes to judge.  # [n, C] bool
        labels: their classes.  # [n]

    Returns:
        ``coverage``; ``mean_size``; ``singletons`` and ``empty``, the shares of sets with one class and none;
        ``worst_size_coverage`` and ``worst_class_coverage``, the lowest coverage among sets of one size and nodes of
        one class (of groups with at least 10 nodes; NaN if there is none); ``n``.

    Example:
        >>> summarise_sets(np.array([[True, False], [True, True]]), np.array([0, 1]))["coverage"]
        1.0
    """
    sets, labels = np.asarray(sets, dtype=bool), np.asarray(labels)
    if sets.ndim != 2 or labels.shape != sets.shape[:1]:
        raise BadInput(f"{labels.shape} labels don't fit sets of shape {sets.shape}", code="E-LEN")
    if not len(labels):
        raise BadInput("there are no nodes to judge", code="E-EMPTY")
    covered = sets[np.arange(len(labels)), labels]
    size = sets.sum(axis=1)
    return {
        "coverage": float(covered.mean()),
        "mean_size": float(size.mean()),
        "singletons": float((size == 1).mean()),
        "empty": float((size == 0).mean()),
        "worst_size_coverage": _worst(covered, size),
        "worst_class_coverage": _worst(covered, labels),
        "n": len(labels),
    }


def _worst(covered: np.ndarray, group: np.ndarray, least: int = 10) -> float:
    nodes = np.bincount(group)
    hits = np.bincount(group, weights=covered)
    large = nodes >= least
    return float((hits[large] / nodes[large]).min()) if large.any() else float("nan")
