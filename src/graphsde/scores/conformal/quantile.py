"""The quantile behind every conformal set."""

from __future__ import annotations

import math

import numpy as np

from graphsde.scores.held_out import too_few


def nodes_for_level(confidence_level: float) -> int:
    """The fewest calibration nodes with which sets of this level are not simply all classes: ``⌈1/α⌉ − 1``.

    Example:
        >>> nodes_for_level(0.9), nodes_for_level(0.95), nodes_for_level(0.99)
        (9, 19, 99)
    """
    return math.ceil(1.0 / (1.0 - confidence_level) - 1e-9) - 1


def conformal_quantile(
    scores: np.ndarray,
    confidence_level: float,
    *,
    of: str = "calibration nodes",
    purpose: str = "for sets at this confidence level",
) -> float:
    """The ``⌈(n + 1)(1 − α)⌉``-th smallest score: a further exchangeable one is at most this with chance ≥ 1 − α.

    For scores without ties the chance is also at most ``1 − α + 1/(n + 1)`` (Vovk, Gammerman and Shafer, 2005).

    Raises:
        BadInput: (``E-CAL-SMALL``) there is no such score: n is below ``1/α − 1``.

    Example:
        >>> conformal_quantile(np.arange(1.0, 10.0), 0.9)
        9.0
    """
    place = math.ceil((len(scores) + 1) * confidence_level - 1e-9)
    if place > len(scores):
        raise too_few(
            len(scores),
            nodes_for_level(confidence_level),
            f"{purpose} ({confidence_level:g})",
            "ask for less confidence, or label more nodes for calibration",
            of=of,
        )
    return float(np.partition(scores, place - 1)[place - 1])
