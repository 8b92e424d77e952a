"""Distribution of entropy: right against wrong predictions, in-distribution against OOD nodes."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from graphsde.bench.tasks.task import Measurement, ModelMaker, Task, TaskOptions
from graphsde.graph.graph import Graph
from graphsde.metrics.arrays import auroc
from graphsde.metrics.evaluation import align_labels, count_entropies, entropy_edges, judged_nodes
from graphsde.metrics.summary import familiar_and_ood
from graphsde.prediction import ClassPrediction


class EntropyOptions(TaskOptions):
    """Options of :class:`Entropies`.

    Args:
        groups: ``errors`` compares right and wrong predictions, ``ood`` leaves out a class and compares its nodes with
            the others.
        leave: the class that is left out, by position; the last one if not given.
        base: the split that ``ood`` starts from.
    """

    groups: Literal["errors", "ood"] = "errors"
    leave: int | Literal["last"] = "last"
    base: str | None = None


class Entropies(Task):
    """Histograms of the predictive entropy of two groups of test nodes, and how far their means differ.

    ``entropy_gap`` is (mean of the uncertain group) / (mean of the other) − 1, ``separation`` the probability
    that a node of the first group has more entropy than one of the second. The curves are counts in 30 bins from 0 to
    ln C. A fitted temperature stays for ``errors`` and is undone for ``ood``, as everywhere.
    """

    name = "entropies"
    summary = "histograms of entropy: right against wrong predictions, in-distribution against OOD nodes"
    Options = EntropyOptions
    options: EntropyOptions
    headline = ("entropy_gap", "separation", "entropy_sure", "entropy_unsure")

    def split(self, graph: Graph) -> tuple[str, dict[str, Any]]:
        if self.options.groups == "errors":
            return super().split(graph)
        base = {"base": self.options.base} if self.options.base else {}
        return "leave-class-out", {"leave": self.options.leave, **base, **self.options.split_options}

    def measure(self, make: ModelMaker, graph: Graph, seed: int) -> Measurement:
        model, cost = self.fit_timed(make, graph)
        prediction = self.predict_classes(model, graph)
        sure, unsure = self._groups(prediction, graph)
        edges = entropy_edges(prediction.num_classes)
        counts = {"sure": count_entropies(sure, edges), "unsure": count_entropies(unsure, edges)}
        curves = {name: values.astype(float).tolist() for name, values in counts.items()}
        both = np.concatenate([sure, unsure])
        metrics = {
            "entropy_sure": _mean(sure),
            "entropy_unsure": _mean(unsure),
            "entropy_gap": _mean(unsure) / _mean(sure) - 1.0 if _mean(sure) > 0 else float("nan"),
            "separation": auroc(both, np.repeat([False, True], [len(sure), len(unsure)])),
            "n_sure": float(len(sure)),
            "n_unsure": float(len(unsure)),
            "num_classes": float(prediction.num_classes),
        }
        return Measurement(metrics | cost, curves)

    def _groups(self, prediction: ClassPrediction, graph: Graph) -> tuple[np.ndarray, np.ndarray]:
        if self.options.groups == "ood":
            total = prediction.for_detection().total
            familiar, ood = familiar_and_ood(graph)
            return total[familiar], total[ood]
        labels = align_labels(graph, prediction.class_names)
        judged = judged_nodes(prediction, graph)
        right = prediction.index == labels
        return prediction.total[judged & right], prediction.total[judged & ~right]


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else float("nan")
