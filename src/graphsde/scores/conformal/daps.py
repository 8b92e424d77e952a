"""DAPS: scores diffused over the edges, since neighbours tend to be of one class."""

from __future__ import annotations

import numpy as np

from graphsde.scores.conformal.aps import aps
from graphsde.scores.conformal.registry import CONFORMAL_SCORES, Case
from graphsde.scores.propagation import propagate


@CONFORMAL_SCORES.register(
    "daps",
    summary="aps averaged with the neighbours'; smaller sets where neighbours share their class",
    paper="Zargarbashi, Antonelli and Bojchevski, Conformal prediction sets for graph neural networks",
    year=2023,
    options=("share",),
)
def daps(case: Case, *, share: float = 0.5) -> np.ndarray:
    """``s'_ic = (1 − λ) s_ic + λ · mean over neighbours of s_jc``, s from APS (Zargarbashi et al., 2023).  # [N, C]

    A node without neighbours keeps its own score. No label is looked at, so nodes stay exchangeable.

    Args:
        share: λ, from 0 (APS) to 1.
    """
    columns = aps(case).T
    return np.stack([propagate(column, case.graph, alpha=1.0 - share, steps=1) for column in columns], axis=1)
