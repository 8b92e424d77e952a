"""Every metric of an evaluation on many draws of the evaluated nodes, with the model fixed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

import numpy as np

from graphsde.base.registry import Rules
from graphsde.graph.graph import Graph
from graphsde.metrics.regression import LEVELS, crps_of_each
from graphsde.metrics.resampling import DRAWS, MassBins, RankedNodes, binned_sums, drawn_counts, drawn_ranks
from graphsde.metrics.spread import ENCE_BINS, area_beside_diagonal, central_levels
from graphsde.prediction import ClassPrediction, Prediction, RegressionPrediction
from graphsde.uncertainty.held_out import align_labels
from graphsde.uncertainty.scores.registry import score

_SMALLEST = 1e-12
ECE_BINS = 15
Table = Mapping[str, Callable[[], np.ndarray]]


class Figures(Protocol):
    """Metrics of a prediction on some nodes, for draws of them."""

    @property
    def groups(self) -> tuple[int, ...]:
        """Sizes of the groups of nodes that are drawn separately."""

    @property
    def hits(self) -> Mapping[str, np.ndarray]:
        """Figures that are a share of the nodes, and which nodes count for them.  # [n] bool each"""

    def table(self, counts: np.ndarray) -> Table:
        """Each metric for each draw, on demand.  # [b, n] -> [b] each"""

    def calibrated(self, stream: np.random.Generator, draws: int) -> dict[str, np.ndarray]:
        """The chance level of metrics that can't be 0 on finitely many nodes.  # name -> [draws]"""


def resample(
    figures: Figures, names: Iterable[str] | None = None, *, draws: int = DRAWS, seed: int = 0
) -> dict[str, np.ndarray]:
    """Metrics on ``draws`` draws of nodes.  # name -> [draws]

    Args:
        figures: of a prediction.
        names: which; all if not given.
        draws: how many.
        seed: of the draws; the same nodes get the same draws, whatever the model.
    """
    asked = None if names is None else list(names)
    parts: list[dict[str, np.ndarray]] = []
    for counts in drawn_counts(*figures.groups, draws=draws, seed=seed):
        table = figures.table(counts)
        parts.append({name: table[name]() for name in (asked if asked is not None else table)})
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


FIGURES: Rules[Callable[[Any, Graph, np.ndarray], Figures]] = Rules("metrics on draws of nodes")
"""Of a prediction on the nodes of a mask."""


def figures_of(prediction: Prediction, graph: Graph, mask: np.ndarray) -> Figures:
    """The metrics of a prediction on nodes whose truth is known.  # mask [N] bool"""
    return FIGURES.of(prediction)(prediction, graph, mask)


