"""What to do with each node: accept its answer, have it reviewed, or (of classes) treat it as OOD."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from graphsde.acting.abstain import ACCEPT_BY, Abstention, abstain
from graphsde.acting.certified import Frontier, certify
from graphsde.acting.cross_fit import cross_fitted
from graphsde.acting.expected import Selection, select
from graphsde.acting.ood import OODFlag, flag_ood, flag_per_node
from graphsde.acting.rules import GUARANTEES, GuaranteeName, of_frontier, of_selection
from graphsde.base.errors import BadInput, BadUsage
from graphsde.base.registry import Rules
from graphsde.base.renames import current
from graphsde.datasets.splits.calibration import CALIBRATION_SIZE
from graphsde.graph.graph import Graph
from graphsde.metrics.evaluation import judged_nodes
from graphsde.prediction import ClassPrediction, Prediction, Predictor, RegressionPrediction
from graphsde.uncertainty.conformal import Conformal, ConformalIntervals, conformalize, summarise_sets
from graphsde.uncertainty.held_out import align_labels

BETWEEN_CLASSES = " | "


class Decisions(ABC):
    """One action per node, with what is guaranteed of them; made by :func:`decide`."""

    choices: ClassVar[tuple[str, ...]]
    prediction: Prediction
    graph: Graph
    abstention: Abstention
    actions: np.ndarray
    """One of ``choices`` for each node.  # [N] object"""
    frontier: Frontier | None
    """All limits of the ladder, where the guarantee is ``certified``."""
    selection: Selection | None
    """Conformal selection, where the guarantee is ``expected``."""
    again: Callable[[np.ndarray], Decisions] | None
    """The same decisions, calibrated on other nodes."""

    @abstractmethod
    def columns(self) -> dict[str, Any]:
        """One array per column, for a table with a row per node."""

    @abstractmethod
    def reasons(self) -> np.ndarray:
        """Why each node got its action, in words.  # [N] object"""

    @abstractmethod
    def summary(self) -> dict[str, Any]:
        """Threshold, bound, coverage, counts, and the realised figures on test nodes where their truth is there."""

    @abstractmethod
    def _realised(self, test: np.ndarray) -> dict[str, Any]:
        """What became of the guarantees on test nodes that were not calibrated on."""

    def _on_test_nodes(self) -> dict[str, Any]:
        """Realised figures under ``test``; cross-fitted where all test nodes were calibrated on."""
        judged = judged_nodes(self.prediction, self.graph)
        test = judged & ~self.abstention.calibration
        if test.any():
            return {"test": self._realised(test)}
        again = self.again
        if again is None or judged.sum() < 2:
            return {}
        try:
            found = cross_fitted(judged, lambda fitted, other: again(fitted)._realised(other))
        except BadInput:  # half of the nodes is too few
            return {}
        found |= {"error": found["wrong"] / found["accepted"] if found["accepted"] else None, "cross_fitted": True}
        return {"test": found}

    def _counts(self) -> dict[str, Any]:
        a = self.abstention
        told: dict[str, Any] = {} if self.frontier is None else {"frontier": self.frontier.as_dict()}
        if self.selection is not None:
            told["selection"] = self.selection.as_dict()
        return (
            a.summary()
            | told
            | {
                "actions": {name: int((self.actions == name).sum()) for name in self.choices},
                "calibration": {"nodes": int(a.calibration.sum()), "source": a.calibration_source},
            }
        )


def _uncertainty(p: Prediction) -> dict[str, Any]:
    return {
        "total": p.total,
        "aleatoric": p.aleatoric,
        "epistemic": [None if np.isnan(value) else float(value) for value in p.epistemic],
    }


