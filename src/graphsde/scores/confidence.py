"""What the largest probabilities lack."""

from __future__ import annotations

import numpy as np

from graphsde.prediction import Prediction
from graphsde.scores.registry import SCORES


@SCORES.register(
    "msp",
    summary="one minus the largest mean probability",
    paper="Hendrycks and Gimpel, A Baseline for Detecting Misclassified and Out-of-Distribution Examples",
    year=2017,
    needs=("probs",),
)
def msp(prediction: Prediction) -> np.ndarray:
    """``1 − max_c p̄_c``, from maximum softmax probability.  # [N]"""
    return 1.0 - prediction.confidence


@SCORES.register(
    "margin",
    summary="one minus the lead of the first class over the second",
    paper="Scheffer et al., Active Hidden Markov Models for Information Extraction",
    year=2001,
    needs=("probs",),
)
def margin(prediction: Prediction) -> np.ndarray:
    """``1 − (p̄_(1) − p̄_(2))``.  # [N]"""
    if prediction.num_classes == 1:
        return 1.0 - prediction.confidence
    top = np.partition(prediction.mean, -2, axis=-1)
    return 1.0 - (top[:, -1] - top[:, -2])