class ClassFigures:
    """Of predicted classes.

    Args:
        probs: probabilities.  # [n, C]
        predicted, truth: classes.  # [n], [n]
        doubt: the uncertainty behind selective metrics.  # [n]
        entropy: of the probabilities.  # [n]
    """

    def __init__(
        self, probs: np.ndarray, predicted: np.ndarray, truth: np.ndarray, doubt: np.ndarray, entropy: np.ndarray
    ) -> None:
        nodes, self.classes = probs.shape
        self.predicted, self.truth, self.wrong = predicted, truth, predicted != truth
        rows = np.arange(nodes)
        self.surprise = -np.log(np.clip(probs[rows, truth], _SMALLEST, 1.0))
        distance = probs.astype(np.float64)
        distance[rows, truth] -= 1.0
        self.distance = np.square(distance).sum(axis=1)
        self.confidence = probs.max(axis=1).astype(np.float64)
        self.right = (probs.argmax(axis=1) == truth).astype(np.float64)
        edges = np.linspace(0.0, 1.0, ECE_BINS + 1)
        self.bin_of = np.clip(np.searchsorted(edges, self.confidence, side="left") - 1, 0, ECE_BINS - 1)
        self.mass = MassBins(self.confidence, ECE_BINS)
        self.by_doubt, self.by_entropy = RankedNodes(doubt, self.wrong), RankedNodes(entropy, self.wrong)

    @property
    def groups(self) -> tuple[int, ...]:
        return (len(self.truth),)

    @property
    def hits(self) -> dict[str, np.ndarray]:
        return {"accuracy": ~self.wrong}

    def table(self, counts: np.ndarray) -> Table:
        nodes = counts.shape[1]
        doubt = self.by_doubt.blocks(counts)
        return {
            "accuracy": lambda: 1.0 - counts @ self.wrong / nodes,
            "balanced_accuracy": lambda: self._balanced_accuracy(counts),
            "macro_f1": lambda: self._macro_f1(counts),
            "misclassification_auroc": doubt.auroc,
            "aupr_error": doubt.precision_of_high,
            "aupr_success": doubt.precision_of_low,
            "aurc": doubt.aurc,
            "aurc_entropy": lambda: self.by_entropy.blocks(counts).aurc(),
            "e_aurc": doubt.excess_aurc,
            "augrc": doubt.augrc,
            "prr": doubt.prr,
            "nll": lambda: counts @ self.surprise / nodes,
            "brier": lambda: counts @ self.distance / nodes,
            "ece": lambda: np.abs(binned_sums(counts, self.bin_of, self.right - self.confidence)).sum(axis=1) / nodes,
            "adaptive_ece": lambda: (
                np.abs(np.subtract(*self.mass.sums(counts, self.right, self.confidence))).sum(axis=1) / nodes
            ),
        }

    def _by_class(self, counts: np.ndarray, classes: np.ndarray, weight: np.ndarray | float = 1.0) -> np.ndarray:
        table = np.zeros((len(classes), self.classes))
        table[np.arange(len(classes)), classes] = weight
        return counts @ table

    def _balanced_accuracy(self, counts: np.ndarray) -> np.ndarray:
        support, found = self._by_class(counts, self.truth), self._by_class(counts, self.truth, ~self.wrong)
        return np.sum(found / np.maximum(support, 1), axis=1) / np.sum(support > 0, axis=1)

    def _macro_f1(self, counts: np.ndarray) -> np.ndarray:
        found = self._by_class(counts, self.truth, ~self.wrong)
        either = self._by_class(counts, self.truth) + self._by_class(counts, self.predicted)
        return np.sum(2 * found / np.maximum(either, 1), axis=1) / np.sum(either > 0, axis=1)

    def calibrated(self, stream: np.random.Generator, draws: int) -> dict[str, np.ndarray]:
        """Calibration errors if stated confidences came true, each node right with its own.  # [draws] each"""
        nodes = len(self.truth)
        order = self.mass.ranked.order
        mass_bin = np.empty(nodes, dtype=np.int64)
        mass_bin[order] = np.repeat(np.arange(len(self.mass.sizes)), self.mass.sizes.astype(np.int64))
        gaps = (stream.random((draws, nodes)) < self.confidence) - self.confidence
        one = np.ones(nodes)
        return {
            "ece": np.abs(binned_sums(gaps, self.bin_of, one)).sum(axis=1) / nodes,
            "adaptive_ece": np.abs(binned_sums(gaps, mass_bin, one)).sum(axis=1) / nodes,
        }


@FIGURES.register("classification")
def _of_classes(prediction: ClassPrediction, graph: Graph, mask: np.ndarray) -> ClassFigures:
    nodes = np.flatnonzero(mask)
    truth = align_labels(graph, prediction.class_names)[nodes]
    doubt = score("msp", prediction, graph)[nodes]
    return ClassFigures(prediction.mean[nodes], prediction.index[nodes], truth, doubt, prediction.total[nodes])


