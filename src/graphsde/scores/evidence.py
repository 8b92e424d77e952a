"""What Dirichlet concentrations tell beyond their mean: too little evidence, or evidence that conflicts."""

from __future__ import annotations

import numpy as np

from graphsde.errors import BadUsage
from graphsde.prediction import Prediction
from graphsde.scores.registry import SCORES

_PAPER = "Zhao et al., Uncertainty Aware Semi-Supervised Learning on Graph Data"


@SCORES.register(
    "vacuity",
    summary="lack of evidence: classes over total concentration",
    paper=_PAPER,
    year=2020,
    needs=("alpha",),
    kinds=("dirichlet",),
)
def vacuity(prediction: Prediction) -> np.ndarray:
    """``C / α₀``: 1 without any evidence, towards 0 with much.  # [N]"""
    return prediction.num_classes / _concentrations(prediction).sum(axis=-1)


@SCORES.register(
    "dissonance",
    summary="conflicting evidence: beliefs in several classes that balance each other",
    paper=_PAPER,
    year=2020,
    needs=("alpha",),
    kinds=("dirichlet",),
)
def dissonance(prediction: Prediction) -> np.ndarray:
    """``Σ_i b_i Σ_{j≠i} b_j Bal(b_i, b_j) / Σ_{j≠i} b_j``.  # [N]

    Beliefs are ``b = (α − 1) / α₀`` and their balance is ``1 − |b_i − b_j| / (b_i + b_j)``, both 0 where there is
    nothing to compare. All beliefs equal gives ``1 − vacuity``, a single belief 0.
    """
    alpha = _concentrations(prediction)
    belief = np.maximum(alpha - 1.0, 0.0) / alpha.sum(axis=-1, keepdims=True)
    total = np.zeros(prediction.num_nodes)
    for c in range(prediction.num_classes):  # class by class keeps memory at [N, C] instead of [N, C, C]
        others = belief.copy()
        others[:, c] = 0.0
        own = belief[:, [c]]
        both = own + others
        # b_j Bal(b_i, b_j) = 2 b_j min(b_i, b_j) / (b_i + b_j)
        balanced = _ratio(2.0 * others * np.minimum(own, others), both).sum(axis=-1)
        total += own[:, 0] * _ratio(balanced, others.sum(axis=-1))
    return total


@SCORES.register(
    "differential-entropy",
    summary="spread of the Dirichlet over class probabilities: its differential entropy",
    paper="Malinin and Gales, Predictive Uncertainty Estimation via Prior Networks",
    year=2018,
    needs=("alpha",),
    kinds=("dirichlet",),
)
def differential_entropy(prediction: Prediction) -> np.ndarray:
    """``ln B(α) + (α₀ − C) ψ(α₀) − Σ_c (α_c − 1) ψ(α_c)``; negative, lower with more evidence.  # [N]"""
    from scipy.special import digamma, gammaln

    alpha = _concentrations(prediction)
    total = alpha.sum(axis=-1)
    log_beta = gammaln(alpha).sum(axis=-1) - gammaln(total)
    return log_beta + (total - alpha.shape[-1]) * digamma(total) - ((alpha - 1.0) * digamma(alpha)).sum(axis=-1)


@SCORES.register(
    "predicted-evidence",
    summary="lack of evidence for the predicted class: its concentration, negated",
    paper="Stadler et al., Graph Posterior Network: Bayesian Predictive Uncertainty for Node Classification",
    year=2021,
    needs=("alpha",),
    kinds=("dirichlet",),
)
def predicted_evidence(prediction: Prediction) -> np.ndarray:
    """``−α_ŷ``, ŷ the class with the highest mean.  # [N]"""
    return -_concentrations(prediction).max(axis=-1)


def _concentrations(prediction: Prediction) -> np.ndarray:
    if prediction.alpha is None:
        raise BadUsage("this score reads Dirichlet concentrations, and the prediction has none", code="E-SCORE")
    return prediction.alpha.astype(np.float64)


def _ratio(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    return np.divide(above, below, out=np.zeros_like(above), where=below > 0)
