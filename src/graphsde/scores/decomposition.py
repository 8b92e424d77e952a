"""Total uncertainty split into what is ambiguous and what the model does not know."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from graphsde.errors import BadUsage
from graphsde.prediction import Prediction
from graphsde.scores.spread import variance


@dataclass(frozen=True, eq=False)
class Decomposition:
    """Uncertainty of every node in two parts that add up.

    Args:
        total: all of it.  # [N]
        aleatoric: what remains once the sample is known.  # [N]
        epistemic: what the samples disagree about; NaN for a deterministic model, which has no notion of it.  # [N]
    """

    total: np.ndarray
    aleatoric: np.ndarray
    epistemic: np.ndarray


def decompose(prediction: Prediction, by: Literal["entropy", "variance"] = "entropy") -> Decomposition:
    """Split the uncertainty of a prediction (Depeweg et al., 2018).

    By entropy: ``H(p̄) = mean_s H(p_s) + I``. By variance, the second moments: ``Σ_c p̄_c (1 − p̄_c)`` is the total,
    ``Σ_c Var_s(p_sc)`` with denominator S − 1 the epistemic part, the rest is aleatoric. For a Dirichlet both are in
    closed form. Of a latent diffusion the epistemic part is the disagreement between paths.

    Args:
        prediction: what a model said.
        by: ``entropy`` (nats) or ``variance``.

    Example:
        >>> p = Prediction(np.array([[[1.0, 0.0]], [[0.0, 1.0]]]), np.array([0]), ("cat", "dog"), "samples")
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
    if prediction.kind == "samples" and prediction.num_samples < 2:
        raise BadUsage(
            "a variance needs at least two samples, and this prediction has one",
            code="E-SCORE",
            fix="predict with samples=20 or more",
        )
    # with few, almost one-hot samples the unbiased variance can exceed the plug-in total
    return _parts(prediction, total, np.minimum(variance(prediction), total))


def _parts(prediction: Prediction, total: np.ndarray, epistemic: np.ndarray) -> Decomposition:
    if prediction.kind == "deterministic":
        return Decomposition(total, total.copy(), np.full_like(total, np.nan))
    return Decomposition(total, total - epistemic, epistemic)
