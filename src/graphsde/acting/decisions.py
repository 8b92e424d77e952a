"""Decisions: one action per node, their guarantees, and how they turned out on test nodes."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from graphsde.acting.abstain import Abstention
from graphsde.acting.certified import Frontier
from graphsde.acting.cross_fit import cross_fitted, halves
from graphsde.acting.expected import Selection, select
from graphsde.acting.guarantee import per_node_guarantee
from graphsde.acting.ood import OODFlag, OODGroup, OODPValues
from graphsde.acting.review import Importance, Review, review_list
from graphsde.base.errors import BadInput, BadUsage
from graphsde.base.html import card, note, table
from graphsde.graph.graph import Graph
from graphsde.metrics.evaluation import judged_nodes
from graphsde.prediction import ClassPrediction, Prediction, RegressionPrediction
from graphsde.prediction.columns import roles_of, with_node_names
from graphsde.uncertainty.conformal import Conformal, ConformalIntervals, summarise_sets
from graphsde.uncertainty.conformal.conditional import GroupConformal, coverage_table
from graphsde.uncertainty.held_out import align_labels, require_share

if TYPE_CHECKING:
    import pandas as pd

BETWEEN_CLASSES = " | "


class Decisions(ABC):
    """One action per node, with its guarantees; made by :func:`graphsde.decide`."""

    choices: ClassVar[tuple[str, ...]]
    prediction: Prediction
    graph: Graph
    max_error: float
    """The requested limit."""
    abstention: Abstention
    """The rule of acceptance; its own ``max_error`` is the certified limit in use."""
    actions: np.ndarray
    """One of ``choices`` for each node.  # [N] object"""
    frontier: Frontier
    """All limits of the ladder, whatever the guarantee in use."""
    selection: Selection | None
    """What is accepted under a guarantee that holds on average."""
    notes: tuple[str, ...]
    """What the labels were too few for, in words."""
    again: Callable[[np.ndarray], Decisions] | None
    """The same decisions, calibrated on other nodes."""
    strangeness: OODPValues | None
    """OOD p-values of classes; numbers have none."""

    def __str__(self) -> str:
        """The frontier, the guarantee and the counts, as the command line prints them."""
        from graphsde.acting.decision_words import describe

        return str(describe(self))

    def decided_counts(self) -> dict[str, int]:
        """How many nodes got each action, among those whose label was not used."""
        return {one: int(((self.actions == one) & self.abstention.decided).sum()) for one in self.choices}

    def __repr__(self) -> str:
        counts = ", ".join(f"{one} {int((self.actions == one).sum()):,}" for one in self.choices)
        return f"{type(self).__name__}({len(self.actions):,} nodes: {counts}; limit {self.max_error:g})"

    def _repr_html_(self) -> str:
        from graphsde.acting.decision_words import frontier_rows

        a, counts = self.abstention, self.decided_counts()
        nodes = int(a.decided.sum())
        acted: list[dict[str, object]] = [
            {"action": one, "nodes": many, "share": f"{many / max(nodes, 1):.1%}"} for one, many in counts.items()
        ]
        stated = self.frontier.guarantee if a.stated is None else a.stated
        in_use = a.max_error if stated.name == "certified" and a.threshold is not None else None
        about = {
            "nodes": len(self.actions),
            "decided on": nodes,
            "limit asked for": f"{self.max_error:.1%}",
            "guarantee": stated.name,
        }
        parts = table(acted), note(stated.meaning), table(frontier_rows(self.frontier, in_use), limit=120)
        return card(type(self).__name__, about, *parts, *map(note, self.notes))

    @abstractmethod
    def columns(self) -> dict[str, Any]:
        """One array per column, for a table with a row per node."""

    @abstractmethod
    def reasons(self) -> np.ndarray:
        """Why each node got its action, in words.  # [N] object"""

    @abstractmethod
    def summary(self) -> dict[str, Any]:
        """Threshold, bound, coverage, counts, and the realised metrics on test nodes if their labels are known."""

    @abstractmethod
    def _realised(self, test: np.ndarray) -> dict[str, Any]:
        """How the guarantees turned out on test nodes that were not calibrated on."""

    def review(self, importance: Importance | None = None, *, known: bool = False) -> Review:
        """The nodes to review, ranked, each with a reason; nodes whose label is known are left out.

        Args:
            importance: order by a numeric column of the graph (by its name), by ``degree``, or by a number per node;
                by default the most uncertain come first.
            known: list nodes whose label is known as well.

        Example:
            >>> import graphsde as gs
            >>> graph = gs.load("digits")
            >>> decisions = gs.decide(gs.LabelPropagation().fit(graph).predict(graph), graph, max_error=0.03)
            >>> list(decisions.review().columns())[:6]
            ['rank', 'id', 'split', 'action', 'label', 'confidence']
        """
        return review_list(self, importance, known=known)

    def at(self, max_error: float) -> Self:
        """The same decisions under another limit; nothing is tested again, as all certified limits hold together.

        Raises:
            BadUsage: the guarantee in use is for one limit, chosen beforehand.

        Example:
            >>> import graphsde as gs
            >>> graph = gs.load("digits")
            >>> decisions = gs.decide(gs.LabelPropagation().fit(graph).predict(graph), graph, max_error=0.05)
            >>> decisions.at(0.1).abstention.max_error
            0.1
        """
        from graphsde.acting.rules import of_frontier

        require_share("max_error", max_error)
        if self.selection is not None:
            raise BadUsage(
                f"the guarantee {self.selection.guarantee.name} is for one limit, chosen beforehand",
                expected="the guarantee certified",
                fix="decide again with the other limit",
            )
        rule = of_frontier(self.frontier, max_error)
        actions = self._not_accepted()
        actions[rule.accepted] = "accept"
        return replace(  # type: ignore[type-var]
            self,
            max_error=float(max_error),
            abstention=rule,
            actions=actions,
            again=None if self.again is None else lambda nodes: self._calibrated_on(nodes).at(max_error),
        )

    def _not_accepted(self) -> np.ndarray:
        """The actions if nothing were accepted.  # [N] object"""
        return np.full(len(self.actions), "review", dtype=object)

    def to_pandas(self) -> pd.DataFrame:
        """One row per node, with the columns of ``decisions.csv``.

        Raises:
            MissingExtra: pandas is not installed.
        """
        from graphsde.io.pandas_frames import require_pandas

        return require_pandas().DataFrame(self.columns())

    def way_out(self) -> dict[str, Any] | None:
        """If nothing is accepted: the limits that are certified, what ``expected`` would accept, and the labels needed.

        ``None`` if something is accepted.
        """
        if self.abstention.threshold is not None:
            return None
        asked = next((one for one in self.frontier.rungs if one.limit <= self.max_error + 1e-12), None)
        return {
            "certified": [one.limit for one in self.frontier.certified],
            "expected": self._expected_share(),
            "further_labels": None if asked is None else asked.further_labels,
            "outlook": "stricter than every limit of the ladder" if asked is None else asked.outlook,
        }

    def _expected_share(self) -> float | None:
        a = self.abstention
        if self.selection is not None and self.selection.guarantee.name == "expected":
            return self.selection.accepted_share
        try:
            return select(
                self.prediction, self.graph, max_error=self.max_error, ood=a.ood, tolerance=a.tolerance, by=a.values
            ).accepted_share
        except (BadUsage, BadInput):  # no node left to decide on, or none to calibrate on
            return None

    @cached_property
    def _calibrated(self) -> dict[bytes, Decisions]:
        return {}

    def _calibrated_on(self, nodes: np.ndarray) -> Decisions:
        """The same decisions, calibrated on some of the nodes; made once for each choice."""
        assert self.again is not None
        key = nodes.tobytes()
        if key not in self._calibrated:
            self._calibrated[key] = self.again(nodes)
        return self._calibrated[key]

    def _judged(self) -> tuple[np.ndarray, bool]:
        """Test nodes to evaluate on, and whether to cross-fit because all of them were calibrated on."""
        judged = judged_nodes(self.prediction, self.graph)
        test = judged & ~self.abstention.calibration
        return (test, False) if test.any() else (judged, self.again is not None and judged.sum() >= 2)

    def _on_test_nodes(self) -> dict[str, Any]:
        """Realised metrics under ``test``; cross-fitted if all test nodes were calibrated on."""
        judged, crossed = self._judged()
        if not crossed:
            free = judged & ~self.abstention.calibration
            return {"test": self._realised(free)} if free.any() else {}
        try:
            found = cross_fitted(judged, lambda fitted, other: self._calibrated_on(fitted)._realised(other))
        except BadInput:  # half of the nodes are too few
            return {}
        found |= {"error": found["wrong"] / found["accepted"] if found["accepted"] else None, "cross_fitted": True}
        return {"test": found}

    def _counts(self) -> dict[str, Any]:
        a = self.abstention
        told: dict[str, Any] = {"asked": self.max_error, "frontier": self.frontier.as_dict()}
        if self.selection is not None:
            told["selection"] = self.selection.as_dict()
        if (way := self.way_out()) is not None:
            told["way_out"] = way
        stated = a.stated
        return (
            a.summary()
            | told
            | {
                "stated": None if stated is None else stated.as_dict(),
                "actions": {name: int((self.actions == name).sum()) for name in self.choices},
                "calibration": {"nodes": int(a.calibration.sum()), "source": a.calibration_source},
                "notes": list(self.notes),
            }
        )