@dataclass(frozen=True, eq=False)
class ClassDecisions(Decisions):
    """One action per node, with what is guaranteed of them; made by :func:`decide`.

    Args:
        prediction, graph: what was decided on.
        abstention: the rule of acceptance; certified for nodes that the flag has cleared.
        ood: the flag, which acts first.
        conformal: the calibrated sets.
        sets: classes that each node may be of, never empty.  # [N, C] bool
        actions: ``accept``, ``review`` or ``ood``.  # [N] object
        frontier, selection: behind the guarantees ``certified`` and ``expected``.
        again: the same decisions, calibrated on other nodes.
    """

    prediction: ClassPrediction
    graph: Graph
    abstention: Abstention
    ood: OODFlag
    conformal: Conformal
    sets: np.ndarray
    actions: np.ndarray
    frontier: Frontier | None = None
    selection: Selection | None = None
    again: Callable[[np.ndarray], Decisions] | None = None
    choices = ("accept", "review", "ood")

    def columns(self) -> dict[str, Any]:
        p = self.prediction
        names = np.array(p.class_names, dtype=object)
        return {
            "id": p.ids,
            "label": p.label,
            "confidence": p.confidence,
            **_uncertainty(p),
            "ood_score": self.ood.values,
            "prediction_set": np.array([BETWEEN_CLASSES.join(names[row]) for row in self.sets], dtype=object),
            "action": self.actions,
            "reason": self.reasons(),
        }

    def reasons(self) -> np.ndarray:
        a, f = self.abstention, self.ood
        limit = "no threshold could be certified" if a.threshold is None else f"the limit {a.threshold:.4g}"
        reasons = np.empty(len(self.actions), dtype=object)
        for node, action in enumerate(self.actions):
            if action == "ood":
                strange = f"{f.by} {f.values[node]:.4g} is above {f.threshold:.4g}"
                reasons[node] = f"{strange}: unlike the nodes calibrated on"
            elif action == "accept":
                reasons[node] = f"{a.by} {a.values[node]:.4g} is within {limit}"
            elif a.threshold is None:
                reasons[node] = f"{a.by} {a.values[node]:.4g}; {limit}"
            elif a.values[node] <= a.threshold:
                reasons[node] = f"{a.by} {a.values[node]:.4g}; not one of the nodes decided on"
            else:
                reasons[node] = f"{a.by} {a.values[node]:.4g} is above {limit}"
        return reasons

    def summary(self) -> dict[str, Any]:
        a, f, c = self.abstention, self.ood, self.conformal
        found: dict[str, Any] = {
            **self._counts(),
            "ood": {
                "score": f.by,
                "threshold": f.threshold,
                "false_alarm": f.false_alarm,
                "calibration_rate": f.calibration_rate,
            },
            "sets": {
                "score": c.by,
                "confidence_level": c.confidence_level,
                "mean_size": float(self.sets[a.decided].sum(axis=1).mean()),
                "guarantee": c.guarantee,
            },
        }
        found |= self._on_test_nodes()
        ood = self.graph.ood_nodes
        if ood is not None and ood.any():
            found["ood"]["flagged_of_ood"] = float(f.flagged[ood].mean())
            found["ood"]["accepted_of_ood"] = float(a.accepted[ood].mean())
        return found

    def _realised(self, test: np.ndarray) -> dict[str, Any]:
        labels = align_labels(self.graph, self.prediction.class_names)
        sets = summarise_sets(self.sets[test], labels[test])
        return self.abstention.realised(test, self.prediction.index != labels) | {
            "false_alarms": float(self.ood.flagged[test].mean()),
            "set_coverage": sets["coverage"],
            "set_size": sets["mean_size"],
        }


@dataclass(frozen=True, eq=False)
class RegressionDecisions(Decisions):
    """One action per node, with what is guaranteed of them; made by :func:`decide`.

    Args:
        prediction, graph: what was decided on.
        abstention: the rule of acceptance.
        conformal: the calibrated intervals.
        low, high: their ends.  # [N], [N]
        actions: ``accept`` or ``review``.  # [N] object
        frontier, selection: behind the guarantees ``certified`` and ``expected``.
        again: the same decisions, calibrated on other nodes.
    """

    prediction: RegressionPrediction
    graph: Graph
    abstention: Abstention
    conformal: ConformalIntervals
    low: np.ndarray
    high: np.ndarray
    actions: np.ndarray
    frontier: Frontier | None = None
    selection: Selection | None = None
    again: Callable[[np.ndarray], Decisions] | None = None
    choices = ("accept", "review")

    def columns(self) -> dict[str, Any]:
        p = self.prediction
        return {
            "id": p.ids,
            "mean": p.mean,
            "low": self.low,
            "high": self.high,
            **_uncertainty(p),
            "chance_beyond": self.abstention.values,
            "action": self.actions,
            "reason": self.reasons(),
        }

    def reasons(self) -> np.ndarray:
        a = self.abstention
        reasons = np.empty(len(self.actions), dtype=object)
        for node, action in enumerate(self.actions):
            chance = f"the chance of being off by more than {a.tolerance:g} is {a.values[node]:.3g}"
            if a.threshold is None:
                reasons[node] = f"{chance}; no threshold could be certified"
            else:
                place = "within" if action == "accept" else "above"
                reasons[node] = f"{chance}, {place} the limit {a.threshold:.3g}"
        return reasons

    def summary(self) -> dict[str, Any]:
        a, c = self.abstention, self.conformal
        found: dict[str, Any] = {
            "tolerance": a.tolerance,
            **self._counts(),
            "intervals": {
                "score": c.by,
                "confidence_level": c.confidence_level,
                "mean_width": float((self.high - self.low)[a.decided].mean()),
                "guarantee": c.guarantee,
            },
        }
        return found | self._on_test_nodes()

    def _realised(self, test: np.ndarray) -> dict[str, Any]:
        assert self.graph.values is not None and self.abstention.tolerance is not None
        truth = np.where(test, self.graph.values, 0.0)
        wrong = np.abs(self.prediction.mean - truth) > self.abstention.tolerance
        return self.abstention.realised(test, wrong) | {
            "interval_coverage": float(((self.low <= truth) & (truth <= self.high))[test].mean()),
            "interval_width": float((self.high - self.low)[test].mean()),
        }


