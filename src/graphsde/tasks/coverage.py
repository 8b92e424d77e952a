"""Conformal sets: do they hold the true class as often as they say, and how small are they?"""

from __future__ import annotations

import numpy as np
from pydantic import Field

from graphsde.data.graph import Graph
from graphsde.scores.conformal import conformalize, summarise_sets
from graphsde.scores.training_nodes import align_labels
from graphsde.tasks.evaluation import judged_nodes
from graphsde.tasks.promised import PromiseOptions, PromiseTask
from graphsde.tasks.task import Measurement, ModelMaker, register_task


class CoverageOptions(PromiseOptions):
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


@register_task
class Coverage(PromiseTask):
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
            for key, metric in (("coverage", "coverage"), ("mean_size", "set_size"), ("singletons", "singletons")):
                metrics[f"{metric}[{name}]"] = float(np.mean([row[key] for row in rows]))
            metrics[f"worst_class_coverage[{name}]"] = float(np.mean([row["worst_class_coverage"] for row in rows]))
        return Measurement(metrics | cost)