def _uncertainty(p: Prediction) -> dict[str, Any]:
    return {
        "total": p.total,
        "aleatoric": p.aleatoric,
        "epistemic": [None if np.isnan(value) else float(value) for value in p.epistemic],
    }


@dataclass(frozen=True, eq=False, repr=False)
class ClassDecisions(Decisions):
    """One action per node, with its guarantees; made by :func:`graphsde.decide`.

    Args:
        prediction, graph: what was decided on.
        max_error: the requested limit.
        abstention: the rule of acceptance; certified for nodes that the flag has cleared.
        ood: the flag ``per-node``, which acts before acceptance.
        strangeness: OOD p-values of all nodes.
        group: the list ``fdr``, separate from the flag.
        ood_rule: which of the two decides the action ``ood``; neither changes which nodes are accepted.
        conformal: the calibrated sets; ``None`` if there are too few calibration nodes.
        sets: possible classes of each node, never empty.  # [N, C] bool
        actions: ``accept``, ``review`` or ``ood``.  # [N] object
        frontier: all limits of the ladder.
        selection: behind the guarantees ``expected`` and ``accepted-and-wrong``.
        notes: what the labels were too few for.
        again: the same decisions, calibrated on other nodes.
    """

    prediction: ClassPrediction
    graph: Graph
    max_error: float
    abstention: Abstention
    ood: OODFlag
    strangeness: OODPValues
    group: OODGroup
    ood_rule: str
    conformal: Conformal | GroupConformal | None
    sets: np.ndarray
    actions: np.ndarray
    frontier: Frontier
    selection: Selection | None = None
    notes: tuple[str, ...] = ()
    again: Callable[[np.ndarray], Decisions] | None = None
    choices = ("accept", "review", "ood")

    def _not_accepted(self) -> np.ndarray:
        flagged = self.ood.flagged if self.ood_rule == "per-node" else self.group.flagged
        return np.where(flagged, "ood", "review").astype(object)

    def columns(self) -> dict[str, Any]:
        p = self.prediction
        names = np.array(p.class_names, dtype=object)
        columns = {
            "id": p.ids,
            "split": roles_of(self.graph),
            "label": p.label,
            "confidence": p.confidence,
            **_uncertainty(p),
            "ood_score": self.ood.values,
            "ood_p_value": self.strangeness.p_values,
            "ood_group": self.group.flagged,
            "prediction_set": np.array([BETWEEN_CLASSES.join(names[row]) for row in self.sets], dtype=object),
            "action": self.actions,
            "reason": self.reasons(),
        }
        return with_node_names(columns, self.graph)

    def reasons(self) -> np.ndarray:
        a, f, p_values = self.abstention, self.ood, self.strangeness.p_values
        limit = "no threshold could be certified" if a.threshold is None else f"the limit {a.threshold:.4g}"
        reasons = np.empty(len(self.actions), dtype=object)
        for node, action in enumerate(self.actions):
            if f.flagged[node] or action == "ood":
                strange = f"OOD p-value {p_values[node]:.2g}, {f.by} {f.values[node]:.4g}"
                above = f" is above {f.threshold:.4g}" if f.flagged[node] else " is in the group"
                reasons[node] = f"{strange}{above}: unlike the calibration nodes"
            elif action == "accept":
                reasons[node] = f"{a.by} {a.values[node]:.4g} is within {limit}"
            elif a.threshold is None:
                reasons[node] = f"{a.by} {a.values[node]:.4g}; {limit}"
            elif a.values[node] <= a.threshold:
                reasons[node] = f"{a.by} {a.values[node]:.4g}; not one of the nodes decided on"
            else:
                reasons[node] = f"{a.by} {a.values[node]:.4g} is above {limit}"
        return reasons

    def coverage(self) -> list[dict[str, Any]]:
        """Coverage and size of the sets on test nodes: over all, per class and per degree band.

        Cross-fitted if all test nodes were calibrated on; empty if there is nothing to evaluate.
        """
        judged, crossed = self._judged()
        if self.conformal is None or not judged.any():
            return []
        sets = self.sets
        if crossed:
            sets = sets.copy()
            for fitted, other in halves(judged):
                try:
                    mine = self._calibrated_on(fitted)
                except BadInput:  # half of the nodes are too few
                    return []
                assert isinstance(mine, ClassDecisions)
                sets[other] = mine.sets[other]
        elif (judged & self.abstention.calibration).any():
            return []
        return coverage_table(sets, self.prediction, self.graph, judged)

    def summary(self) -> dict[str, Any]:
        a, f, c = self.abstention, self.ood, self.conformal
        alarms, nodes = self.strangeness.false_alarms(f)
        found: dict[str, Any] = {
            **self._counts(),
            "ood": {
                "rule": self.ood_rule,
                "score": f.by,
                "threshold": f.threshold if math.isfinite(f.threshold) else None,
                "false_alarm": f.false_alarm,
                "calibration_rate": alarms / nodes if nodes else None,
                "flagged": int(f.flagged.sum()),
                "guarantee": per_node_guarantee(f.false_alarm).as_dict(),
                "fdr": self.group.as_dict(),
            },
            "sets": self._about_sets(c) | {"mean_size": float(self.sets[a.decided].sum(axis=1).mean())},
        }
        found |= self._on_test_nodes()
        if "test" in found:
            found["sets"]["coverage"] = self.coverage()
        ood = self.graph.ood_nodes
        if ood is not None and ood.any():
            found["ood"]["flagged_of_ood"] = float(f.flagged[ood].mean())
            found["ood"]["accepted_of_ood"] = float(a.accepted[ood].mean())
        return found

    @staticmethod
    def _about_sets(c: Conformal | GroupConformal | None) -> dict[str, Any]:
        if c is None:
            return {"kind": None, "score": None, "confidence_level": None, "guarantee": "every class is in every set"}
        base, kind = (c.base, "degree") if isinstance(c, GroupConformal) else (c, "marginal")
        kind = "class" if base.class_conditional else kind
        return {"kind": kind, "score": base.by, "confidence_level": base.confidence_level, "guarantee": c.guarantee}

    def _realised(self, test: np.ndarray) -> dict[str, Any]:
        labels = align_labels(self.graph, self.prediction.class_names)
        sets = summarise_sets(self.sets[test], labels[test])
        return self.abstention.realised(test, self.prediction.index != labels) | {
            "false_alarms": float(self.ood.flagged[test].mean()),
            "set_coverage": sets["coverage"],
            "set_size": sets["mean_size"],
        }


