"""RAPS: APS that is discouraged from long tails of unlikely classes."""

from __future__ import annotations

import numpy as np

from graphsde.errors import BadUsage
from graphsde.scores.conformal.aps import aps, ranked
from graphsde.scores.conformal.registry import CONFORMAL_SCORES, Case


@CONFORMAL_SCORES.register(
    "raps",
    summary="aps with a penalty on classes ranked low; shorter sets where there are many classes",
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
            "raps penalises ranks", found=f"penalty={penalty}, free={free}", expected="two numbers, 0 or more"
        )
    _, rank = ranked(case.probs)
    return aps(case) + penalty * np.maximum(0, rank - free)
