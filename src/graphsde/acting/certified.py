"""The frontier: which error limits can be certified together, and how many nodes each accepts."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np

from graphsde.acting.abstain import ACCEPTANCE, By
from graphsde.acting.guarantee import Guarantee, certified_guarantee
from graphsde.acting.loosening import Loosened, loosen
from graphsde.acting.needed_labels import BET, further_labels, label_words
from graphsde.acting.ood import OODFlag
from graphsde.base.errors import BadUsage
from graphsde.graph.graph import Graph
from graphsde.prediction import Prediction, Predictor
from graphsde.uncertainty.binomial import (
    binomial_p_value,
    clopper_pearson_upper,
    nodes_to_certify,
    power_of_test,
)
from graphsde.uncertainty.e_process import anytime_p_value, anytime_upper
from graphsde.uncertainty.held_out import HeldOut, held_out, require_share, validation_held
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


@dataclass(frozen=True, eq=False, repr=False)
class Frontier:
    """All limits of the ladder and their test results; made by :func:`certify`.

    Args:
        delta: the certified limits hold together with probability ``1 − delta``.
        rungs: from the loosest limit to the strictest.
        by: name of the uncertainty.
        values: of every node.  # [N]
        cleared: nodes that the OOD flag leaves; all, without one.  # [N] bool
        decided: nodes that the shares refer to.  # [N] bool
        calibration: the nodes of the test.  # [N] bool
        calibration_source: in words.
        anytime: whether the test may be repeated as labels come in.
        ood: the flag that acts first, if there is one.
        tolerance: for regression: a prediction is wrong if it is off by more.
        spent: δ of other tests on the same calibration labels, which lowers the stated probability.
    """

    delta: float
    rungs: tuple[Rung, ...]
    by: str
    values: np.ndarray
    cleared: np.ndarray
    decided: np.ndarray
    calibration: np.ndarray
    calibration_source: str
    anytime: bool = False
    ood: OODFlag | None = None
    tolerance: float | None = None
    spent: float = 0.0

    def __repr__(self) -> str:
        held = ", ".join(f"{one.limit:g}" for one in self.certified)
        return f"Frontier(certified: {held or 'none'}; delta {self.delta:g}, {int(self.calibration.sum()):,} nodes)"

    @property
    def certified(self) -> tuple[Rung, ...]:
        """The limits that hold, from the loosest to the strictest."""
        return tuple(one for one in self.rungs if one.certified)

    @property
    def could_certify(self) -> bool:
        """Whether the calibration nodes are enough to certify the loosest limit, if none of them is wrong."""
        return int(self.calibration.sum()) >= nodes_to_certify(self.rungs[0].limit, self.delta)

    def at(self, max_error: float) -> Rung | None:
        """The loosest certified limit that is at most ``max_error``; ``None`` if there is none.

        ``max_error`` may be chosen after looking at the frontier: all certified limits hold together.
        """
        return next((one for one in self.certified if one.limit <= max_error + 1e-12), None)

    def accepted(self, max_error: float) -> np.ndarray:
        """Nodes that are accepted under a limit: a function of each node's own scores.  # [N] bool"""
        rung = self.at(max_error)
        if rung is None:
            return np.zeros(len(self.values), dtype=bool)
        return self.cleared & (self.values <= rung.threshold)

    @property
    def guarantee(self) -> Guarantee:
        limits = tuple(one.limit for one in self.certified)
        return certified_guarantee(self.delta, limits, anytime=self.anytime, spent=self.spent)

    def rows(self) -> list[dict[str, Any]]:
        """A row per limit, for a table."""
        return [
            {
                "limit": one.limit,
                "status": one.status,
                "accepted": one.accepted_share,
                "observed error": one.observed_error,
                "upper bound": one.upper_bound,
                "outlook": one.outlook,
            }
            for one in self.rungs
        ]

    def as_dict(self) -> dict[str, Any]:
        """Everything but the arrays of all nodes, as plain values."""
        return {
            "guarantee": self.guarantee.as_dict(),
            "delta": self.delta,
            "spent": self.spent,
            "anytime": self.anytime,
            "uncertainty": self.by,
            "calibration": {"nodes": int(self.calibration.sum()), "source": self.calibration_source},
            "rungs": [one.as_dict() for one in self.rungs],
        }

    def again(self, prediction: Prediction, graph: Graph, calibration: np.ndarray) -> Frontier:
        """The same thresholds, tested on all calibration labels so far.

        Args:
            prediction: the one that was certified; another model has other errors.
            graph: with the current labels.
            calibration: mask or positions of *all* calibration nodes, the earlier ones included.

        Raises:
            BadUsage: the frontier was not made with ``anytime=True``. A second look at an ordinary test has no
                guarantee, since it only happens if the first one failed.
        """
        if not self.anytime:
            raise BadUsage(
                "this frontier can be tested only once: a second test would void its guarantee",
                fix="use certify(…, anytime=True) from the start, or only new calibration nodes",
            )
        held = held_out(prediction, graph, calibration)
        if lost := int((self.calibration & ~held.mask).sum()):
            raise BadUsage(
                f"{lost} of the earlier calibration nodes are missing",
                expected="all earlier calibration nodes, plus new ones",
                fix="only add calibration nodes, never drop any",
            )
        wrong = ACCEPTANCE.of(prediction)(prediction, graph, held, self.values, self.tolerance, None, None)[2]
        limits = tuple(one.limit for one in self.rungs)
        thresholds = np.array([one.threshold for one in self.rungs])
        uncertain = np.where(self.cleared, self.values, np.inf)
        rungs = judge_ladder(uncertain[held.nodes], wrong, limits, thresholds, self.delta, anytime=True)
        kept = zip(self.rungs, _with_shares(rungs, uncertain[self.decided]), strict=True)
        return replace(
            self,
            # what was certified once stays certified: the guarantee holds for all looks together
            rungs=tuple(replace(new, status="certified", further_labels=None, outlook="certified at an earlier look")
                        if old.certified and not new.certified else new for old, new in kept),
            calibration=held.mask,
            calibration_source=held.source.words,
        )  # fmt: skip


