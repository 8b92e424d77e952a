"""Standard evaluation: accuracy, ranking of errors, calibration."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from graphsde.base.errors import BadInput
from graphsde.base.registry import Rules
from graphsde.graph.graph import Graph
from graphsde.metrics.regression import summarise_regression
from graphsde.metrics.spread import summarise_spread
from graphsde.metrics.summary import compare_scores, summarise, summarise_default, summarise_ood
from graphsde.prediction import ClassPrediction, Prediction, Predictor, RegressionPrediction, require_prediction_of
from graphsde.uncertainty.held_out import align_labels, known_items

BINS = 30


def entropy_edges(num_classes: int) -> np.ndarray:
    """Edges of 30 bins from 0 to ln C.  # [31]"""
    return np.linspace(0.0, float(np.log(max(num_classes, 2))), BINS + 1)


def count_entropies(values: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Nodes per bin; an entropy slightly outside by rounding counts in the outermost bin.  # [B]"""
    return np.histogram(np.clip(values, edges[0], edges[-1]), bins=edges)[0]


def evaluate(
    prediction: Prediction, graph: Graph, *, scores: Sequence[str] = (), model: Predictor | None = None
) -> dict[str, Any]:
    """All metrics of ``prediction`` on the test nodes of ``graph``; OOD metrics if it has OOD nodes.

    OOD are the nodes marked by the split, and test nodes of a class that no training node has: these are
    never counted as right or wrong. Metrics ``ood_…`` are by entropy; ``ood_default_auroc`` and ``ood_default_fpr95``
    by the score ``ood``, if the prediction has logits and the graph has training and validation nodes.

    Args:
        prediction: of all nodes of ``graph``.
        graph: with a test mask.
        scores: names of further scores for OOD detection, besides entropy.
        model: the one that predicted; needed by scores that use further predictions of it.

    Returns:
        Metrics by name; with ``scores``, the metrics of each of them under ``"scores"``. For regression:
        ``rmse``, ``mae``, ``r2``, ``nll``, ``crps``, ``coverage90``, ``interval_width90``, ``calibration_error``,
        ``miscalibration_area``, ``ence``, ``spread_spearman``, ``n_test``.

    Example:
        >>> import graphsde as gs
        >>> graph = gs.load("digits")
        >>> metrics = gs.evaluate(gs.LabelPropagation().fit(graph).predict(graph), graph)
        >>> metrics["n_test"]
        1297
    """
    require_prediction_of(prediction, graph)
    known = judged_nodes(prediction, graph)
    if not known.any():
        raise BadInput(
            f"{graph.name} has no labelled test nodes"
            + ("" if graph.ood_nodes is None else " of a class that was trained on"),
            code="E-SPLIT-EMPTY",
            fix="mark test nodes in a split column, or use --split fractions",
        )
    return EVALUATIONS.of(prediction)(prediction, graph, known, scores, model)


EVALUATIONS: Rules[Callable[[Any, Graph, np.ndarray, Sequence[str], Predictor | None], dict[str, Any]]] = Rules(
    "evaluating a prediction"
)


@EVALUATIONS.register("classification")
def _evaluate_classes(
    prediction: ClassPrediction, graph: Graph, known: np.ndarray, scores: Sequence[str], model: Predictor | None
) -> dict[str, Any]:
    metrics: dict[str, Any] = summarise(prediction, align_labels(graph, prediction.class_names), known)
    if graph.ood_nodes is not None and graph.ood_nodes.any():
        metrics |= summarise_ood(prediction, graph)
        metrics |= summarise_default(prediction, graph, model=model)
    if scores:
        metrics["scores"] = compare_scores(prediction, graph, scores, model=model)
    return metrics


def judged_nodes(prediction: Prediction, graph: Graph) -> np.ndarray:
    """Test nodes with a known label that the prediction can express; no OOD nodes.

    # [N] bool
    """
    known = graph.role("test") & graph.familiar & known_items(prediction, graph)
    return known if graph.ood_nodes is None else known & ~graph.ood_nodes


@EVALUATIONS.register("regression")
def _evaluate_numbers(
    prediction: RegressionPrediction, graph: Graph, known: np.ndarray, scores: Sequence[str], model: Predictor | None
) -> dict[str, Any]:
    assert graph.values is not None
    metrics: dict[str, Any] = dict(summarise_regression(prediction, graph.values, known))
    counted = metrics.pop("n_test")
    metrics |= summarise_spread(prediction, graph.values, known) | {"n_test": counted}
    if scores:
        metrics["scores"] = compare_scores(prediction, graph, scores, model=model)
    return metrics
