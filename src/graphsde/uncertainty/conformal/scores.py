"""Conformal scores by name: APS, DAPS, RAPS, THR."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from graphsde.base.errors import BadUsage
from graphsde.base.registry import Registry
from graphsde.uncertainty.scores.propagation import propagate

if TYPE_CHECKING:
    from graphsde.graph.graph import Graph


@dataclass(frozen=True, eq=False)
class Case:
    """What a conformal score may use; no labels.

    Args:
        probs: mean probabilities of all nodes, float64.  # [N, C]
        uniform: one number in [0, 1) per node, for scores that break ties at random.  # [N]
        graph: whose nodes they are.
    """

    probs: np.ndarray
    uniform: np.ndarray
    graph: Graph


ConformalScore = Callable[..., np.ndarray]
CONFORMAL_SCORES: Registry[ConformalScore] = Registry("conformal score")
"""Every score: ``score(case, **options) -> [N, C]``, the nonconformity of each class at each node.

A score must treat all nodes alike: permuting the nodes permutes its values. That makes calibration and test
nodes exchangeable.
"""


@CONFORMAL_SCORES.register(
    "aps",
    summary="probability of all classes at least as likely, randomised; larger sets for harder nodes",
    paper="Romano, Sesia and Candès, Classification with valid and adaptive coverage",
    year=2020,
)
def aps(case: Case) -> np.ndarray:
    """``s_ic = Σ_{c' ranked before or at c} p_ic' − u_i p_ic`` (Romano, Sesia and Candès, 2020).  # [N, C]

    u is uniform and drawn once per node: without it sets are too large, and coverage exceeds the level.
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


@CONFORMAL_SCORES.register(
    "daps",
    summary="aps averaged with the neighbours'; smaller sets if neighbours share their class",
    paper="Zargarbashi, Antonelli and Bojchevski, Conformal prediction sets for graph neural networks",
    year=2023,
    options=("share",),
)
def daps(case: Case, *, share: float = 0.5) -> np.ndarray:
    """``s'_ic = (1 − λ) s_ic + λ · mean over neighbours of s_jc``, s from APS (Zargarbashi et al., 2023).  # [N, C]

    A node without neighbours keeps its own score. No label is used, so nodes stay exchangeable.

    Args:
        share: λ, from 0 (APS) to 1.
    """
    return np.stack([propagate(column, case.graph, alpha=1.0 - share, steps=1) for column in aps(case).T], axis=1)


@CONFORMAL_SCORES.register(
    "raps",
    summary="aps with a penalty on low-ranked classes; smaller sets with many classes",
    paper="Angelopoulos, Bates, Malik and Jordan, Uncertainty sets for image classifiers using conformal prediction",
    year=2021,
    options=("penalty", "free"),
)
def raps(case: Case, *, penalty: float = 0.01, free: int = 5) -> np.ndarray:
    """``s_ic = aps_ic + penalty · max(0, rank_ic − free)`` (Angelopoulos et al., 2021).  # [N, C]

    Args:
        penalty: per rank.
        free: ranks without a penalty; with fewer classes than that this is APS.
    """
    if penalty < 0 or free < 0:
        raise BadUsage(
            "invalid options of raps", found=f"penalty={penalty}, free={free}", expected="two numbers, 0 or more"
        )
    _, rank = ranked(case.probs)
    return aps(case) + penalty * np.maximum(0, rank - free)


@CONFORMAL_SCORES.register(
    "thr",
    summary="one minus the probability; smallest sets on average; may be empty, uneven over easy and hard nodes",
    paper="Sadinle, Lei and Wasserman, Least ambiguous set-valued classifiers with bounded error levels",
    year=2019,
)
def thr(case: Case) -> np.ndarray:
    """``s_ic = 1 − p_ic`` (Sadinle, Lei and Wasserman, 2019).  # [N, C]"""
    return 1.0 - case.probs


CONFORMAL_SCORES.add("lac", thr, summary="another name for thr", **CONFORMAL_SCORES.entry("thr").facts)