def certify(
    prediction: Prediction,
    graph: Graph,
    *,
    ladder: Sequence[float] = LADDER,
    delta: float = 0.05,
    by: By = None,
    tolerance: float | None = None,
    ood: OODFlag | None = None,
    focus: float | None = FOCUS,
    anytime: bool = False,
    calibration: np.ndarray | None = None,
    size: int | None = None,
    seed: int = 0,
    model: Predictor | None = None,
) -> Frontier:
    """Which error limits hold among accepted nodes, all of them together with probability ``1 − delta``.

    One threshold per limit is chosen on validation nodes. The limits are then tested on calibration nodes from the
    loosest to the strictest, each at full ``delta`` by an exact binomial test, up to the first failure (fixed-sequence
    testing). Because thresholds and order are fixed before any calibration label is seen, the probability that any
    certified limit does not hold is at most ``delta``, and a limit may be chosen after looking at all of them.

    Validation nodes are few, and a threshold chosen on them is often too loose to pass or stricter than needed. One
    limit, the ``focus``, is therefore tested at thresholds from strict to loose as well
    (:func:`graphsde.acting.loosening.loosen`), with 80 % of ``delta``; the ladder has the other 20 %, and what holds at
    the focus holds at looser limits. The probability that any certified limit fails is still at most ``delta``.

    Args:
        prediction: of all nodes of ``graph``.
        graph: with the masks that the model was fitted with, validation nodes among them.
        ladder: the limits, fixed beforehand.
        delta: probability, over draws of the calibration nodes, that the guarantee fails.
        by, tolerance, model: as of :func:`graphsde.abstain`.
        ood: a flag with a threshold that is fixed on validation nodes, from
            :func:`graphsde.acting.ood.flag_per_node`; flagged nodes are not accepted, and not counted.
        focus: a limit of the ladder, fixed beforehand; ``None`` leaves all of ``delta`` to the ladder, and so does
            ``anytime``.
        anytime: test by an e-process, so that :meth:`Frontier.again` may be called whenever labels come in. Needs
            about 50 % more nodes.
        calibration, size, seed: which calibration nodes; as of :func:`graphsde.uncertainty.held_out.held_out`.

    Example:
        >>> import graphsde as gs
        >>> graph = gs.load("digits")
        >>> frontier = certify(gs.LabelPropagation().fit(graph).predict(graph), graph)
        >>> [rung.limit for rung in frontier.certified][:4], frontier.at(0.12).limit
        ([0.3, 0.2, 0.15, 0.1], 0.1)
    """
    limits = _checked_ladder(ladder)
    require_share("delta", delta)
    if focus not in (None, FOCUS, *limits) and not anytime:
        raise BadUsage(
            f"the focus {focus:g} is not a limit of the ladder",
            found=focus,
            expected="one of " + ", ".join(f"{one:g}" for one in limits),
            fix="add it to the ladder, or leave out the focus",
        )
    held = held_out(prediction, graph, calibration, size=size, seed=seed)
    judged = _validation(prediction, graph)
    if ood is not None and (ood.calibration & held.mask).any():
        raise BadUsage(
            "the OOD flag was calibrated on the nodes that the limits are tested on",
            code="E-CAL-USED",
            fix="use flag_per_node, whose threshold is fixed on validation nodes",
        )
    rule = ACCEPTANCE.of(prediction)
    name, values, wrong = rule(prediction, graph, held, by, tolerance, ood, model)
    wrong_in_validation = rule(prediction, graph, judged, by, tolerance, ood, model)[2]
    cleared = np.ones(graph.num_nodes, dtype=bool) if ood is None else ood.cleared
    uncertain = np.where(cleared, values, np.inf)
    decided = ~(held.mask | graph.role("train") | graph.role("val"))
    focused = focus is not None and not anytime and focus in limits
    own = FOCUS_SHARE * delta if focused else 0.0
    thresholds = choose_thresholds(
        uncertain[judged.nodes], wrong_in_validation, limits, delta / BET if anytime else delta - own, len(held)
    )
    rungs = judge_ladder(uncertain[held.nodes], wrong, limits, thresholds, delta - own, anytime=anytime)
    if focused and focus is not None:
        others = decided if decided.any() else ~held.mask
        found = loosen(uncertain[held.nodes], wrong, uncertain[others], focus, own)
        rungs = with_focus(rungs, found, focus, own, len(held))
    decided = decided if decided.any() else held.mask
    return Frontier(
        delta=float(delta),
        rungs=_with_shares(rungs, uncertain[decided]),
        by=name,
        values=values,
        cleared=cleared,
        decided=decided,
        calibration=held.mask,
        calibration_source=held.source.words,
        anytime=anytime,
        ood=ood,
        tolerance=None if tolerance is None else float(tolerance),
    )


