"""What ``prediction.plot`` draws: the pictures of a prediction, each from its test nodes."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphsde.base.errors import BadInput, BadUsage
from graphsde.graph.graph import Graph
from graphsde.metrics.evaluation import align_labels, count_entropies, entropy_edges, judged_nodes
from graphsde.metrics.summary import familiar_and_ood
from graphsde.prediction import ClassPrediction, Prediction, RegressionPrediction
from graphsde.prediction.plots import PLOTS
from graphsde.uncertainty.held_out import require_same_nodes
from graphsde.view.figures.evaluation import (
    Confusion,
    DetectionCurves,
    EntropyHistogram,
    PerClass,
    ReliabilityDiagram,
    RiskCoverageCurves,
    UncertaintyScatter,
)
from graphsde.view.figures.nodes import UncertaintyGraph
from graphsde.view.figures.picture import Picture
from graphsde.view.figures.regression import DeviationScatter, ErrorWhenKeeping, PredictedAndTrue, QuantileReliability

CLASSES, NUMBERS = "classification", "regression"


def _judged(prediction: Prediction, graph: Graph) -> np.ndarray:
    """Positions of the test nodes whose truth is known, at least one."""
    require_same_nodes(prediction, graph)
    rows = np.flatnonzero(judged_nodes(prediction, graph))
    if not len(rows):
        raise BadInput(
            f"{graph.name} has no test nodes with a known label to judge by",
            code="E-SPLIT-EMPTY",
            fix="give a graph with a test mask and labels; plot.uncertainty() needs neither",
        )
    return rows


def _classes(prediction: ClassPrediction, graph: Graph) -> tuple[np.ndarray, np.ndarray]:
    """Judged nodes, and their true columns."""
    rows = _judged(prediction, graph)
    return rows, align_labels(graph, prediction.class_names)[rows]


def _shown(prediction: Prediction, graph: Graph) -> np.ndarray:
    """Positions of the test nodes; all nodes without any."""
    require_same_nodes(prediction, graph)
    test = graph.role("test")
    return np.flatnonzero(test) if test.any() else np.arange(graph.num_nodes)


@PLOTS["risk_coverage"].register(CLASSES)
def _risk_coverage(prediction: ClassPrediction, graph: Graph) -> Picture:
    rows, truth = _classes(prediction, graph)
    doubt = 1.0 - prediction.confidence[rows]
    return RiskCoverageCurves.of({"this model": (doubt, prediction.index[rows] != truth)})


@PLOTS["reliability"].register(CLASSES)
def _reliability(prediction: ClassPrediction, graph: Graph) -> Picture:
    rows, truth = _classes(prediction, graph)
    return ReliabilityDiagram.of(prediction.mean[rows], truth)


@PLOTS["entropy"].register(CLASSES)
def _entropy(prediction: ClassPrediction, graph: Graph, by: str = "right") -> Picture:
    if by == "ood":
        doubt = prediction.for_detection().total
        familiar, ood = _both(prediction, graph)
        edges = entropy_edges(prediction.num_classes)
        groups = {"known classes": doubt[familiar], "out-of-distribution": doubt[ood]}
        return EntropyHistogram(edges, {name: count_entropies(one, edges) for name, one in groups.items()})
    if by != "right":
        raise BadUsage(f"entropies cannot be grouped by '{by}'", found=by, expected="right or ood")
    rows, truth = _classes(prediction, graph)
    return EntropyHistogram.of(prediction.total[rows], prediction.index[rows] == truth, prediction.num_classes)


def _both(prediction: Prediction, graph: Graph) -> tuple[np.ndarray, np.ndarray]:
    require_same_nodes(prediction, graph)
    ood = graph.ood_nodes
    if ood is None or not ood.any() or graph.test_mask is None or not familiar_and_ood(graph)[0].any():
        raise BadInput(
            f"{graph.name} has no OOD nodes to compare with known ones",
            code="E-SPLIT-EMPTY",
            fix="make some: gs.make_split(graph, 'leave-class-out').apply(graph)",
        )
    return familiar_and_ood(graph)


@PLOTS["uncertainty"].register(CLASSES)
def _uncertainty(prediction: ClassPrediction, graph: Graph) -> Picture:
    _require_parts(prediction)
    rows = np.flatnonzero(judged_nodes(prediction, graph))
    right = None
    if len(rows):
        right = prediction.index[rows] == align_labels(graph, prediction.class_names)[rows]
    else:
        rows = _shown(prediction, graph)
    return UncertaintyScatter(prediction.aleatoric[rows], prediction.epistemic[rows], right, prediction.ids[rows])


def _require_parts(prediction: Prediction) -> None:
    if prediction.kind == "deterministic":
        raise BadUsage(
            "a deterministic model has no epistemic uncertainty to draw",
            fix="draw plot.entropy(), or fit a model with samples",
        )


@PLOTS["confusion"].register(CLASSES)
def _confusion(prediction: ClassPrediction, graph: Graph) -> Picture:
    rows, truth = _classes(prediction, graph)
    return Confusion.of(prediction.index[rows], truth, prediction.class_names)


@PLOTS["per_class"].register(CLASSES)
def _per_class(prediction: ClassPrediction, graph: Graph) -> Picture:
    rows, truth = _classes(prediction, graph)
    return PerClass.of(prediction.index[rows], truth, prediction.confidence[rows], prediction.class_names)


@PLOTS["detection"].register(CLASSES)
def _detection(prediction: ClassPrediction, graph: Graph) -> Picture:
    familiar, ood = _both(prediction, graph)
    doubt = prediction.for_detection().total
    return DetectionCurves.of({"entropy": (doubt[familiar], doubt[ood])})


@PLOTS["graph"].register(CLASSES)
def _graph(prediction: ClassPrediction, graph: Graph, node: Any = None) -> Picture:
    require_same_nodes(prediction, graph)
    if node is not None and node not in graph.position:
        raise BadInput(f"{graph.name} has no node '{node}'", code="E-NODE-UNKNOWN", found=node)
    return UncertaintyGraph.of(graph, prediction, None if node is None else graph.position[node])


@PLOTS["risk_coverage"].register(NUMBERS)
def _error_when_keeping(prediction: RegressionPrediction, graph: Graph) -> Picture:
    return ErrorWhenKeeping.of(*_numbers(prediction, graph))


@PLOTS["reliability"].register(NUMBERS)
def _quantiles(prediction: RegressionPrediction, graph: Graph) -> Picture:
    return QuantileReliability.of(*_numbers(prediction, graph))


@PLOTS["fit"].register(NUMBERS)
def _fit(prediction: RegressionPrediction, graph: Graph) -> Picture:
    return PredictedAndTrue.of(*_numbers(prediction, graph))


@PLOTS["uncertainty"].register(NUMBERS)
def _deviations(prediction: RegressionPrediction, graph: Graph) -> Picture:
    _require_parts(prediction)
    rows = _shown(prediction, graph)
    return DeviationScatter(
        np.sqrt(prediction.aleatoric[rows]), np.sqrt(prediction.epistemic[rows]), prediction.ids[rows]
    )


def _numbers(prediction: RegressionPrediction, graph: Graph) -> tuple[RegressionPrediction, np.ndarray]:
    rows = _judged(prediction, graph)
    assert graph.values is not None
    return prediction.subset(rows), graph.values[rows]