@dataclass(frozen=True, eq=False, repr=False)
class RegressionDecisions(Decisions):
    """One action per node, with its guarantees; made by :func:`graphsde.decide`.

    Args:
        prediction, graph: what was decided on.
        max_error: the requested limit.
        abstention: the rule of acceptance.
        conformal: the calibrated intervals; ``None`` if there are too few calibration nodes.
        low, high: their ends.  # [N], [N]
        actions: ``accept`` or ``review``.  # [N] object
        frontier: all limits of the ladder.
        selection: behind the guarantees ``expected`` and ``accepted-and-wrong``.
        notes: what the labels were too few for.
        again: the same decisions, calibrated on other nodes.
    """

    prediction: RegressionPrediction
    graph: Graph
    max_error: float
    abstention: Abstention
    conformal: ConformalIntervals | None
    low: np.ndarray
    high: np.ndarray
    actions: np.ndarray
    frontier: Frontier
    selection: Selection | None = None
    notes: tuple[str, ...] = ()
    again: Callable[[np.ndarray], Decisions] | None = None
    strangeness: OODPValues | None = None
    choices = ("accept", "review")

    def columns(self) -> dict[str, Any]:
        p = self.prediction
        columns = {
            "id": p.ids,
            "split": roles_of(self.graph),
            "mean": p.mean,
            "low": self.low,
            "high": self.high,
            **_uncertainty(p),
            "chance_beyond": self.abstention.values,
            "action": self.actions,
            "reason": self.reasons(),
        }
        return with_node_names(columns, self.graph)

    def reasons(self) -> np.ndarray:
        a = self.abstention
        reasons = np.empty(len(self.actions), dtype=object)
        for node, action in enumerate(self.actions):
            chance = f"the probability of being off by more than {a.tolerance:g} is {a.values[node]:.3g}"
            if a.threshold is None:
                reasons[node] = f"{chance}; no threshold could be certified"
            elif action != "accept" and a.values[node] <= a.threshold:
                reasons[node] = f"{chance}; not one of the nodes decided on"
            else:
                place = "within" if action == "accept" else "above"
                reasons[node] = f"{chance}, {place} the limit {a.threshold:.3g}"
        return reasons

    def summary(self) -> dict[str, Any]:
        a, c = self.abstention, self.conformal
        width = float((self.high - self.low)[a.decided].mean())
        found: dict[str, Any] = {
            "tolerance": a.tolerance,
            **self._counts(),
            "intervals": {
                "score": None if c is None else c.by,
                "confidence_level": None if c is None else c.confidence_level,
                "mean_width": width if math.isfinite(width) else None,
                "guarantee": "every number is in every interval" if c is None else c.guarantee,
            },
        }
        return found | self._on_test_nodes()

    def _realised(self, test: np.ndarray) -> dict[str, Any]:
        assert self.graph.values is not None and self.abstention.tolerance is not None
        truth = np.where(test, self.graph.values, 0.0)
        wrong = np.abs(self.prediction.mean - truth) > self.abstention.tolerance
        width = float((self.high - self.low)[test].mean())
        return self.abstention.realised(test, wrong) | {
            "interval_coverage": float(((self.low <= truth) & (truth <= self.high))[test].mean()),
            "interval_width": width if math.isfinite(width) else None,
        }