def with_focus(
    rungs: tuple[Rung, ...], found: Loosened | None, focus: float, delta: float, nodes: int
) -> tuple[Rung, ...]:
    """Rungs, with the threshold of the focus if it accepts more than their own or theirs is not certified.

    Args:
        rungs: of the ladder.
        found: at the focus; if it has not passed, its rung says what it needs.
        focus, delta: the limit, and the δ that it was tested with.
        nodes: all calibration nodes.
    """
    if found is None:  # nothing was tested; more labels would be, with the δ of the focus
        named = [one for one in rungs if one.limit == focus and not one.certified]
        said = {one.limit: further_labels(one.wrong, one.accepted, nodes, focus, delta) for one in named}
        return tuple(
            replace(one, further_labels=said[one.limit][0], outlook=said[one.limit][1]) if one.limit in said else one
            for one in rungs
        )
    bound = float(clopper_pearson_upper(found.wrong, found.accepted, delta))
    counts: dict[str, Any] = {
        "threshold": found.threshold, "accepted": found.accepted, "wrong": found.wrong,
        "upper_bound": bound, "p_value": found.p_value,
    }  # fmt: skip
    result: list[Rung] = []
    for one in rungs:
        if found.passed and one.limit < focus and not one.certified:  # the looser limits before it no longer block it
            rest = delta * (1.0 - FOCUS_SHARE) / FOCUS_SHARE
            outcome = further_labels(one.wrong, one.accepted, nodes, one.limit, rest)
            further, outlook = _at_least_as_many(outcome, None if result[-1].certified else result[-1], one.wrong)
            one = replace(one, further_labels=further, outlook=outlook)
        elif found.passed and one.limit >= focus and not (one.certified and one.threshold >= found.threshold):
            one = replace(one, **counts, status="certified", further_labels=None, outlook="certified")
        elif not found.passed and one.limit == focus and not one.certified:
            further, outlook = further_labels(found.wrong, found.accepted, nodes, focus, delta)
            one = replace(one, **counts, status="failed", further_labels=further, outlook=outlook)
        result.append(one)
    return tuple(result)


def _validation(prediction: Prediction, graph: Graph) -> HeldOut:
    """Validation nodes; if none are labelled, nothing is certified."""
    try:
        return validation_held(prediction, graph)
    except BadUsage as error:
        if error.code != "E-SPLIT-EMPTY":
            raise
        return held_out(prediction, graph, np.zeros(graph.num_nodes, dtype=bool))


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


def _with_shares(rungs: tuple[Rung, ...], values: np.ndarray) -> tuple[Rung, ...]:
    """With the share of the nodes decided on that each limit accepts."""
    return tuple(replace(one, accepted_share=float((values <= one.threshold).mean())) for one in rungs)


def _checked_ladder(ladder: Sequence[float]) -> tuple[float, ...]:
    for limit in ladder:
        require_share("a limit of the ladder", limit)
    limits = tuple(float(one) for one in ladder)
    if not limits or any(later >= earlier for earlier, later in itertools.pairwise(limits)):
        raise BadUsage(
            "the limits of a ladder must go from loose to strict",
            found=", ".join(f"{one:g}" for one in limits) or "none",
            expected="falling shares, such as 0.2, 0.1, 0.05",
        )
    return limits
