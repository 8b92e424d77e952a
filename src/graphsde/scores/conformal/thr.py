"""THR, also called LAC: classes above a threshold on their probability."""

from __future__ import annotations

import numpy as np

from graphsde.scores.conformal.registry import CONFORMAL_SCORES, Case


@CONFORMAL_SCORES.register(
    "thr",
    summary="one minus the probability; smallest sets on average, may be empty, unequal over easy and hard nodes",
    paper="Sadinle, Lei and Wasserman, Least ambiguous set-valued classifiers with bounded error levels",
    year=2019,
)
def thr(case: Case) -> np.ndarray:
    """``s_ic = 1 − p_ic`` (Sadinle, Lei and Wasserman, 2019).  # [N, C]"""
    return 1.0 - case.probs


CONFORMAL_SCORES.add("lac", thr, summary="another name of thr", **CONFORMAL_SCORES.entry("thr").facts)
