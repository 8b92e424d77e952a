"""All metrics of one evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from graphsde.base.errors import BadInput, BadUsage
from graphsde.metrics import calibration, classification, detection, selective
from graphsde.metrics.arrays import METRICS
from graphsde.prediction import ClassPrediction, Prediction, Predictor
from graphsde.uncertainty.scores.propagation import propagate
from graphsde.uncertainty.scores.registry import default_score, spreads
from graphsde.uncertainty.scores.registry import score as score_by_name

if TYPE_CHECKING:
    from graphsde.graph.graph import Graph

_DETECTION = {
    "ood_auroc": detection.ood_auroc,
    "ood_aupr_in": detection.aupr_in,
    "ood_aupr_out": detection.aupr_out,
    "ood_fpr95": detection.fpr95,
    "ood_detection_accuracy": detection.detection_accuracy,
    "ood_detection_accuracy_grid": detection.detection_accuracy_grid,
}
OF_THE_DEFAULT = {"ood_default_auroc": "ood_auroc", "ood_default_fpr95": "ood_fpr95"}
"""Metrics of the default score, besides those by entropy."""
_VARIANTS = (
    {"aurc_entropy": ("aurc", "aurc with entropy as the uncertainty")}
    | {f"{name}_propagated": (name, f"{name} of the score spread over the graph") for name in _DETECTION}
    | {
        name: (base, f"{base} of the score 'ood', the default if it is defined")
        for name, base in OF_THE_DEFAULT.items()
    }
)
BY_DEFAULT = "ood"
OF_THE_SCORE = (*_DETECTION, *(f"{name}_propagated" for name in _DETECTION))
"""Metrics of each further score; counts and chance levels belong to the nodes, not to the score."""

_OF_A_SHIFT = {
    "ood_accuracy": ("accuracy", "accuracy among OOD nodes whose true class is known: those of a shifted graph"),
    "ood_auroc_wrong": ("ood_auroc", "ood_auroc with only those shifted nodes as OOD that are predicted wrongly"),
}

for _name, (_base, _summary) in (_VARIANTS | _OF_A_SHIFT).items():
    METRICS.add(_name, METRICS.get(_base), summary=_summary, **METRICS.entry(_base).facts)


def summarise(
    prediction: ClassPrediction,
    labels: np.ndarray,
    mask: np.ndarray,
    *,
    uncertainty: str | np.ndarray = "msp",
    graph: Graph | None = None,
) -> dict[str, float]:
    """Every metric of the standard setting on some nodes.

    Args:
        prediction: of all nodes.
        labels: positions among the classes *of the prediction*; −1 where there is no label or a class that the
            prediction does not know, which leaves the node out.  # [N]
        mask: the nodes to evaluate, boolean or positions.
        uncertainty: name of the score behind the misclassification and selective metrics, or its values.  # [N]
        graph: needed if that score uses edges.

    Returns:
        ``accuracy``, ``balanced_accuracy``, ``macro_f1``, ``micro_auroc``, ``misclassification_auroc``, ``aupr_error``,
        ``aupr_success``, ``aurc``, ``aurc_entropy``, ``e_aurc``, ``augrc``, ``prr``, ``nll``, ``brier``, ``ece``,
        ``adaptive_ece``, ``n_test``, ``n_errors``. A metric that is not defined on these nodes is NaN.

    Example:
        >>> p = ClassPrediction(np.array([[[0.9, 0.1], [0.4, 0.6]]]), np.arange(2), ("cat", "dog"), "deterministic")
        >>> figures = summarise(p, np.array([0, 0]), np.array([True, True]))
        >>> figures["accuracy"], figures["misclassification_auroc"], figures["n_errors"]
        (0.5, 1.0, 1)
    """
    labels = np.asarray(labels)
    if labels.shape != (prediction.num_items,):
        raise BadInput(
            f"labels has shape {labels.shape} for {prediction.num_items} nodes", code="E-LEN", expected="one per node"
        )
    nodes = _positions(mask, prediction.num_items)
    nodes = nodes[labels[nodes] != -1]
    if len(nodes) == 0:
        raise BadInput(
            "no node of the mask has a known label",
            code="E-EMPTY",
            fix="check the mask and the split",
        )
    if isinstance(uncertainty, str):
        doubt = score_by_name(uncertainty, prediction, graph)[nodes]
    elif np.shape(uncertainty) == (prediction.num_items,):
        doubt = np.asarray(uncertainty)[nodes]
    else:
        raise BadInput(
            f"uncertainty has shape {np.shape(uncertainty)} for {prediction.num_items} nodes",
            code="E-LEN",
            expected="one value per node of the prediction",
        )

    truth, probs, predicted = labels[nodes], prediction.mean[nodes], prediction.index[nodes]
    errors = predicted != truth
    return {
        "accuracy": classification.accuracy(predicted, truth),
        "balanced_accuracy": classification.balanced_accuracy(predicted, truth),
        "macro_f1": classification.macro_f1(predicted, truth),
        "micro_auroc": classification.micro_auroc(probs, truth),
        "misclassification_auroc": detection.misclassification_auroc(doubt, errors),
        "aupr_error": detection.aupr_error(doubt, errors),
        "aupr_success": detection.aupr_success(doubt, errors),
        "aurc": selective.aurc(doubt, errors),
        "aurc_entropy": selective.aurc(prediction.total[nodes], errors),
        "e_aurc": selective.e_aurc(doubt, errors),
        "augrc": selective.augrc(doubt, errors),
        "prr": selective.prr(doubt, errors),
        "nll": calibration.nll(probs, truth),
        "brier": calibration.brier(probs, truth),
        "ece": calibration.ece(probs, truth),
        "adaptive_ece": calibration.adaptive_ece(probs, truth),
        "n_test": len(nodes),
        "n_errors": int(errors.sum()),
    }


def summarise_ood(
    prediction: Prediction, graph: Graph, *, score: str = "entropy", model: Predictor | None = None
) -> dict[str, float]:
    """Every detection metric on a split with OOD nodes.

    In-distribution are the test nodes that are not OOD, out-of-distribution the nodes of the ``ood`` mask. A fitted
    temperature is undone first: it was fitted on in-distribution nodes and hurts detection.

    Args:
        prediction: of all nodes of ``graph``.
        graph: with masks ``test`` and ``ood``.
        score: name of the uncertainty; the metrics ending in ``_propagated`` spread it over the edges, unless it does
            so by itself.
        model: the one that predicted; needed by scores that use further predictions of it.

    Returns:
        The keys of :func:`summarise_detection`, and its metrics again as ``ood_auroc_propagated`` and so on.
    """
    familiar, ood = familiar_and_ood(graph)
    plain = score_by_name(score, prediction.for_detection(), graph, model)
    spread = plain if spreads(score) else propagate(plain, graph)
    return summarise_both(plain[familiar], plain[ood], spread[familiar], spread[ood])


def compare_scores(
    prediction: Prediction, graph: Graph, scores: Sequence[str], *, model: Predictor | None = None
) -> dict[str, dict[str, float]]:
    """:func:`summarise_ood` under several scores, without the counts and chance levels that all of them share."""
    return {
        name: only_of_the_score(summarise_ood(prediction, graph, score=name, model=model))
        for name in dict.fromkeys(scores)
    }


def summarise_default(prediction: Prediction, graph: Graph, *, model: Predictor | None = None) -> dict[str, float]:
    """``ood_default_auroc`` and ``ood_default_fpr95``: by the score ``ood``; empty if that is not defined."""
    if default_score(prediction.for_detection(), graph, model) != BY_DEFAULT:
        return {}
    return only_of_the_default(summarise_ood(prediction, graph, score=BY_DEFAULT, model=model))


def only_of_the_default(figures: dict[str, float]) -> dict[str, float]:
    """The metrics of the default score, under their own names."""
    return {name: figures[base] for name, base in OF_THE_DEFAULT.items()}


def familiar_and_ood(graph: Graph) -> tuple[np.ndarray, np.ndarray]:
    """The two sides of a detection task: test nodes that are not OOD, and OOD nodes.  # [N], [N] bool"""
    test, ood = graph.test_mask, graph.ood_nodes
    if test is None or ood is None:
        raise BadUsage(
            f"the graph '{graph.name}' has no OOD nodes",
            found=sorted(graph.masks),
            expected="masks named test and ood",
            fix="use a split that leaves out a class, or create OOD nodes with a shift",
        )
    return test & ~ood, ood


