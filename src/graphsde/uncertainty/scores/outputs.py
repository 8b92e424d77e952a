"""Scores from the outputs alone: confidence, energy, entropy, and Dirichlet concentrations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np

from graphsde.base.errors import BadUsage
from graphsde.prediction import ClassPrediction
from graphsde.uncertainty.scores.propagation import propagate, require_temperature
from graphsde.uncertainty.scores.registry import SCORES

if TYPE_CHECKING:
    from graphsde.graph.graph import Graph


@SCORES.register(
    "msp",
    summary="one minus the largest mean probability",
    paper="Hendrycks and Gimpel, A Baseline for Detecting Misclassified and Out-of-Distribution Examples",
    year=2017,
    needs=("probs",),
)
def msp(prediction: ClassPrediction) -> np.ndarray:
    """``1 − max_c p̄_c``, from maximum softmax probability.  # [N]"""
    return 1.0 - prediction.confidence


@SCORES.register(
    "margin",
    summary="one minus the lead of the first class over the second",
    paper="Scheffer et al., Active Hidden Markov Models for Information Extraction",
    year=2001,
    needs=("probs",),
)
def margin(prediction: ClassPrediction) -> np.ndarray:
    """``1 − (p̄_(1) − p̄_(2))``.  # [N]"""
    if prediction.num_classes == 1:
        return 1.0 - prediction.confidence
    top = np.partition(prediction.mean, -2, axis=-1)
    return 1.0 - (top[:, -1] - top[:, -2])


@SCORES.register(
    "energy",
    summary="negative log-sum-exp of the logits, mean over samples",
    paper="Liu et al., Energy-based Out-of-distribution Detection",
    year=2020,
    needs=("logits",),
)
def energy(prediction: ClassPrediction, *, temperature: float = 1.0) -> np.ndarray:
    """``−T logsumexp(z / T)``, mean over samples.  # [N]

    Unlike probabilities it changes when the same number is added to all logits of a node.

    Args:
        prediction: with logits.
        temperature: ``T > 0``.
    """
    require_temperature("energy", temperature)
    if not prediction.has_logits:
        raise BadUsage("energy needs logits, and this prediction has none", code="E-SCORE", fix="use entropy or msp")
    return prediction.free_energy(temperature)


@SCORES.register(
    "gnnsafe",
    summary="energy averaged with the energies of the neighbours",
    paper="Wu et al., Energy-based Out-of-Distribution Detection for Graph Neural Networks",
    year=2023,
    needs=("logits", "graph"),
    spreads=True,
)
def gnnsafe(
    prediction: ClassPrediction,
    graph: Graph,
    *,
    temperature: float = 1.0,
    alpha: float = 0.5,
    steps: int = 2,
    isolated: Literal["keep", "published"] = "keep",
) -> np.ndarray:
    """:func:`energy`, then :func:`graphsde.uncertainty.scores.propagate`.  # [N]"""
    return propagate(energy(prediction, temperature=temperature), graph, alpha=alpha, steps=steps, isolated=isolated)


@SCORES.register(
    "gnsd",
    summary="energy averaged four times over edges and self loops",
    paper="Lin et al., Graph Neural Stochastic Diffusion for Estimating Uncertainty in Node Classification",
    year=2024,
    needs=("logits", "graph"),
    spreads=True,
)
def gnsd(prediction: ClassPrediction, graph: Graph, *, alpha: float = 0.3, steps: int = 4) -> np.ndarray:
    """:func:`energy`, then :func:`graphsde.uncertainty.scores.propagate` with self loops.  # [N]"""
    return propagate(energy(prediction), graph, alpha=alpha, steps=steps, self_loops=True)


@SCORES.register(
    "entropy",
    summary="entropy of the mean probabilities: total uncertainty",
    paper="Shannon, A Mathematical Theory of Communication",
    year=1948,
    needs=("probs",),
)
def entropy(prediction: ClassPrediction) -> np.ndarray:
    """Total uncertainty ``H(p̄)`` in nats.  # [N]"""
    return prediction.total


@SCORES.register(
    "expected-entropy",
    summary="mean entropy of the samples: ambiguity that remains when the model is known (aleatoric)",
    paper="Depeweg et al., Decomposition of Uncertainty in Bayesian Deep Learning",
    year=2018,
    needs=("probs",),
)
def expected_entropy(prediction: ClassPrediction) -> np.ndarray:
    """Aleatoric part ``mean_s H(p_s)`` in nats; of a deterministic model, all of the entropy.  # [N]"""
    return prediction.aleatoric


@SCORES.register(
    "mutual-information",
    summary="entropy minus expected entropy: disagreement among the samples (epistemic)",
    paper="Houlsby et al., Bayesian Active Learning for Classification and Preference Learning",
    year=2011,
    needs=("probs", "samples"),
    kinds=("samples", "dirichlet", "gaussian"),
)
def mutual_information(prediction: ClassPrediction) -> np.ndarray:
    """Epistemic part ``H(p̄) − mean_s H(p_s)`` in nats.  # [N]

    From S samples it is low by about a factor 1 − 1/S: compare models at equal S. Of a Gaussian state it is the entropy
    that is due to not knowing the state.
    """
    return prediction.epistemic


_PAPER = "Zhao et al., Uncertainty Aware Semi-Supervised Learning on Graph Data"


@SCORES.register(
    "vacuity",
    summary="lack of evidence: classes over total concentration",
    paper=_PAPER,
    year=2020,
    needs=("alpha",),
    kinds=("dirichlet",),
)
def vacuity(prediction: ClassPrediction) -> np.ndarray:
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
def dissonance(prediction: ClassPrediction) -> np.ndarray:
    """``Σ_i b_i Σ_{j≠i} b_j Bal(b_i, b_j) / Σ_{j≠i} b_j``.  # [N]

    Beliefs are ``b = (α − 1) / α₀`` and their balance is ``1 − |b_i − b_j| / (b_i + b_j)``, both 0 where there is
    nothing to compare. All beliefs equal gives ``1 − vacuity``, a single belief 0.
    """
    alpha = _concentrations(prediction)
    belief = np.maximum(alpha - 1.0, 0.0) / alpha.sum(axis=-1, keepdims=True)
    total = np.zeros(prediction.num_items)
    for c in range(prediction.num_classes):  # class by class keeps memory at [N, C] instead of [N, C, C]
        others = belief.copy()
        others[:, c] = 0.0
        own = belief[:, [c]]
        # b_j Bal(b_i, b_j) = 2 b_j min(b_i, b_j) / (b_i + b_j)
        balanced = _ratio(2.0 * others * np.minimum(own, others), own + others).sum(axis=-1)
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
def differential_entropy(prediction: ClassPrediction) -> np.ndarray:
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
def predicted_evidence(prediction: ClassPrediction) -> np.ndarray:
    """``−α_ŷ``, ŷ the class with the highest mean.  # [N]"""
    return -_concentrations(prediction).max(axis=-1)


def _concentrations(prediction: ClassPrediction) -> np.ndarray:
    if prediction.alpha is None:
        raise BadUsage("this score needs Dirichlet concentrations, and the prediction has none", code="E-SCORE")
    return prediction.alpha.astype(np.float64)


def _ratio(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    return np.divide(above, below, out=np.zeros_like(above), where=below > 0)
