"""What to do with each node: accept its label, have it reviewed, or treat it as foreign."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from graphsde.acting.abstain import ACCEPT_BY, Abstention, abstain
from graphsde.acting.ood import FOREIGN_SCORE, ForeignFlag, flag_foreign
from graphsde.datasets.splits.calibration import CALIBRATION_SIZE
from graphsde.graph.graph import Graph
from graphsde.metrics.evaluation import judged_nodes
from graphsde.prediction import Prediction, Predictor
from graphsde.uncertainty.conformal import Conformal, conformalize, summarise_sets
from graphsde.uncertainty.held_out import align_labels

ACTIONS = ("accept", "review", "foreign")
BETWEEN_CLASSES = " | "


@dataclass(frozen=True, eq=False)
class Decisions:
    """One action per node, with what is promised of them; made by :func:`decide`.

    Args:
        prediction, graph: what was decided on.
        abstention: the rule of acceptance; certified for nodes that the flag has cleared.
        foreign: the flag, which acts first.
        conformal: the calibrated sets.
        sets: classes that each node may be of, never empty.  # [N, C] bool
        actions: ``accept``, ``review`` or ``foreign``.  # [N] object
    """

    prediction: Prediction
    graph: Graph
    abstention: Abstention
    foreign: ForeignFlag
    conformal: Conformal
    sets: np.ndarray
    actions: np.ndarray

    def columns(self) -> dict[str, Any]:
        """One array per column, for a table with a row per node."""
        p = self.prediction
        names = np.array(p.class_names, dtype=object)
        return {
            "id": p.node_ids,
            "label": p.label,
            "confidence": p.confidence,
            "total": p.total,
            "aleatoric": p.aleatoric,
            "epistemic": [None if np.isnan(value) else float(value) for value in p.epistemic],
            "ood_score": self.foreign.values,
            "prediction_set": np.array([BETWEEN_CLASSES.join(names[row]) for row in self.sets], dtype=object),
            "action": self.actions,
            "reason": self.reasons(),
        }

    def reasons(self) -> np.ndarray:
        """Why each node got its action, in words.  # [N] object"""
        a, f = self.abstention, self.foreign
        limit = "no threshold could be certified" if a.threshold is None else f"the limit {a.threshold:.4g}"
        reasons = np.empty(len(self.actions), dtype=object)
        for node, action in enumerate(self.actions):
            if action == "foreign":
                reasons[node] = (
                    f"{f.by} {f.values[node]:.4g} is above {f.threshold:.4g}: unlike the nodes calibrated on"
                )
            elif action == "accept":
                reasons[node] = f"{a.by} {a.values[node]:.4g} is within {limit}"
            elif a.threshold is None:
                reasons[node] = f"{a.by} {a.values[node]:.4g}; {limit}"
            else:
                reasons[node] = f"{a.by} {a.values[node]:.4g} is above {limit}"
        return reasons

    def summary(self) -> dict[str, Any]:
        """Threshold, bound, coverage, counts, and the realised figures on test nodes where their labels are there."""
        a, f, c = self.abstention, self.foreign, self.conformal
        labels = align_labels(self.graph, self.prediction.class_names)
        test = judged_nodes(self.prediction, self.graph) & ~a.calibration
        found: dict[str, Any] = {
            **a.summary(),
            "actions": {name: int((self.actions == name).sum()) for name in ACTIONS},
            "calibration": {"nodes": int(a.calibration.sum()), "source": a.calibration_source},
            "foreign": {
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
        if test.any():
            found["test"] = self._realised(test, labels)
        ood = self.graph.foreign
        if ood is not None and ood.any():
            found["foreign"]["flagged_of_foreign"] = float(f.flagged[ood].mean())
            found["foreign"]["accepted_of_foreign"] = float(a.accepted[ood].mean())
        return found

    def _realised(self, test: np.ndarray, labels: np.ndarray) -> dict[str, Any]:
        sets = summarise_sets(self.sets[test], labels[test])
        return self.abstention.realised(test, self.prediction.index != labels) | {
            "false_alarms": float(self.foreign.flagged[test].mean()),
            "set_coverage": sets["coverage"],
            "set_size": sets["mean_size"],
        }


def decide(
    prediction: Prediction,
    graph: Graph,
    *,
    max_error: float = 0.05,
    delta: float = 0.05,
    by: str = ACCEPT_BY,
    false_alarm: float = 0.05,
    foreign_by: str = FOREIGN_SCORE,
    confidence_level: float = 0.9,
    sets_by: str = "aps",
    calibration: np.ndarray | None = None,
    size: int = CALIBRATION_SIZE,
    seed: int = 0,
    model: Predictor | None = None,
) -> Decisions:
    """One action per node: first the flag for foreign nodes, then acceptance among the others.

    The order matters for the promise. ``max_error`` bounds the errors among nodes that were accepted *after* flagging,
    and is certified on calibration nodes that went through the same two steps. Nodes to come that are foreign are not
    covered by it: the flag has a stated rate of false alarms, not of misses.

    Args:
        prediction: of all nodes of ``graph``.
        graph: with the masks that the model was fitted with.
        max_error, delta, by: of :func:`graphsde.abstain`.
        false_alarm, foreign_by: of :func:`graphsde.acting.ood.flag_foreign`.
        confidence_level, sets_by: of :func:`graphsde.conformalize`.
        calibration, size, seed: which calibration nodes; the same for all three.
        model: who predicted, for scores that ask it for further predictions.

    Example:
        >>> import graphsde as gs
        >>> graph = gs.load("digits")
        >>> found = decide(gs.LabelPropagation().fit(graph).predict(graph), graph, max_error=0.1)
        >>> set(found.actions) <= {"accept", "foreign", "review"}
        True
    """
    shared: dict[str, Any] = {"calibration": calibration, "size": size, "seed": seed}
    flag = flag_foreign(prediction, graph, false_alarm=false_alarm, by=foreign_by, model=model, **shared)
    rule = abstain(prediction, graph, max_error=max_error, delta=delta, by=by, foreign=flag, model=model, **shared)
    conformal = conformalize(prediction, graph, confidence_level=confidence_level, by=sets_by, **shared)
    actions = np.full(graph.num_nodes, "review", dtype=object)
    actions[rule.accepted] = "accept"
    actions[flag.flagged] = "foreign"
    sets = conformal.predict_set(prediction, never_empty=True)
    return Decisions(prediction, graph, rule, flag, conformal, sets, actions)