def summarise_both(
    inside: np.ndarray, outside: np.ndarray, spread_inside: np.ndarray, spread_outside: np.ndarray
) -> dict[str, float]:
    """:func:`summarise_detection` of a score, with the metrics of its propagated values."""
    spread = {f"{name}_propagated": figure(spread_inside, spread_outside) for name, figure in _DETECTION.items()}
    return {**summarise_detection(inside, outside), **spread}


def only_of_the_score(figures: dict[str, float]) -> dict[str, float]:
    """The metrics that differ between scores on the same nodes."""
    return {name: figures[name] for name in OF_THE_SCORE}


def summarise_detection(inside: np.ndarray, outside: np.ndarray) -> dict[str, float]:
    """Every detection metric of two groups of uncertainties, which may come from two graphs.

    Args:
        inside: uncertainty of in-distribution nodes.  # [n]
        outside: uncertainty of out-of-distribution nodes.  # [m]

    Returns:
        ``ood_auroc``, ``ood_aupr_in``, ``ood_aupr_out``, ``ood_fpr95``, ``ood_detection_accuracy``,
        ``ood_detection_accuracy_grid``, ``n_id``, ``n_ood`` and the chance levels ``ood_aupr_in_chance`` and
        ``ood_aupr_out_chance``, which are needed to interpret the areas under precision and recall.
    """
    n_in, n_out = len(inside), len(outside)
    return {
        **{name: figure(inside, outside) for name, figure in _DETECTION.items()},
        "ood_aupr_in_chance": n_in / (n_in + n_out),
        "ood_aupr_out_chance": n_out / (n_in + n_out),
        "n_id": n_in,
        "n_ood": n_out,
    }


def _positions(mask: np.ndarray, nodes: int) -> np.ndarray:
    chosen = np.asarray(mask)
    if chosen.dtype != bool:
        return chosen.astype(np.int64)
    if chosen.shape != (nodes,):
        raise BadInput(f"the mask has shape {chosen.shape} for {nodes} nodes", code="E-LEN", expected="one per node")
    return np.flatnonzero(chosen)
