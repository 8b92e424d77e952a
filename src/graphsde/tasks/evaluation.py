"""The standard questions about a prediction: how often right, how well ranked, how well calibrated, what is foreign."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from graphsde.data.graph import UNLABELLED, Graph
from graphsde.errors import BadInput
from graphsde.prediction import Prediction, Predictor
from graphsde.scores.metrics.summary import compare_scores, summarise, summarise_ood
from graphsde.scores.training_nodes import align_labels

__all__ = ["align_labels", "evaluate"]


def evaluate(
    prediction: Prediction, graph: Graph, *, scores: Sequence[str] = (), model: Predictor | None = None
) -> dict[str, Any]:
    """All metrics of ``prediction`` on the test nodes of ``graph``; foreign-node metrics where the split has any.

    Args:
        prediction: of all nodes of ``graph``.
        graph: with a test mask.
        scores: names of further scores to tell foreign nodes by, beside entropy.
        model: who predicted; needed by scores that ask it for further predictions.

    Returns:
        Figures by name; with ``scores``, a map of figures for each of them under ``"scores"``.

    Example:
        >>> import graphsde as gs
        >>> graph = gs.load("digits")
        >>> metrics = gs.evaluate(gs.LabelPropagation().fit(graph).predict(graph), graph)
        >>> metrics["n_test"]
        1297
    """
    labels = align_labels(graph, prediction.class_names)
    if graph.test_mask is None or not (graph.test_mask & (labels != UNLABELLED)).any():
        raise BadInput(
            f"{graph.name} has no labelled test nodes",
            code="E-SPLIT-EMPTY",
            fix="give test nodes in a split column, or choose --split fractions",
        )
    known = graph.test_mask & (labels != UNLABELLED)
    if graph.ood_mask is not None:
        known = known & ~graph.ood_mask
    metrics: dict[str, Any] = summarise(prediction, labels, known)
    if graph.ood_mask is not None and graph.ood_mask.any():
        metrics |= summarise_ood(prediction, graph)
    if scores:
        metrics["scores"] = compare_scores(prediction, graph, scores, model=model)
    return metrics
