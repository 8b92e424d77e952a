"""OOD detection: does uncertainty reveal what the model was never trained on?"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from graphsde.acting.shifted import detect_shift
from graphsde.base.errors import BadUsage
from graphsde.bench.tasks.task import Measurement, ModelMaker, Task, TaskOptions, validation_figures
from graphsde.graph.graph import Graph
from graphsde.metrics.detection import ood_auroc
from graphsde.metrics.evaluation import evaluate
from graphsde.metrics.selective import aurc
from graphsde.metrics.summary import BY_DEFAULT, only_of_the_default
from graphsde.models import Model
from graphsde.prediction import ClassPrediction
from graphsde.uncertainty.scores import available_scores, score
from graphsde.uncertainty.scores.registry import default_score

MAIN = "entropy"
SHIFT_OF = {
    "features": "interpolate-features",
    "structure": "rewire-sbm",
    "bernoulli-features": "bernoulli-features",
    "normal-features": "normal-features",
}


class OODOptions(TaskOptions):
    """Options of :class:`OutOfDistribution`.

    Args:
        protocol: ``leave-class-out`` (a class is never trained on), ``label-leave-out`` (GNNSafe's: several classes are
            OOD), ``features`` and ``structure`` (a shifted copy of the graph), ``bernoulli-features`` and
            ``normal-features`` (GPN's: a tenth of the nodes gets random features, in the same graph).
        leave: with ``leave-class-out``: every class in turn (``each``), the ``last`` one, or a class by position.
        scores: for OOD detection, besides entropy and a model's own score; those that a model does not have are
            left out.
        compat: with ``leave-class-out``: leave the class among the validation nodes, and add what the paper prints:
            ``ood_auroc_all`` and ``ood_aurc_all`` over all nodes, those of training included, and an "accuracy",
            ``ood_threshold_accuracy``, of a threshold on entropy that the validation nodes chose.
        base: with ``leave-class-out``: the split to start from.
    """

    protocol: Literal[
        "leave-class-out", "label-leave-out", "features", "structure", "bernoulli-features", "normal-features"
    ] = "leave-class-out"
    leave: Literal["each", "last"] | int = "each"
    scores: tuple[str, ...] = ("msp", "mutual-information", "energy", "vacuity")
    compat: bool = False
    base: str | None = None


class OutOfDistribution(Task):
    """AUROC and related metrics of OOD detection, by entropy and other scores.

    Plain metrics are by entropy of the mean probabilities; ``ood_auroc[energy]`` and the like by another score;
    ``…_propagated`` are of the score averaged over neighbours; ``ood_default_auroc`` and ``ood_default_fpr95`` by the
    default score, ``ood``, of models that it is defined for. A fitted temperature is undone first.
    """

    name = "ood"
    summary = "OOD detection: classes left out, shifted features, shifted edges"
    Options = OODOptions
    options: OODOptions
    headline = ("ood_auroc", "ood_auroc_propagated", "ood_fpr95", "ood_aupr_in", "ood_aupr_out")

    def variants(self, graph: Graph) -> list[dict[str, Any]]:
        if self.options.protocol != "leave-class-out" or self.options.leave != "each":
            return [{}]
        return [{"leave": position} for position in range(graph.num_classes)]

    def split(self, graph: Graph) -> tuple[str, dict[str, Any]]:
        o = self.options
        if o.split is not None and o.protocol in ("leave-class-out", "label-leave-out"):
            raise BadUsage(
                f"the protocol '{o.protocol}' has its own split", code="E-SETTING", found=o.split, fix="use base"
            )
        if o.protocol == "leave-class-out":
            if o.leave == "each":
                raise BadUsage(
                    "only one class can be left out at a time", code="E-SETTING", fix="run the variants of this task"
                )
            base = {"base": o.base} if o.base else {}
            return "leave-class-out", {"leave": o.leave, "compat": o.compat, **base, **o.split_options}
        if o.protocol == "label-leave-out":
            return "label-leave-out", dict(o.split_options)
        if o.split is None and graph.train_mask is None:
            return "uniform-10-10-80", dict(o.split_options)
        return super().split(graph)

    def measure(self, make: ModelMaker, graph: Graph, seed: int) -> Measurement:
        model, cost = self.fit_timed(make, graph)
        prediction = self.predict_classes(model, graph)
        names = self._scores(prediction, graph, model)
        if self.options.protocol in SHIFT_OF:
            metrics = {key: value for key, value in evaluate(prediction, graph).items() if not key.startswith("ood_")}
            usual = (BY_DEFAULT,) if default_score(prediction, graph, model) == BY_DEFAULT else ()
            found = detect_shift(
                model, graph, SHIFT_OF[self.options.protocol], (MAIN, *names, *usual), self.options.samples, seed
            )
            by_score = found.pop("scores")
            metrics |= {key: value for key, value in found.items() if key not in ("shift", "seed")}
            metrics |= by_score.pop(MAIN)
            for name in usual:
                metrics |= only_of_the_default(by_score[name] if name in names else by_score.pop(name))
        else:
            metrics = evaluate(prediction, graph, scores=names, model=model)
            by_score = metrics.pop("scores", {})
            if self.options.protocol == "leave-class-out":
                metrics |= self._class_figures(prediction, graph)
        for name, figures in by_score.items():
            metrics |= {f"{key}[{name}]": value for key, value in figures.items()}
        return Measurement(metrics | validation_figures(prediction, graph) | cost)

    def _scores(self, prediction: ClassPrediction, graph: Graph, model: Model) -> list[str]:
        known = available_scores(prediction, graph, model)
        wanted = dict.fromkeys((*self.options.scores, *filter(None, [model.own_score])))
        return [name for name in wanted if name != MAIN and name in known]

    def _class_figures(self, prediction: ClassPrediction, graph: Graph) -> dict[str, float]:
        """The metrics of the LGNSDE study, which calls the share of OOD nodes among those kept a risk."""
        assert graph.test_mask is not None and graph.ood_mask is not None
        doubt = score(MAIN, prediction.for_detection(), graph)
        found = _risk(doubt, graph.ood_mask, graph.test_mask | graph.ood_mask)
        if not self.options.compat:
            return found
        # the left-out class has no label in the smaller head, but neither have nodes that never had one
        strangers = graph.ood_mask | graph.masks["left"]
        if graph.val_mask is not None:
            strangers = strangers | (graph.val_mask & ~graph.labelled)
        nodes = strangers | graph.labelled
        found |= {f"{name}_all": value for name, value in _risk(doubt, strangers, nodes).items()}
        found["ood_auroc_all"] = ood_auroc(doubt[nodes & ~strangers], doubt[strangers])
        if graph.val_mask is not None:
            threshold = best_threshold(doubt[graph.val_mask], strangers[graph.val_mask])
            found["ood_threshold_accuracy"] = float(((doubt > threshold) == strangers)[nodes].mean())
        return found


def _risk(doubt: np.ndarray, ood: np.ndarray, nodes: np.ndarray) -> dict[str, float]:
    rate = float(ood[nodes].mean())
    return {"ood_aurc": aurc(doubt[nodes], ood[nodes]), "ood_base_rate": max(rate, 1 - rate)}


def best_threshold(doubt: np.ndarray, ood: np.ndarray) -> float:
    """The threshold at which ``doubt > threshold`` agrees with ``ood`` most often.

    Example:
        >>> best_threshold(np.array([0.1, 0.2, 0.8]), np.array([False, False, True])) in (0.2, 0.5)
        True
    """
    order = np.argsort(doubt, kind="stable")
    values, strange = doubt[order], ood[order]
    # a cut after the k-th calls the first k in-distribution and the others OOD; only between distinct values
    right = np.concatenate([[strange.sum()], strange.sum() + np.cumsum(np.where(strange, -1, 1))])
    cuts = np.concatenate([[-np.inf], values])
    real = np.concatenate([values[:-1] != values[1:], [True]]) if values.size else np.array([], dtype=bool)
    right = np.where(np.concatenate([[True], real]), right, -1)
    return float(cuts[int(right.argmax())])
