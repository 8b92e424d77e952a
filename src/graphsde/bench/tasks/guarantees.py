"""Do guarantees hold? Coverage of conformal sets, errors among accepted nodes, over random splits."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from pydantic import Field

from graphsde.acting.abstain import ACCEPT_BY, abstain
from graphsde.acting.ood import flag_ood
from graphsde.bench.tasks.task import Measurement, ModelMaker, Task, TaskOptions, validation_figures
from graphsde.graph.graph import Graph
from graphsde.metrics.evaluation import judged_nodes
from graphsde.models import Model
from graphsde.prediction import ClassPrediction
from graphsde.uncertainty.conformal import conformalize, summarise_sets
from graphsde.uncertainty.held_out import align_labels


class GuaranteeOptions(TaskOptions):
    """Options of a task that checks a guarantee.

    Args:
        calibrator: fitted on validation nodes first; ``None`` for none.
        size: calibration nodes, if the split has none.
    """

    calibrator: str | None = None
    size: int = Field(500, ge=1)


class GuaranteeTask(Task):
    """Splits are Shchur's random ones on every graph by default, so that seeds differ in their test nodes;
    calibration nodes are drawn from the test nodes and not tested."""

    options: GuaranteeOptions

    def split(self, graph: Graph) -> tuple[str, dict[str, Any]]:
        return self.options.split or "shchur", dict(self.options.split_options)

    def predicted(self, make: ModelMaker, graph: Graph) -> tuple[Model, ClassPrediction, dict[str, float]]:
        """A fitted model, its prediction, and the cost of the fit."""
        model, cost = self.fit_timed(make, graph)
        if self.options.calibrator is not None:
            model.calibrate(graph, by=self.options.calibrator, samples=self.options.samples)
        prediction = self.predict_classes(model, graph)
        return model, prediction, validation_figures(prediction, graph) | cost


class CoverageOptions(GuaranteeOptions):
    """Options of :class:`Coverage`.

    Args:
        confidence_level: of the sets.
        scores: conformal scores to compare on the same nodes.
        class_conditional: one quantile per class.
        draws: how many draws of calibration nodes to average over, one fit for all.
    """

    confidence_level: float = Field(0.9, gt=0, lt=1)
    scores: tuple[str, ...] = ("thr", "aps", "raps", "daps")
    class_conditional: bool = False
    draws: int = Field(1, ge=1, le=1000)


class Coverage(GuaranteeTask):
    """``coverage[score]``, ``set_size[score]`` and ``singletons[score]`` on test nodes, for each conformal score."""

    name = "conformal"
    summary = "conformal sets: coverage and size on test nodes, for each conformal score"
    Options = CoverageOptions
    options: CoverageOptions
    headline = ("coverage[aps]", "set_size[aps]", "coverage[daps]", "set_size[daps]", "accuracy")

    def measure(self, make: ModelMaker, graph: Graph, seed: int) -> Measurement:
        o = self.options
        _, prediction, cost = self.predicted(make, graph)
        labels = align_labels(graph, prediction.class_names)
        known = judged_nodes(prediction, graph)
        metrics: dict[str, float] = {"accuracy": float((prediction.index == labels)[known].mean())}
        for name in o.scores:
            rows = []
            for draw in range(o.draws):
                conformal = conformalize(
                    prediction,
                    graph,
                    confidence_level=o.confidence_level,
                    by=name,
                    class_conditional=o.class_conditional,
                    seed=seed * o.draws + draw,
                    size=o.size,
                )
                test = known & ~conformal.calibration
                rows.append(summarise_sets(conformal.predict_set(prediction)[test], labels[test]))
            for key in ("coverage", "mean_size", "singletons", "worst_class_coverage"):
                metric = "set_size" if key == "mean_size" else key
                metrics[f"{metric}[{name}]"] = float(np.mean([row[key] for row in rows]))
        return Measurement(metrics | cost)


class DecidingOptions(GuaranteeOptions):
    """Options of :class:`Deciding`.

    Args:
        max_error, delta: the guarantee: at most this share of errors, except for this share of draws.
        false_alarm: share of in-distribution nodes that may be flagged as OOD.
        ood_by: the score that flags them; ``graphsde decide`` uses ``ood`` if possible.
        accept_by: the uncertainty that is thresholded to accept.
    """

    max_error: float = Field(0.05, gt=0, lt=1)
    delta: float = Field(0.05, gt=0, lt=1)
    false_alarm: float = Field(0.05, gt=0, lt=1)
    ood_by: str = "entropy+propagated"  # fixed by existing journals: another default would change their results
    accept_by: str = ACCEPT_BY


class Deciding(GuaranteeTask):
    """Errors among the accepted test nodes, how many are accepted, false alarms of the flag for OOD nodes.

    One limit chosen beforehand (:func:`graphsde.abstain`), on ``size`` calibration nodes, so that test
    nodes are left to evaluate on. ``kept`` is 1 if the realised error is at most ``max_error``, or nothing is accepted.
    """

    name = "decide"
    summary = "accepting nodes with a guarantee: realised error among accepted test nodes, coverage, false alarms"
    Options = DecidingOptions
    options: DecidingOptions
    headline = ("kept", "accepted_error", "coverage", "false_alarms", "accuracy")

    def measure(self, make: ModelMaker, graph: Graph, seed: int) -> Measurement:
        o = self.options
        model, prediction, cost = self.predicted(make, graph)
        nodes: dict[str, Any] = {"size": o.size, "seed": seed}
        flag = flag_ood(prediction, graph, false_alarm=o.false_alarm, by=o.ood_by, model=model, **nodes)
        rule = abstain(
            prediction, graph, max_error=o.max_error, delta=o.delta, by=o.accept_by, ood=flag, model=model, **nodes
        )
        sets = conformalize(prediction, graph, **nodes).predict_set(prediction, never_empty=True)
        labels = align_labels(graph, prediction.class_names)
        judged = judged_nodes(prediction, graph) & ~rule.calibration
        test = rule.realised(judged, prediction.index != labels)
        covered = summarise_sets(sets[judged], labels[judged])
        error = math.nan if test["error"] is None else test["error"]
        metrics = {
            "kept": float(not error > o.max_error),
            "accepted_error": error,
            "coverage": test["coverage"],
            "upper_bound": rule.upper_bound,
            "threshold": math.nan if rule.threshold is None else rule.threshold,
            "false_alarms": float(flag.flagged[judged].mean()),
            "accuracy": 1.0 - test["error_of_all"],
            "set_coverage": covered["coverage"],
            "set_size": covered["mean_size"],
            "n_test": float(test["nodes"]),
            "n_accepted": float(test["accepted"]),
            "n_calibration": float(rule.calibration.sum()),
        }
        return Measurement(metrics | cost)
