"""Figures per class and the confusion matrix, against scikit-learn and closed forms."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import confusion_matrix as reference
from sklearn.metrics import precision_recall_fscore_support

from graphsde.metrics.per_class import confusion_matrix, per_class
from graphsde.uncertainty.binomial import clopper_pearson_interval

NAMES = ("a", "b", "c", "never")


def some_answers(nodes: int = 300) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    truth = rng.integers(3, size=nodes)
    predicted = np.where(rng.random(nodes) < 0.7, truth, rng.integers(3, size=nodes))
    return predicted, truth, rng.uniform(0.3, 1.0, nodes)


def test_against_scikit_learn() -> None:
    predicted, truth, confidence = some_answers()
    matrix = confusion_matrix(predicted, truth, 4)
    assert (matrix == reference(truth, predicted, labels=range(4))).all() and matrix.sum() == 300
    rows = per_class(predicted, truth, confidence, NAMES)
    precision, recall, f1, support = precision_recall_fscore_support(truth, predicted, labels=range(3))
    for k, row in enumerate(rows[:3]):
        assert row.precision is not None and row.recall is not None and row.f1 is not None
        found = (row.precision.value, row.recall.value, row.f1.value, row.support)
        assert found == pytest.approx((precision[k], recall[k], f1[k], support[k]))
        assert row.confidence == pytest.approx(confidence[predicted == k].mean())
        assert (row.recall.low, row.recall.high) == clopper_pearson_interval(int(matrix[k, k]), int(support[k]))
        assert row.f1.low < row.f1.value < row.f1.high
    never = rows[3]
    assert (never.support, never.predicted, never.precision, never.recall, never.f1) == (0, 0, None, None, None)
    assert never.confidence is None


def test_the_interval_of_f1_is_that_of_drawing_nodes() -> None:
    predicted, truth, confidence = some_answers()
    rng = np.random.default_rng(1)
    drawn = []
    for _ in range(600):
        rows = rng.integers(300, size=300)
        drawn.append(precision_recall_fscore_support(truth[rows], predicted[rows], labels=[0])[2][0])
    low, high = np.quantile(drawn, [0.025, 0.975])
    f1 = per_class(predicted, truth, confidence, NAMES)[0].f1
    assert f1 is not None
    assert (f1.low, f1.high) == pytest.approx((low, high), abs=0.015)
