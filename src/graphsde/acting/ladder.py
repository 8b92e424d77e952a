"""Tests of error limits on calibration nodes: a ladder of limits, and one limit with thresholds of its own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np

from graphsde.acting.loosening import Loosened, loosen
from graphsde.acting.needed_labels import further_labels, label_words
from graphsde.uncertainty.binomial import binomial_p_value, clopper_pearson_upper, power_of_test
from graphsde.uncertainty.e_process import anytime_p_value, anytime_upper
from graphsde.uncertainty.multiple_testing import fixed_sequence

LADDER = (0.30, 0.20, 0.15, 0.10, 0.075, 0.05, 0.03, 0.02, 0.01)
"""Default limits, from the loosest to the strictest."""
FOCUS = 0.05
"""The most used limit; its threshold is found on the calibration nodes, with its own δ."""
FOCUS_SHARE = 0.8
"""Share of δ for the focus; the ladder has the rest."""
CHANCE_TO_PASS = 0.9
"""A threshold should pass with this probability, by validation nodes: a failure ends the sequence for all stricter
limits, and validation nodes look easier than others because selection has seen them."""
CANDIDATES = 200
POSTERIOR_POINTS = 32
EARLIER = "certified at an earlier look"
"""Outlook of a limit that this look alone would not certify; its bound and p-value are those of the earlier one."""


def limits_to_test(max_error: float, focus: float | None = None) -> tuple[float, ...]:
    """The default ladder, and any other limit that was asked for: fixed beforehand, like the rest.

    Example:
        >>> limits_to_test(0.04)[5:7]
        (0.05, 0.04)
    """
    return tuple(sorted({*LADDER, float(max_error), *([] if focus is None else [float(focus)])}, reverse=True))


def usual_focus(max_error: float) -> float:
    """5 %, or the limit that was asked for if the default ladder does not have it: behind the focus it would only be
    tested after all looser limits had passed.

    Example:
        >>> usual_focus(0.1), usual_focus(0.04)
        (0.05, 0.04)
    """
    return FOCUS if max_error in LADDER else float(max_error)


Status = Literal["certified", "failed", "not tested"]


@dataclass(frozen=True)
class Rung:
    """One limit of the ladder.

    Args:
        limit: of the share of accepted nodes that are wrong.
        threshold: a node is accepted where its uncertainty is at most this.
        accepted_share: of the nodes decided on.
        accepted, wrong: calibration nodes that are accepted, and how many of these are wrong.
        upper_bound: of the error rate among accepted nodes, at level 1 − δ, for this threshold alone.
        p_value: of the test that the error rate is at most the limit.
        status: ``certified``, ``failed``, or ``not tested`` because a looser limit has failed.
        further_labels: how many more calibration labels would certify it with probability 80 %, at least and at most;
            the second is ``None`` if, given the observed error, possibly no number would. ``None`` if it is
            certified, or out of reach.
        outlook: the same in words.
    """

    limit: float
    threshold: float
    accepted_share: float
    accepted: int
    wrong: int
    upper_bound: float
    p_value: float
    status: Status
    further_labels: tuple[int, int | None] | None
    outlook: str

    @property
    def observed_error(self) -> float | None:
        """Share of the accepted calibration nodes that are wrong; ``None`` if none are accepted."""
        return self.wrong / self.accepted if self.accepted else None

    @property
    def certified(self) -> bool:
        return self.status == "certified"

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for a table or JSON."""
        return asdict(self) | {"observed_error": self.observed_error}


@dataclass(frozen=True, eq=False)
class FocusSequence:
    """The thresholds at which the focus is tested, and its share of δ."""

    limit: float
    thresholds: np.ndarray
    delta: float


def choose_thresholds(
    values: np.ndarray, wrong: np.ndarray, limits: Sequence[float], delta: float, nodes: int
) -> np.ndarray:
    """For each limit the loosest threshold that should pass the test on ``nodes`` calibration nodes.

    The error rate of validation nodes below a threshold is smoothed by Jeffreys' prior: with k errors among m
    its posterior is Beta(k + ½, m − k + ½). A threshold should pass if the power of the test, averaged over that,
    is at least 90 %. If none does, the one with the highest power is used or, if all power is zero, the
    one with the lowest errors. Thresholds never rise as limits get stricter.  # [K], −inf where nothing is accepted

    Args:
        values: uncertainties of the validation nodes; infinite if a node is never accepted.  # [n]
        wrong: nodes whose prediction is wrong.  # [n] bool
        limits: from the loosest to the strictest.
        delta: of the test.
        nodes: how many calibration nodes there are.
    """
    from scipy.special import betaincinv

    finite = np.sort(values[np.isfinite(values)])
    if not len(finite):
        return np.full(len(limits), -np.inf)
    places = np.unique(np.ceil(np.linspace(0, 1, CANDIDATES + 1)[1:] * len(finite)).astype(np.int64) - 1)
    candidates = np.unique(finite[places])
    accepted, errors = count_accepted(values, wrong, candidates)
    middles = (np.arange(POSTERIOR_POINTS) + 0.5) / POSTERIOR_POINTS
    rates = betaincinv(errors[:, None] + 0.5, accepted[:, None] - errors[:, None] + 0.5, middles)  # [T, points]
    expected = np.floor(nodes * accepted / len(values)).astype(np.int64)
    thresholds, last = [], np.inf
    for limit in limits:
        chances = power_of_test(expected[:, None], rates, limit, delta).mean(axis=1)
        passing = np.flatnonzero(chances >= min(CHANCE_TO_PASS, float(chances.max())))
        if chances.max() > 0.0:
            chosen = float(candidates[passing[-1]])
        else:
            chosen = float(candidates[int(np.argmin(rates.mean(axis=1)))])
        last = min(last, chosen)
        thresholds.append(last)
    return np.array(thresholds)


