"""The frontier: which error limits can be certified together, and how many nodes each accepts."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from graphsde.acting.abstain import ACCEPTANCE, By
from graphsde.acting.guarantee import Guarantee, certified_guarantee
from graphsde.acting.ladder import (
    FOCUS,
    FOCUS_SHARE,
    LADDER,
    FocusSequence,
    Rung,
    choose_thresholds,
    judge_all,
    keep_certified,
    with_shares,
)
from graphsde.acting.loosening import thresholds_to_test
from graphsde.acting.needed_labels import BET
from graphsde.acting.ood import OODFlag
from graphsde.base.errors import BadUsage
from graphsde.graph.graph import Graph
from graphsde.prediction import Prediction, Predictor
from graphsde.uncertainty.binomial import nodes_to_certify
from graphsde.uncertainty.held_out import HeldOut, held_out, require_share, validation_held

PLANNED = 300
"""Calibration nodes that the thresholds of a repeated test are chosen for, if it begins with fewer."""


@dataclass(frozen=True)
class OrdinaryTest:
    """A test of limits that is run once: what has to be known to repeat it on the same nodes.

    Args:
        delta: probability that any limit it certified does not hold.
        limits: from the loosest to the strictest.
        focus: the limit that got most of ``delta``.
    """

    delta: float
    limits: tuple[float, ...]
    focus: float | None


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
        thresholds: of the ladder, which every repetition tests again.  # [K]
        anytime: whether the test may be repeated as labels come in.
        ood: the flag that acts first, if there is one.
        tolerance: for regression: a prediction is wrong if it is off by more.
        spent: δ of other tests on the same calibration labels, which lowers the stated probability.
        sequence: the focus, with its thresholds and its share of δ.
    """

    delta: float
    rungs: tuple[Rung, ...]
    by: str
    values: np.ndarray
    cleared: np.ndarray
    decided: np.ndarray
    calibration: np.ndarray
    calibration_source: str
    thresholds: np.ndarray
    anytime: bool = False
    ood: OODFlag | None = None
    tolerance: float | None = None
    spent: float = 0.0
    sequence: FocusSequence | None = None

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
    def test(self) -> OrdinaryTest:
        """For :meth:`keeping`, after a test that may be run only once."""
        focus = None if self.sequence is None else self.sequence.limit
        return OrdinaryTest(self.delta, tuple(one.limit for one in self.rungs), focus)

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
        uncertain, wrong = np.where(self.cleared, self.values, np.inf), self._wrong(prediction, graph, held)
        limits = tuple(one.limit for one in self.rungs)
        rungs = judge_all(
            uncertain[held.nodes], wrong, limits, self.thresholds, self.delta, self.sequence, anytime=True
        )
        # the guarantee holds for all looks together, so what was certified stays, unless the labels contradict it now
        rungs = keep_certified(rungs, self.rungs, uncertain[held.nodes], wrong)
        decided = self.decided & ~held.mask  # what is known is not decided any more
        decided = decided if decided.any() else self.decided
        return replace(
            self,
            rungs=with_shares(rungs, uncertain[decided]),
            decided=decided,
            calibration=held.mask,
            calibration_source=held.source.words,
        )

    def keeping(self, earlier: Frontier, prediction: Prediction, graph: Graph) -> Frontier:
        """With the limits that an ordinary test of the same rule has certified before; its δ counts as spent.

        Both hold together with probability ``1 − delta − spent``.

        Args:
            earlier: of the first calibration nodes.
            prediction, graph: with the current labels.
        """
        held = held_out(prediction, graph, self.calibration)
        uncertain = np.where(self.cleared, self.values, np.inf)
        rungs = keep_certified(self.rungs, earlier.rungs, uncertain[held.nodes], self._wrong(prediction, graph, held))
        return replace(self, rungs=with_shares(rungs, uncertain[self.decided]), spent=self.spent + earlier.delta)

    def _wrong(self, prediction: Prediction, graph: Graph, held: HeldOut) -> np.ndarray:
        return ACCEPTANCE.of(prediction)(prediction, graph, held, self.values, self.tolerance, None, None)[2]


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
        focus: a limit of the ladder, fixed beforehand; ``None`` leaves all of ``delta`` to the ladder.
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
    if focus not in (None, FOCUS, *limits):
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
    # a test that may be repeated is planned for labels to come: with the few at first, no threshold forgives errors
    planned = max(len(held), PLANNED) if anytime else len(held)
    sequence = None
    if focus is not None and focus in limits:
        own = FOCUS_SHARE * delta
        others = uncertain[decided] if decided.any() else uncertain[~held.mask]
        tested = thresholds_to_test(others, planned, focus, own / BET if anytime else own)
        sequence = FocusSequence(focus, tested, own)
    rest = delta - (0.0 if sequence is None else sequence.delta)
    thresholds = choose_thresholds(
        uncertain[judged.nodes], wrong_in_validation, limits, rest / BET if anytime else rest, planned
    )
    rungs = judge_all(uncertain[held.nodes], wrong, limits, thresholds, delta, sequence, anytime=anytime)
    decided = decided if decided.any() else held.mask
    return Frontier(
        delta=float(delta),
        rungs=with_shares(rungs, uncertain[decided]),
        by=name,
        values=values,
        cleared=cleared,
        decided=decided,
        calibration=held.mask,
        calibration_source=held.source.words,
        anytime=anytime,
        ood=ood,
        tolerance=None if tolerance is None else float(tolerance),
        thresholds=thresholds,
        sequence=sequence,
    )


def _validation(prediction: Prediction, graph: Graph) -> HeldOut:
    """Validation nodes; if none are labelled, nothing is certified."""
    try:
        return validation_held(prediction, graph)
    except BadUsage as error:
        if error.code != "E-SPLIT-EMPTY":
            raise
        return held_out(prediction, graph, np.zeros(graph.num_nodes, dtype=bool))


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
