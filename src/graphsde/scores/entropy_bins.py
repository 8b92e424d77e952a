"""Entropies counted in bins, so that a histogram has the same size for any number of nodes."""

from __future__ import annotations

import numpy as np

BINS = 30


def entropy_edges(num_classes: int) -> np.ndarray:
    """Edges of 30 bins from 0 to ln C.  # [31]"""
    return np.linspace(0.0, float(np.log(max(num_classes, 2))), BINS + 1)


def count_entropies(values: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Nodes per bin; rounding may leave an entropy a hair outside, it counts in the outermost bin.  # [B]"""
    return np.histogram(np.clip(values, edges[0], edges[-1]), bins=edges)[0]