@dataclass(frozen=True, eq=False)
class LadderTest:
    """Test results of each limit on the calibration nodes.

    Args:
        accepted, wrong: calibration nodes up to each threshold, and how many of these are wrong.  # [K], [K]
        p_values: that the error rate is above the limit.  # [K]
        passed: in sequence.  # [K] bool
    """

    accepted: np.ndarray
    wrong: np.ndarray
    p_values: np.ndarray
    passed: np.ndarray


def run_ladder_test(
    values: np.ndarray,
    wrong: np.ndarray,
    limits: Sequence[float],
    thresholds: np.ndarray,
    delta: float,
    *,
    anytime: bool = False,
) -> LadderTest:
    """The limits tested in sequence on calibration nodes.

    Args:
        values: uncertainties of the calibration nodes; infinite if a node is never accepted.  # [n]
        wrong: nodes whose prediction is wrong.  # [n] bool
        limits: from the loosest to the strictest.
        thresholds: one per limit, chosen without these nodes.  # [K]
        delta: of every test, and of all together.
        anytime: use an e-process instead of the binomial test.
    """
    accepted, errors = count_accepted(values, wrong, thresholds)
    p_values = (anytime_p_value if anytime else binomial_p_value)(errors, accepted, np.array(limits))
    return LadderTest(accepted, errors, p_values, fixed_sequence(p_values, delta))


def judge_ladder(
    values: np.ndarray,
    wrong: np.ndarray,
    limits: Sequence[float],
    thresholds: np.ndarray,
    delta: float,
    *,
    anytime: bool = False,
) -> tuple[Rung, ...]:
    """:func:`run_ladder_test` with bounds and further labels needed; arguments as there."""
    found = run_ladder_test(values, wrong, limits, thresholds, delta, anytime=anytime)
    accepted, errors, p_values, passed = found.accepted, found.wrong, found.p_values, found.passed
    bounds = (anytime_upper if anytime else clopper_pearson_upper)(errors, accepted, delta)
    rungs: list[Rung] = []
    for k, limit in enumerate(limits):
        tested = k == 0 or bool(passed[k - 1])
        status: Status = "certified" if passed[k] else "failed" if tested else "not tested"
        further, outlook = None, "certified"
        if not passed[k]:
            outcome = further_labels(int(errors[k]), int(accepted[k]), len(values), limit, delta, anytime=anytime)
            before = None if tested else rungs[-1]
            further, outlook = _at_least_as_many(outcome, before, int(errors[k]))
        rungs.append(
            Rung(
                limit=float(limit),
                threshold=float(thresholds[k]),
                accepted_share=math.nan,
                accepted=int(accepted[k]),
                wrong=int(errors[k]),
                upper_bound=float(bounds[k]),
                p_value=float(p_values[k]),
                status=status,
                further_labels=further,
                outlook=outlook,
            )
        )
    return tuple(rungs)


