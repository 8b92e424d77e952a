"""Rules of acceptance under every guarantee, in one shape: that of :func:`graphsde.abstain`."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from graphsde.acting.abstain import Abstention, AbstentionCurve
from graphsde.acting.certified import Frontier
from graphsde.acting.expected import Selection
from graphsde.uncertainty.binomial import clopper_pearson_upper

GuaranteeName = Literal["certified", "expected", "accepted-and-wrong"]
GUARANTEES: dict[GuaranteeName, str] = {
    "certified": "with probability 1 − δ every certified limit of the ladder holds; choose any afterwards",
    "expected": "on average at most a share ε of the accepted nodes is wrong; needs fewer labels",
    "accepted-and-wrong": "on average at most a share ε of all nodes is accepted and wrong",
}
OODRule = Literal["per-node", "fdr"]
OOD_RULES: dict[OODRule, str] = {
    "per-node": "each node by its own score, at a stated rate of false alarms",
    "fdr": "a group of which on average at most 10 % are in-distribution",
}
SetsName = Literal["marginal", "class", "degree"]
SETS: dict[SetsName, str] = {
    "marginal": "all nodes together are covered at the level",
    "class": "every class is covered at the level",
    "degree": "every band of degrees is covered at the level",
}


def of_frontier(frontier: Frontier, max_error: float) -> Abstention:
    """The rule of the loosest certified limit that is at most ``max_error``; its curve has a point per threshold."""
    rung = frontier.at(max_error)
    loose_last = {one.threshold: one for one in frontier.rungs}  # among limits that share a threshold, the strictest
    rungs = [loose_last[threshold] for threshold in sorted(loose_last)]
    curve = AbstentionCurve(
        thresholds=np.array([one.threshold for one in rungs]),
        coverages=np.array([one.accepted_share for one in rungs]),
        accepted=np.array([one.accepted for one in rungs]),
        errors=np.array([one.wrong for one in rungs]),
        upper_bounds=np.array([one.upper_bound for one in rungs]),
        certified=np.array([one.certified for one in rungs]),
        start=0,
    )
    return Abstention(
        max_error=float(max_error) if rung is None else rung.limit,
        delta=frontier.delta,
        by=frontier.by,
        values=frontier.values,
        threshold=None if rung is None else rung.threshold,
        upper_bound=math.nan if rung is None else rung.upper_bound,
        accepted=frontier.accepted(max_error),
        decided=frontier.decided,
        coverage=0.0 if rung is None else rung.accepted_share,
        calibration=frontier.calibration,
        calibration_source=frontier.calibration_source,
        curve=curve,
        ood=frontier.ood,
        tolerance=frontier.tolerance,
        stated=frontier.guarantee,
    )


def of_selection(selection: Selection, delta: float) -> Abstention:
    """Conformal selection as a rule; the bound at its threshold is informative, not part of the guarantee."""
    wrong, accepted = selection.wrong_calibration, selection.accepted_calibration
    bound = float(clopper_pearson_upper(wrong, accepted, delta))
    threshold = -math.inf if selection.threshold is None else selection.threshold
    curve = AbstentionCurve(
        thresholds=np.array([threshold]),
        coverages=np.array([selection.accepted_share]),
        accepted=np.array([accepted]),
        errors=np.array([wrong]),
        upper_bounds=np.array([bound]),
        certified=np.array([False]),
        start=0,
    )
    return Abstention(
        max_error=selection.max_error,
        delta=float(delta),
        by=selection.by,
        values=selection.values,
        threshold=selection.threshold,
        upper_bound=math.nan if selection.threshold is None else bound,
        accepted=selection.accepted,
        decided=selection.decided,
        coverage=selection.accepted_share,
        calibration=selection.calibration,
        calibration_source=selection.calibration_source,
        curve=curve,
        ood=selection.ood,
        tolerance=selection.tolerance,
        stated=selection.guarantee,
    )
