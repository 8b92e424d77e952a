"""Conformal scores by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from graphsde.registry import Registry

if TYPE_CHECKING:
    from graphsde.data.graph import Graph


@dataclass(frozen=True, eq=False)
class Case:
    """What a conformal score may look at; no labels.

    Args:
        probs: mean probabilities of all nodes, float64.  # [N, C]
        uniform: one number in [0, 1) per node, for scores that break ties by chance.  # [N]
        graph: whose nodes they are.
    """

    probs: np.ndarray
    uniform: np.ndarray
    graph: Graph


ConformalScore = Callable[..., np.ndarray]
CONFORMAL_SCORES: Registry[ConformalScore] = Registry("conformal score")
"""Every score: ``score(case, **options) -> [N, C]``, the strangeness of each class at each node (higher = stranger).

A score must treat all nodes alike: permuting the nodes permutes its values. That is what makes calibration and test
nodes exchangeable.
"""
