"""Disagreement of the samples, and total uncertainty split into its two parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from graphsde.base.errors import BadUsage
from graphsde.prediction import ClassPrediction, Prediction
from graphsde.uncertainty.scores.registry import SCORES


@SCORES.register(
    "variance",
    summary="variance of the probabilities over samples, summed over classes",
    paper="Gal and Ghahramani, Dropout as a Bayesian Approximation",
    year=2016,
    needs=("probs", "samples"),
    kinds=("samples", "dirichlet"),
)
def variance(prediction: ClassPrediction) -> np.ndarray:
    """``Σ_c Var_s(p_sc)`` with denominator S − 1; of a Dirichlet ``Σ_c p̄_c (1 − p̄_c) / (α₀ + 1)``.  # [N]"""
    if prediction.kind == "dirichlet" and prediction.alpha is not None:
        strength = prediction.alpha.sum(axis=-1, dtype=np.float64)
        mean = prediction.alpha / strength[:, None]
        return np.sum(mean * (1.0 - mean), axis=-1) / (strength + 1.0)
    return prediction.sample_variance


@SCORES.register(
    "variation-ratio",
    summary="share of samples that vote against the most voted class",
    paper="Freeman, Elementary Applied Statistics",
    year=1965,
    needs=("probs", "samples"),
    kinds=("samples",),
)
def variation_ratio(prediction: ClassPrediction) -> np.ndarray:
    """``1 − max_c #{s : argmax p_s = c} / S``.  # [N]"""
    return 1.0 - prediction.votes.max(axis=-1) / prediction.num_samples


@SCORES.register(
    "expected-pairwise-kl",
    summary="mean Kullback-Leibler divergence between two different samples",
    paper="Malinin and Gales, Uncertainty Estimation in Autoregressive Structured Prediction",
    year=2021,
    needs=("probs", "samples"),
    kinds=("samples", "dirichlet"),
)
def expected_pairwise_kl(prediction: ClassPrediction) -> np.ndarray:
    """``mean_{s≠t} KL(p_s ‖ p_t)`` in nats; of a Dirichlet ``(C − 1) / α₀``.  # [N]

    It does not saturate at ln C as mutual information does. Logarithms are taken of at least 1e-12.
    """
    if prediction.kind == "dirichlet" and prediction.alpha is not None:
        return (prediction.num_classes - 1) / prediction.alpha.sum(axis=-1, dtype=np.float64)
    return prediction.pairwise_kl


@dataclass(frozen=True, eq=False)
class Decomposition:
    """Uncertainty of every node in two parts that add up.

    Args:
        total: all of it.  # [N]
        aleatoric: what remains once the sample is known.  # [N]
        epistemic: what the samples disagree about; NaN for a deterministic model, where it is undefined.  # [N]
    """

    total: np.ndarray
    aleatoric: np.ndarray
    epistemic: np.ndarray


def decompose(prediction: ClassPrediction, by: Literal["entropy", "variance"] = "entropy") -> Decomposition:
    """Split the uncertainty of a prediction (Depeweg et al., 2018).

    By entropy: ``H(p̄) = mean_s H(p_s) + I``. By variance, the second moments: ``Σ_c p̄_c (1 − p̄_c)`` is the total,
    ``Σ_c Var_s(p_sc)`` with denominator S − 1 the epistemic part, the rest is aleatoric. For a Dirichlet both are in
    closed form. For a latent diffusion the epistemic part is the disagreement between paths.

    Args:
        prediction: of a model.
        by: ``entropy`` (nats) or ``variance``.

    Example:
        >>> p = ClassPrediction(np.array([[[1.0, 0.0]], [[0.0, 1.0]]]), np.array([0]), ("cat", "dog"), "samples")
        >>> parts = decompose(p)
        >>> round(float(parts.total[0]), 3), float(parts.aleatoric[0]), round(float(parts.epistemic[0]), 3)
        (0.693, 0.0, 0.693)
    """
    if by == "entropy":
        return _parts(prediction, prediction.total, np.maximum(prediction.total - prediction.aleatoric, 0.0))
    if by != "variance":
        raise BadUsage("unknown kind of decomposition", found=by, expected="'entropy' or 'variance'")
    total = np.sum(prediction.mean * (1.0 - prediction.mean), axis=-1)
    if prediction.kind == "deterministic":
        return _parts(prediction, total, total)
    if prediction.kind == "gaussian" and prediction.known_state is not None:
        # Σp² falls as a temperature rises, so the part of the known state never exceeds the total
        known = np.asarray(prediction.known_state[0], dtype=np.float64)
        return _parts(prediction, total, np.maximum(total - np.sum(known * (1.0 - known), axis=-1), 0.0))
    if prediction.kind == "samples" and prediction.num_samples < 2:
        raise BadUsage(
            "a variance needs at least two samples, and this prediction has one",
            code="E-SCORE",
            fix="predict with samples=20 or more",
        )
    # with few, almost one-hot samples the unbiased variance can exceed the plug-in total
    return _parts(prediction, total, np.minimum(variance(prediction), total))


def _parts(prediction: ClassPrediction, total: np.ndarray, epistemic: np.ndarray) -> Decomposition:
    if prediction.kind == "deterministic":
        return Decomposition(total, total.copy(), np.full_like(total, np.nan))
    return Decomposition(total, total - epistemic, epistemic)


BOTH = ("classification", "regression")


@SCORES.register(
    "total",
    summary="total uncertainty of any prediction: entropy of classes, variance of numbers",
    paper="Shannon, A mathematical theory of communication",
    year=1948,
    needs=(),
    targets=BOTH,
)
def total(prediction: Prediction) -> np.ndarray:
    """:attr:`Prediction.total`, in nats or in the square of the target's unit.  # [N]"""
    return prediction.total


@SCORES.register(
    "epistemic",
    summary="epistemic part of any prediction: mutual information of classes, variance of the mean of numbers",
    paper="Depeweg et al., Decomposition of uncertainty in Bayesian deep learning",
    year=2018,
    needs=(),
    kinds=("samples", "dirichlet", "gaussian"),
    targets=BOTH,
)
def epistemic(prediction: Prediction) -> np.ndarray:
    """:attr:`Prediction.epistemic`.  # [N]"""
    return prediction.epistemic
