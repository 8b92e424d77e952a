"""Entropy of the predictive probabilities, whole and in its two parts."""

from __future__ import annotations

import numpy as np

from graphsde.prediction import Prediction
from graphsde.scores.registry import SCORES


@SCORES.register(
    "entropy",
    summary="entropy of the mean probabilities: all the uncertainty there is",
    paper="Shannon, A Mathematical Theory of Communication",
    year=1948,
    needs=("probs",),
)
def entropy(prediction: Prediction) -> np.ndarray:
    """Total uncertainty ``H(p̄)`` in nats.  # [N]"""
    return prediction.total


@SCORES.register(
    "expected-entropy",
    summary="mean entropy of the samples: ambiguity that remains when the model is known (aleatoric)",
    paper="Depeweg et al., Decomposition of Uncertainty in Bayesian Deep Learning",
    year=2018,
    needs=("probs",),
)
def expected_entropy(prediction: Prediction) -> np.ndarray:
    """Aleatoric part ``mean_s H(p_s)`` in nats; of a deterministic model, all of the entropy.  # [N]"""
    return prediction.aleatoric


@SCORES.register(
    "mutual-information",
    summary="entropy minus expected entropy: disagreement among the samples (epistemic)",
    paper="Houlsby et al., Bayesian Active Learning for Classification and Preference Learning",
    year=2011,
    needs=("probs", "samples"),
    kinds=("samples", "dirichlet"),
)
def mutual_information(prediction: Prediction) -> np.ndarray:
    """Epistemic part ``H(p̄) − mean_s H(p_s)`` in nats.  # [N]

    From S samples it is low by about a factor 1 − 1/S: compare models at equal S.
    """
    return prediction.epistemic
