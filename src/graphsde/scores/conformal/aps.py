"""APS: classes from the most probable on, until enough probability is covered."""

from __future__ import annotations

import numpy as np

from graphsde.scores.conformal.registry import CONFORMAL_SCORES, Case


@CONFORMAL_SCORES.register(
    "aps",
    summary="probability of all classes at least as likely, randomised; sets grow where a node is hard",
    paper="Romano, Sesia and Candès, Classification with valid and adaptive coverage",
    year=2020,
)
def aps(case: Case) -> np.ndarray:
    """``s_ic = Σ_{c' ranked before or at c} p_ic' − u_i p_ic`` (Romano, Sesia and Candès, 2020).  # [N, C]

    u is uniform and drawn once per node: without it sets are too large, and coverage above what was asked for.
    """
    before, _ = ranked(case.probs)
    return before + (1.0 - case.uniform[:, None]) * case.probs


def ranked(probs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Probability of the classes ranked before each class, and its rank from 1; equal ones in the order of classes.

    # [N, C], [N, C]
    """
    order = np.argsort(-probs, axis=1, kind="stable")
    sorted_probs = np.take_along_axis(probs, order, axis=1)
    before, rank = np.empty_like(probs), np.empty(probs.shape, dtype=np.int64)
    np.put_along_axis(before, order, np.cumsum(sorted_probs, axis=1) - sorted_probs, axis=1)
    np.put_along_axis(rank, order, np.broadcast_to(np.arange(1, probs.shape[1] + 1), probs.shape), axis=1)
    return before, rank
