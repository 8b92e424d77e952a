"""What to do with each predicted number: accept it, or have it reviewed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from graphsde.acting.abstain import Abstention, abstain
from graphsde.datasets.splits.calibration import CALIBRATION_SIZE
from graphsde.graph.graph import Graph
from graphsde.metrics.evaluation import judged_nodes
from graphsde.prediction import NumericPrediction
from graphsde.uncertainty.conformal.intervals import ConformalIntervals, conformal_intervals

ACTIONS = ("accept", "review")


@dataclass(frozen=True, eq=False)
class NumericDecisions:
    """One action per node, with what is promised of them; made by :func:`decide_numbers`.

    Args:
        prediction, graph: what was decided on.
        abstention: the rule of acceptance.
        conformal: the calibrated intervals.
        low, high: their ends.  # [N], [N]
        actions: ``accept`` or ``review``.  # [N] object
    """

    prediction: NumericPrediction
    graph: Graph
    abstention: Abstention
    conformal: ConformalIntervals
    low: np.ndarray
    high: np.ndarray
    actions: np.ndarray

    def columns(self) -> dict[str, Any]:
        """One array per column, for a table with a row per node."""
        p = self.prediction
        return {
            "id": p.node_ids,
            "mean": p.mean,
            "low": self.low,
            "high": self.high,
            "total": p.total,
            "aleatoric": p.aleatoric,
            "epistemic": [None if np.isnan(value) else float(value) for value in p.epistemic],
            "chance_beyond": self.abstention.values,
            "action": self.actions,
            "reason": self.reasons(),
        }

    def reasons(self) -> np.ndarray:
        """Why each node got its action, in words.  # [N] object"""
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
        """Threshold, bound, coverage, counts, and the realised figures on test nodes where their values are there."""
        a, c = self.abstention, self.conformal
        found: dict[str, Any] = {
            "tolerance": a.tolerance,
            **a.summary(),
            "actions": {name: int((self.actions == name).sum()) for name in ACTIONS},
            "calibration": {"nodes": int(a.calibration.sum()), "source": a.calibration_source},
            "intervals": {
                "score": c.by,
                "confidence_level": c.confidence_level,
                "mean_width": float((self.high - self.low)[a.decided].mean()),
                "guarantee": c.guarantee,
            },
        }
        test = judged_nodes(self.prediction, self.graph) & ~a.calibration
        if test.any():
            found["test"] = self._realised(test)
        return found

    def _realised(self, test: np.ndarray) -> dict[str, Any]:
        assert self.graph.values is not None and self.abstention.tolerance is not None
        truth = np.where(test, self.graph.values, 0.0)
        wrong = np.abs(self.prediction.mean - truth) > self.abstention.tolerance
        covered = (self.low <= truth) & (truth <= self.high)
        return self.abstention.realised(test, wrong) | {
            "interval_coverage": float(covered[test].mean()),
            "interval_width": float((self.high - self.low)[test].mean()),
        }


def decide_numbers(
    prediction: NumericPrediction,
    graph: Graph,
    *,
    tolerance: float,
    max_error: float = 0.05,
    delta: float = 0.05,
    confidence_level: float = 0.9,
    intervals_by: str = "deviations",
    calibration: np.ndarray | None = None,
    size: int = CALIBRATION_SIZE,
    seed: int = 0,
) -> NumericDecisions:
    """Accept the numbers that can be shown to be off by more than ``tolerance`` in at most a share ``max_error``.

    There is no flag for foreign nodes: what a model says of numbers does not tell them.

    Args:
        prediction: of all nodes of ``graph``.
        graph: with the masks that the model was fitted with.
        tolerance, max_error, delta: of :func:`graphsde.abstain`.
        confidence_level, intervals_by: of :func:`graphsde.conformalize`.
        calibration, size, seed: which calibration nodes; the same for both.

    Example:
        >>> import graphsde as gs
        >>> graph = gs.load("diabetes")
        >>> prediction = gs.GCN(epochs=30).fit(graph).predict(graph)
        >>> found = decide_numbers(prediction, graph, tolerance=150, max_error=0.2)
        >>> set(found.actions) <= {"accept", "review"}
        True
    """
    shared: dict[str, Any] = {"calibration": calibration, "size": size, "seed": seed}
    rule = abstain(prediction, graph, max_error=max_error, delta=delta, tolerance=tolerance, **shared)
    intervals = conformal_intervals(prediction, graph, confidence_level=confidence_level, by=intervals_by, **shared)
    low, high = intervals.predict_interval(prediction)
    actions = np.full(graph.num_nodes, "review", dtype=object)
    actions[rule.accepted] = "accept"
    return NumericDecisions(prediction, graph, rule, intervals, low, high, actions)