def decide(
    prediction: Prediction,
    graph: Graph,
    *,
    max_error: float = 0.05,
    delta: float = 0.05,
    guarantee: GuaranteeName = "learn-then-test",
    tolerance: float | None = None,
    by: str | None = None,
    false_alarm: float | None = None,
    ood_by: str | None = None,
    confidence_level: float = 0.9,
    sets_by: str | None = None,
    intervals_by: str | None = None,
    calibration: np.ndarray | None = None,
    size: int | None = None,
    seed: int = 0,
    model: Predictor | None = None,
    **former: Any,
) -> Decisions:
    """One action per node: first the flag for OOD nodes, then acceptance among the others.

    The order matters for the guarantee. ``max_error`` bounds the errors among nodes that were accepted *after*
    flagging, and is certified on calibration nodes that went through the same two steps. Nodes to come that are OOD
    are not covered by it: the flag has a stated rate of false alarms, not of misses. Numbers have no such flag: what a
    model says of them does not tell OOD nodes.

    Args:
        prediction: of all nodes of ``graph``.
        graph: with the masks that the model was fitted with.
        max_error, delta: of :func:`graphsde.abstain`.
        guarantee: ``learn-then-test`` certifies the one limit ``max_error``, which must be chosen beforehand
            (:func:`graphsde.abstain`); ``certified`` a ladder of limits, all together, and takes the loosest one that
            is at most ``max_error`` (:func:`graphsde.acting.certified.certify`); ``expected`` holds on average and
            needs fewer labels (:func:`graphsde.acting.expected.select`).
        tolerance: for numbers, where it is needed: an answer is wrong where it is off by more than this.
        by: for classes: the uncertainty to accept by; ``margin`` if not given.
        false_alarm, ood_by: for classes: of :func:`graphsde.acting.ood.flag_ood`; 0.05, and ``ood`` where it can be.
        confidence_level: of :func:`graphsde.conformalize`.
        sets_by, intervals_by: for classes and for numbers: ``by`` of :func:`graphsde.conformalize`.
        calibration, size, seed: which calibration nodes; the same for all steps. Where the split has none:
            ``learn-then-test`` takes ``size`` (500) nodes without a role, or up to half of the test nodes; the others
            take all test nodes, and figures on test nodes are then cross-fitted.
        model: who predicted, for scores that ask it for further predictions.
        former: options under the names that they once had.

    Example:
        >>> import graphsde as gs
        >>> graph = gs.load("digits")
        >>> found = gs.decide(gs.LabelPropagation().fit(graph).predict(graph), graph, max_error=0.1)
        >>> set(found.actions) <= {"accept", "ood", "review"}
        True
        >>> graph = gs.load("diabetes")
        >>> found = gs.decide(gs.GCN(epochs=30).fit(graph).predict(graph), graph, tolerance=150, max_error=0.2)
        >>> set(found.actions) <= {"accept", "review"}
        True
    """
    if guarantee not in GUARANTEES:
        raise BadUsage(
            f"there is no guarantee named '{guarantee}'", found=guarantee, expected="one of " + ", ".join(GUARANTEES)
        )
    if size is None and guarantee == "learn-then-test":
        size = CALIBRATION_SIZE
    shared: dict[str, Any] = {"calibration": calibration, "size": size, "seed": seed}
    rule = DECIDING.of(prediction)
    known = [name for name, one in inspect.signature(rule).parameters.items() if one.default is not one.empty]
    asked: dict[str, Any] = {
        "tolerance": tolerance,
        "by": by,
        "false_alarm": false_alarm,
        "ood_by": ood_by,
        "sets_by": sets_by,
    }
    asked |= {"intervals_by": intervals_by, "model": model}
    asked |= {current("option", name): value for name, value in former.items()}
    given = {name: value for name, value in asked.items() if value is not None}
    if strange := sorted(set(given) - set(known)):
        raise BadUsage(
            f"{', '.join(strange)} is not for {prediction.speaks_of}, which this model predicts",
            code="E-TARGET",
            found=", ".join(strange),
            expected="one of " + ", ".join(known),
            fix="leave it out",
        )
    asked_for: dict[str, Any] = {"max_error": max_error, "delta": delta, "confidence_level": confidence_level}
    return rule(prediction, graph, shared, guarantee=guarantee, **asked_for, **given)