def with_focus(
    rungs: tuple[Rung, ...],
    found: Loosened | None,
    focus: float,
    delta: float,
    nodes: int,
    *,
    anytime: bool = False,
) -> tuple[Rung, ...]:
    """Rungs, with the threshold of the focus if it accepts more than their own or theirs is not certified.

    Args:
        rungs: of the ladder.
        found: at the focus; if it has not passed, its rung says what it needs.
        focus, delta: the limit, and the δ that it was tested with.
        nodes: all calibration nodes.
        anytime: whether the test may be repeated as labels come in.
    """
    if found is None:  # nothing was tested; more labels would be, with the δ of the focus
        named = [one for one in rungs if one.limit == focus and not one.certified]
        said = {
            one.limit: further_labels(one.wrong, one.accepted, nodes, focus, delta, anytime=anytime) for one in named
        }
        return tuple(
            replace(one, further_labels=said[one.limit][0], outlook=said[one.limit][1]) if one.limit in said else one
            for one in rungs
        )
    bound = float((anytime_upper if anytime else clopper_pearson_upper)(found.wrong, found.accepted, delta))
    counts: dict[str, Any] = {
        "threshold": found.threshold, "accepted": found.accepted, "wrong": found.wrong,
        "upper_bound": bound, "p_value": found.p_value,
    }  # fmt: skip
    result: list[Rung] = []
    for one in rungs:
        if found.passed and one.limit < focus and not one.certified:  # the looser limits before it no longer block it
            rest = delta * (1.0 - FOCUS_SHARE) / FOCUS_SHARE
            outcome = further_labels(one.wrong, one.accepted, nodes, one.limit, rest, anytime=anytime)
            further, outlook = _at_least_as_many(outcome, None if result[-1].certified else result[-1], one.wrong)
            one = replace(one, further_labels=further, outlook=outlook)
        elif found.passed and one.limit >= focus and not (one.certified and one.threshold >= found.threshold):
            one = replace(one, **counts, status="certified", further_labels=None, outlook="certified")
        elif not found.passed and one.limit == focus and not one.certified:
            further, outlook = further_labels(found.wrong, found.accepted, nodes, focus, delta, anytime=anytime)
            one = replace(one, **counts, status="failed", further_labels=further, outlook=outlook)
        result.append(one)
    return tuple(result)


def judge_all(
    values: np.ndarray,
    wrong: np.ndarray,
    limits: Sequence[float],
    thresholds: np.ndarray,
    delta: float,
    sequence: FocusSequence | None,
    *,
    anytime: bool,
) -> tuple[Rung, ...]:
    """The ladder, and the focus at its own thresholds; all limits that pass hold together.

    Args:
        values: uncertainties of the calibration nodes; infinite if a node is never accepted.  # [n]
        wrong: nodes whose prediction is wrong.  # [n] bool
        limits, thresholds: of the ladder.  # [K], [K]
        delta: of all tests together.
        sequence: the focus, if there is one.
        anytime: whether the test may be repeated as labels come in.
    """
    own = 0.0 if sequence is None else sequence.delta
    rungs = judge_ladder(values, wrong, limits, thresholds, delta - own, anytime=anytime)
    if sequence is None:
        return rungs
    found = loosen(values, wrong, sequence.thresholds, sequence.limit, own, anytime=anytime)
    return with_focus(rungs, found, sequence.limit, own, len(values), anytime=anytime)


def keep_certified(
    rungs: tuple[Rung, ...], earlier: tuple[Rung, ...], values: np.ndarray, wrong: np.ndarray
) -> tuple[Rung, ...]:
    """Rungs, with those that an earlier test has certified where these accept more.

    What holds at a limit also holds at looser ones. A rung is not kept if by now a larger share than the limit of the
    calibration nodes that it accepts is wrong: a guarantee that the labels contradict is of no use.

    Args:
        rungs: of this test.
        earlier: of the other one, with the same uncertainty.
        values, wrong: of the calibration nodes of this test.  # [n], [n]
    """
    found = []
    for rung in rungs:
        stricter = (one for one in earlier if one.certified and one.limit <= rung.limit)
        old = max(stricter, key=lambda one: one.threshold, default=None)
        if old is not None and not (rung.certified and rung.threshold >= old.threshold):
            accepted, errors = (int(one[0]) for one in count_accepted(values, wrong, np.array([old.threshold])))
            if errors <= rung.limit * accepted:
                rung = replace(old, limit=rung.limit, accepted=accepted, wrong=errors, outlook=EARLIER)
        found.append(rung)
    return tuple(found)


def count_accepted(values: np.ndarray, wrong: np.ndarray, thresholds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """How many nodes each threshold accepts, and how many of those are wrong.  # [T], [T]"""
    order = np.argsort(values, kind="stable")
    accepted = np.searchsorted(values[order], thresholds, side="right")
    return accepted, np.concatenate([[0], np.cumsum(wrong[order])])[accepted]


def _at_least_as_many(
    outcome: tuple[tuple[int, int | None] | None, str], before: Rung | None, wrong: int
) -> tuple[tuple[int, int | None] | None, str]:
    """A limit also needs what the looser limits before it need."""
    further = outcome[0]
    if before is None or further is None:
        return outcome
    if before.further_labels is None:
        return None, f"out of reach, because the looser limit {100 * before.limit:.4g}% is"
    (low, high), (low_before, high_before) = further, before.further_labels
    low = max(low, low_before)
    high = None if high is None or high_before is None else max(high, high_before)
    return outcome if (low, high) == further else ((low, high), label_words(low, high, max(wrong, before.wrong)))


def with_shares(rungs: tuple[Rung, ...], values: np.ndarray) -> tuple[Rung, ...]:
    """With the share of the nodes decided on that each limit accepts."""
    return tuple(replace(one, accepted_share=float((values <= one.threshold).mean())) for one in rungs)