class NumberFigures:
    """Of predicted numbers.

    Args:
        prediction: of the evaluated nodes only.
        truth: their values.  # [n]
    """

    def __init__(self, prediction: RegressionPrediction, truth: np.ndarray) -> None:
        self.truth, self.error, self.variance = truth, prediction.mean - truth, prediction.total
        low, high = prediction.interval(0.9)
        self.inside, self.width = ((low <= truth) & (truth <= high)).astype(np.float64), high - low
        self.surprise, self.crps = -prediction.log_density(truth), crps_of_each(prediction, truth)
        self.below = (prediction.cdf(truth)[:, None] <= LEVELS).astype(np.float64)
        self.central = central_levels(prediction, truth)
        self.by_level = RankedNodes(self.central, np.zeros(len(truth), dtype=bool))
        self.by_variance = RankedNodes(self.variance, np.zeros(len(truth), dtype=bool))
        self.by_error = RankedNodes(np.abs(self.error), np.zeros(len(truth), dtype=bool))
        self.mass = MassBins(self.variance, ENCE_BINS)

    @property
    def groups(self) -> tuple[int, ...]:
        return (len(self.truth),)

    @property
    def hits(self) -> dict[str, np.ndarray]:
        return {"coverage90": self.inside > 0}

    def table(self, counts: np.ndarray) -> Table:
        nodes = counts.shape[1]

        def mean(values: np.ndarray) -> np.ndarray:
            return counts @ values / nodes

        return {
            "rmse": lambda: np.sqrt(mean(self.error**2)),
            "mae": lambda: mean(np.abs(self.error)),
            "r2": lambda: self._r2(counts),
            "nll": lambda: mean(self.surprise),
            "crps": lambda: mean(self.crps),
            "coverage90": lambda: mean(self.inside),
            "interval_width90": lambda: mean(self.width),
            "calibration_error": lambda: np.abs(counts @ self.below / nodes - LEVELS).mean(axis=1),
            "miscalibration_area": lambda: self._area(self.by_level.blocks(counts).kept / nodes),
            "ence": lambda: self._ence(*self.mass.sums(counts, self.variance, self.error**2)),
            "spread_spearman": lambda: self._spearman(counts),
        }

    def _r2(self, counts: np.ndarray) -> np.ndarray:
        nodes = counts.shape[1]
        centred = self.truth - self.truth.mean()  # squares of large values would lose significant digits
        spread = counts @ centred**2 - (counts @ centred) ** 2 / nodes
        drawn = counts > 0
        highest = np.where(drawn, self.truth, -np.inf).max(axis=1)
        varied = highest > np.where(drawn, self.truth, np.inf).min(axis=1)  # a draw of one value has no variance
        return 1.0 - np.divide(counts @ self.error**2, spread, out=np.full(len(counts), np.nan), where=varied)

    def _area(self, shares: np.ndarray) -> np.ndarray:
        levels = self.by_level.values[self.by_level.first]
        return area_beside_diagonal(np.broadcast_to(levels, shares.shape), shares)

    @staticmethod
    def _ence(stated: np.ndarray, actual: np.ndarray) -> np.ndarray:
        return np.abs(1.0 - np.sqrt(np.maximum(actual, 0.0) / stated)).mean(axis=1)

    def _spearman(self, counts: np.ndarray) -> np.ndarray:
        middle = (counts.shape[1] + 1) / 2
        first, second = (drawn_ranks(counts, one) - middle for one in (self.by_error, self.by_variance))
        scale = np.sqrt((counts * first**2).sum(axis=1) * (counts * second**2).sum(axis=1))
        return np.divide(
            (counts * first * second).sum(axis=1), scale, out=np.full(len(counts), np.nan), where=scale > 0
        )

    def calibrated(self, stream: np.random.Generator, draws: int) -> dict[str, np.ndarray]:
        """Calibration errors if values were drawn from Gaussians with the predicted deviations.  # [draws] each"""
        from scipy.special import ndtr

        nodes = len(self.truth)
        drawn = stream.standard_normal((draws, nodes))
        shares = np.stack([(ndtr(drawn) <= level).mean(axis=1) for level in LEVELS], axis=1)
        levels = np.sort(np.abs(2.0 * ndtr(drawn) - 1.0), axis=1)
        even = np.broadcast_to(np.arange(1, nodes + 1) / nodes, levels.shape)
        ones = np.ones((1, nodes))
        (stated,) = self.mass.sums(ones, self.variance)
        order, cuts = self.mass.ranked.order, self.mass.cuts[:-1].astype(np.int64)
        actual = np.add.reduceat((drawn**2 * self.variance)[:, order], cuts, axis=1)
        return {
            "calibration_error": np.abs(shares - LEVELS).mean(axis=1),
            "miscalibration_area": area_beside_diagonal(levels, even),
            "ence": self._ence(stated, actual),
        }


@FIGURES.register("regression")
def _of_numbers(prediction: RegressionPrediction, graph: Graph, mask: np.ndarray) -> NumberFigures:
    assert graph.values is not None
    nodes = np.flatnonzero(mask)
    return NumberFigures(prediction.subset(nodes), graph.values[nodes])


class DetectionFigures:
    """Of a score that should be higher for OOD nodes; both groups are drawn separately.

    Args:
        inside, outside: the score of in-distribution and of OOD nodes.  # [n], [m]
    """

    def __init__(self, inside: np.ndarray, outside: np.ndarray) -> None:
        self.groups = len(inside), len(outside)
        self.hits: dict[str, np.ndarray] = {}
        self.finite = bool(np.isfinite(inside).all() and np.isfinite(outside).all())
        ood = np.repeat([False, True], self.groups)
        self.ranked = RankedNodes(np.concatenate([inside, outside]).astype(np.float64), ood)

    def table(self, counts: np.ndarray) -> Table:
        blocks = self.ranked.blocks(counts)
        found: dict[str, Callable[[], np.ndarray]] = {
            "ood_auroc": blocks.auroc,
            "ood_aupr_in": blocks.precision_of_low,
            "ood_aupr_out": blocks.precision_of_high,
            "ood_fpr95": blocks.fpr95,
            "ood_detection_accuracy": blocks.detection_accuracy,
        }
        return found | ({"ood_detection_accuracy_grid": blocks.detection_accuracy_grid} if self.finite else {})

    def calibrated(self, stream: np.random.Generator, draws: int) -> dict[str, np.ndarray]:
        """No metric here is a calibration error."""
        return {}
