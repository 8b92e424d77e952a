"""Metrics per class, and which classes are confused."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from graphsde.base.seeds import check_seed, numpy_stream
from graphsde.metrics import arrays
from graphsde.metrics.intervals import CONFIDENCE
from graphsde.metrics.leaderboard import Figure
from graphsde.metrics.resampling import number_of_draws
from graphsde.uncertainty.binomial import clopper_pearson_interval


def confusion_matrix(predicted: np.ndarray, truth: np.ndarray, classes: int) -> np.ndarray:
    """Nodes by true class (rows) and predicted class (columns).  # [C, C]

    Example:
        >>> confusion_matrix(np.array([0, 1, 1]), np.array([0, 0, 1]), 2).tolist()
        [[1, 1], [0, 1]]
    """
    predicted, truth = arrays.class_positions(predicted, truth)
    return np.bincount(truth * classes + predicted, minlength=classes * classes).reshape(classes, classes)


@dataclass(frozen=True)
class ClassFigures:
    """Metrics of one class on the evaluated nodes.

    Args:
        name: of the class.
        support: nodes of the class.
        predicted: nodes that it is predicted for.
        precision: share of these that are of the class; ``None`` if it is never predicted.
        recall: share of its nodes that are found; ``None`` if there are none.
        f1: harmonic mean of both; ``None`` if both are undefined.
        confidence: mean confidence when it is predicted, which should be close to the precision.
    """

    name: str
    support: int
    predicted: int
    precision: Figure | None
    recall: Figure | None
    f1: Figure | None
    confidence: float | None


def per_class(
    predicted: np.ndarray,
    truth: np.ndarray,
    confidence: np.ndarray,
    class_names: tuple[str, ...],
    *,
    confidence_level: float = CONFIDENCE,
    seed: int = 0,
) -> list[ClassFigures]:
    """Precision, recall and F1 of every class, with intervals.

    Precision and recall are shares and have the interval of Clopper and Pearson; that of F1 is over draws of the
    confusion matrix, which is equivalent to draws of nodes.

    Args:
        predicted, truth: class positions of the evaluated nodes.  # [n], [n]
        confidence: probability of the predicted class.  # [n]
        class_names: of all classes.
        confidence_level, seed: as of :func:`graphsde.intervals`.

    Example:
        >>> rows = per_class(np.array([0, 1, 1]), np.array([0, 0, 1]), np.array([0.9, 0.6, 0.8]), ("cat", "dog"))
        >>> rows[0].recall.value, rows[0].precision.value, round(rows[0].f1.value, 3), rows[1].confidence
        (0.5, 1.0, 0.667, 0.7)
    """
    delta, classes = 1.0 - confidence_level, len(class_names)
    table = confusion_matrix(predicted, truth, classes)
    hits, support, claimed = np.diag(table), table.sum(axis=1), table.sum(axis=0)
    sums = np.bincount(predicted, weights=confidence, minlength=classes)
    low, high = _f1_ends(table, delta, seed)
    rows = []
    for position, name in enumerate(class_names):
        hit, has, says = int(hits[position]), int(support[position]), int(claimed[position])
        f1 = Figure(value=2 * hit / (has + says), low=low[position], high=high[position]) if has + says else None
        rows.append(
            ClassFigures(
                name, has, says, _share(hit, says, delta), _share(hit, has, delta), f1,
                float(sums[position] / says) if says else None,
            )
        )  # fmt: skip
    return rows


def _share(hits: int, nodes: int, delta: float) -> Figure | None:
    if not nodes:
        return None
    low, high = clopper_pearson_interval(hits, nodes, delta)
    return Figure(value=hits / nodes, low=low, high=high)


def _f1_ends(table: np.ndarray, delta: float, seed: int) -> tuple[list[float], list[float]]:
    """Both ends of each class's F1.  # [C], [C]"""
    classes, nodes = len(table), int(table.sum())
    cells = np.flatnonzero(table)
    stream = numpy_stream(check_seed(seed), "metrics", "confusion")
    drawn = stream.multinomial(nodes, table.ravel()[cells] / nodes, size=number_of_draws(len(cells)))
    rows, columns = np.divmod(cells, classes)
    ends = []
    for position in range(classes):
        of_it, said = rows == position, columns == position
        either = drawn[:, of_it].sum(axis=1) + drawn[:, said].sum(axis=1)
        values = 2 * drawn[:, of_it & said].sum(axis=1) / np.maximum(either, 1)
        ends.append(np.quantile(values, [delta / 2, 1 - delta / 2]))
    low, high = np.array(ends).T
    return low.tolist(), high.tolist()