DECIDING: Rules[Callable[..., Decisions]] = Rules("deciding")
"""How a kind of prediction is decided on; parameters with a default are its options."""


@DECIDING.register("classification")
def _decide_classes(
    prediction: ClassPrediction,
    graph: Graph,
    shared: dict[str, Any],
    *,
    guarantee: GuaranteeName,
    max_error: float,
    delta: float,
    confidence_level: float,
    by: str = ACCEPT_BY,
    false_alarm: float = 0.05,
    ood_by: str | None = None,
    sets_by: str = "aps",
    model: Predictor | None = None,
) -> ClassDecisions:
    if guarantee == "learn-then-test":
        flag = flag_ood(prediction, graph, false_alarm=false_alarm, by=ood_by, model=model, **shared)
    else:
        flag = flag_per_node(prediction, graph, false_alarm=false_alarm, by=ood_by, model=model)
    accepting = {"by": by, "ood": flag, "model": model}
    rule, frontier, selection = _accepting(prediction, graph, guarantee, max_error, delta, accepting | shared)
    same_nodes = shared if guarantee == "learn-then-test" else {"calibration": rule.calibration, "seed": shared["seed"]}
    conformal = conformalize(prediction, graph, confidence_level=confidence_level, by=sets_by, **same_nodes)
    actions = np.full(graph.num_nodes, "review", dtype=object)
    actions[rule.accepted] = "accept"
    actions[flag.flagged] = "ood"
    sets = conformal.predict_set(prediction, never_empty=True)

    def again(calibration: np.ndarray) -> Decisions:
        return _decide_classes(
            prediction, graph, shared | {"calibration": calibration}, guarantee=guarantee, max_error=max_error,
            delta=delta, confidence_level=confidence_level, by=by, false_alarm=false_alarm, ood_by=flag.by,
            sets_by=sets_by, model=model,
        )  # fmt: skip

    return ClassDecisions(prediction, graph, rule, flag, conformal, sets, actions, frontier, selection, again)


@DECIDING.register("regression")
def _decide_numbers(
    prediction: RegressionPrediction,
    graph: Graph,
    shared: dict[str, Any],
    *,
    guarantee: GuaranteeName,
    max_error: float,
    delta: float,
    confidence_level: float,
    tolerance: float | None = None,
    intervals_by: str = "deviations",
    model: Predictor | None = None,
) -> RegressionDecisions:
    if tolerance is None:
        raise BadUsage(
            "the model predicts numbers: how far off may an accepted one be?",
            code="E-TARGET",
            fix="give tolerance= (--tolerance), in the target's unit",
        )
    accepting = {"tolerance": tolerance} | shared
    rule, frontier, selection = _accepting(prediction, graph, guarantee, max_error, delta, accepting)
    same_nodes = shared if guarantee == "learn-then-test" else {"calibration": rule.calibration, "seed": shared["seed"]}
    intervals = conformalize(prediction, graph, confidence_level=confidence_level, by=intervals_by, **same_nodes)
    low, high = intervals.predict_interval(prediction)
    actions = np.full(graph.num_nodes, "review", dtype=object)
    actions[rule.accepted] = "accept"

    def again(calibration: np.ndarray) -> Decisions:
        return _decide_numbers(
            prediction, graph, shared | {"calibration": calibration}, guarantee=guarantee, max_error=max_error,
            delta=delta, confidence_level=confidence_level, tolerance=tolerance, intervals_by=intervals_by, model=model,
        )  # fmt: skip

    return RegressionDecisions(prediction, graph, rule, intervals, low, high, actions, frontier, selection, again)


def _accepting(
    prediction: Prediction,
    graph: Graph,
    guarantee: GuaranteeName,
    max_error: float,
    delta: float,
    options: dict[str, Any],
) -> tuple[Abstention, Frontier | None, Selection | None]:
    """The rule of acceptance behind a guarantee, in the terms of :func:`graphsde.abstain`."""
    if guarantee == "certified":
        frontier = certify(prediction, graph, delta=delta, **options)
        return of_frontier(frontier, max_error), frontier, None
    if guarantee == "expected":
        selection = select(prediction, graph, max_error=max_error, **options)
        return of_selection(selection, delta), None, selection
    return abstain(prediction, graph, max_error=max_error, delta=delta, **options), None, None
