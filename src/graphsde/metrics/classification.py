"""Is the predicted class right?"""

from __future__ import annotations

import numpy as np

from graphsde.metrics import arrays
from graphsde.metrics.arrays import auroc, higher


@higher("accuracy", "share of nodes whose class is right", chance="share of the most frequent class")
def accuracy(predicted: np.ndarray, labels: np.ndarray) -> float:
    """Share of nodes whose class is right."""
    predicted, labels = arrays.class_positions(predicted, labels)
    return float(np.mean(predicted == labels))


@higher("balanced_accuracy", "mean over classes of the share found", chance="one over the number of classes")
def balanced_accuracy(predicted: np.ndarray, labels: np.ndarray) -> float:
    """Mean recall over the classes that occur among the labels."""
    predicted, labels = arrays.class_positions(predicted, labels)
    support = np.bincount(labels)
    found = np.bincount(labels[predicted == labels], minlength=len(support))
    present = support > 0
    return float(np.mean(found[present] / support[present]))


@higher(
    "macro_f1",
    "mean over classes of the harmonic mean of precision and recall",
    chance="about one over the number of classes",
)
def macro_f1(predicted: np.ndarray, labels: np.ndarray) -> float:
    """Mean over the classes that occur among labels or predictions of ``2 TP / (2 TP + FP + FN)``."""
    predicted, labels = arrays.class_positions(predicted, labels)
    classes = int(max(predicted.max(), labels.max())) + 1
    hits = np.bincount(labels[predicted == labels], minlength=classes)
    claimed_or_true = np.bincount(labels, minlength=classes) + np.bincount(predicted, minlength=classes)
    present = claimed_or_true > 0
    return float(np.mean(2.0 * hits[present] / claimed_or_true[present]))


@higher(
    "micro_auroc",
    "area under the ROC curve of all (node, class) pairs together: ranking of probabilities, not of uncertainty",
    chance=0.5,
)
def micro_auroc(probs: np.ndarray, labels: np.ndarray) -> float:
    """One ROC over the flattened ``[N, C]`` table of probabilities against one-hot labels; NaN with one class."""
    probs, labels = arrays.probs_and_labels(probs, labels)
    is_true = np.zeros(probs.shape, dtype=bool)
    is_true[np.arange(len(labels)), labels] = True
    return auroc(probs.ravel(), is_true.ravel())
