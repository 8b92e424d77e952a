r"""How much of a prediction's entropy would remain if the state were known.

The logits z of a node are Gaussian around some mean, with the variance v in each class, and p is the predictive
distribution. What is learned about the class by learning z is their mutual information. For small v it is

.. math:: I(y; z) = E\,\mathrm{KL}(p(z) \,\|\, E p(z)) = \tfrac{v}{2} \operatorname{tr}(\mathrm{diag}(p) - p p^\top)
    + O(v^2) = \tfrac{v}{2} \sum_c p_c (1 - p_c) + O(v^2),

since diag(p) − ppᵀ is the Fisher information of a softmax. For large v nearly every z favours one class, and entropy is
left only if the two largest logits are closer than about 1, which happens with a probability of order 1/√v. So the
entropy h of p falls to

.. math:: E\,H(p(z)) = h - I \approx \frac{h}{\sqrt{1 + v\, g / h}}, \qquad g = \sum_c p_c (1 - p_c),

with the right slope at v = 0 and the right order for large v; in between, against draws, it is within .04 h for up to
five classes and .1 h for twenty.

MacKay's closed form softmax(m/√(1 + πv/8)) says how far the *mean* softmax is flattened. The softmax at the mean state
m does not measure the aleatoric part, though: it is flat wherever p is, so that a node about which nothing is known
would have no epistemic part. The expected entropy is the right quantity.
"""

from __future__ import annotations

import numpy as np

from graphsde.base.errors import BadUsage
from graphsde.prediction.classification import entropy
from graphsde.prediction.sample_summary import SampleSummary

_ROWS_AT_ONCE = 50_000
_TOLERANCE = 1e-10  # nats
_ROUNDS = 60
# larger exponents only separate probabilities that differ by rounding
_LARGEST = 20.0
_FLAT = 1e-12  # with a slope below this, halve the bracket
_SMALLEST = 1e-300


def remaining_entropy(probs: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """Entropy that is left on average once the logits of each node are known, h/√(1 + v g/h).

    Args:
        probs: per sample; h and g = Σ p(1 − p) are means over samples.  # [S, N, C]
        variance: of each node's logits, beyond what the samples differ.  # [N]

    Example:
        >>> flat = np.full((1, 2, 2), 0.5)
        >>> [round(float(left), 3) for left in remaining_entropy(flat, np.array([0.0, 4.0]))]
        [0.693, 0.352]
    """
    if variance.shape != probs.shape[1:2] or not bool((variance >= 0).all()):
        raise BadUsage(
            "variance must hold one number per node, none negative",
            code="E-LEN",
            found=list(variance.shape),
            expected=f"{probs.shape[1]} numbers, none negative",
        )
    own, spread = np.zeros(probs.shape[1]), np.zeros(probs.shape[1])
    for sample in probs:  # one at a time: a float64 copy of all of them could be large
        p = np.asarray(sample, dtype=np.float64)
        own += entropy(p)
        spread += np.sum(p * (1.0 - p), axis=-1)
    return _remaining(own / len(probs), spread / len(probs), variance)


def _remaining(own: np.ndarray, spread: np.ndarray, variance: np.ndarray) -> np.ndarray:
    # h √(h / (h + v g)): without a division by an entropy that may be 0
    weight = own + variance * spread
    return own * np.sqrt(np.divide(own, weight, out=np.zeros_like(own), where=weight > 0))


def known_state(probs: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """The mean of ``probs``, sharpened node by node until it has the :func:`remaining_entropy`.  # [1, N, C]

    It represents the prediction if the state were known; its most probable class is the same.
    """
    mean = probs.mean(axis=0, dtype=np.float64)
    mean /= mean.sum(axis=-1, keepdims=True)
    return sharpened(mean, remaining_entropy(probs, variance))[None]


def known_state_of(summary: SampleSummary, variance: np.ndarray) -> np.ndarray:
    """:func:`known_state` of samples that were summed up.  # [1, N, C]"""
    mean = summary.mean / summary.mean.sum(axis=-1, keepdims=True)
    return sharpened(mean, _remaining(summary.entropy, summary.gini, variance))[None]


def sharpened(probs: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """``p^γ``, normalised, with γ ≥ 1 such that its entropy is ``wanted``.  # [N, C], [N] -> [N, C]

    If two classes are equally probable, no power can separate them, and their common entropy remains.
    """
    found = np.empty_like(probs, dtype=np.float64)
    for start in range(0, len(probs), _ROWS_AT_ONCE):
        part = slice(start, start + _ROWS_AT_ONCE)
        found[part] = _sharpened(np.log(np.maximum(probs[part], _SMALLEST)), wanted[part])
    return found


def _sharpened(logs: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Newton's method in ln γ, kept inside a bracket: dH/d ln γ = −Var(γ ln p) under p^γ."""
    logs = logs - logs.max(axis=-1, keepdims=True)
    low, high = np.zeros(len(logs)), np.full(len(logs), _LARGEST)
    at = np.zeros(len(logs))
    for round_ in range(_ROUNDS):
        powered, left, slope = _powered(logs, at)
        excess = left - wanted
        open_ = np.abs(excess) > _TOLERANCE
        if not open_.any():
            break
        low, high = np.where(excess > 0, at, low), np.where(excess < 0, at, high)
        step = np.divide(excess, slope, out=np.full_like(at, np.inf), where=slope > _FLAT)
        following = at + step
        # far from the root Newton's steps can be short: every third halves the bracket
        inside = (following > low) & (following < high) & (round_ % 3 != 2)
        at = np.where(open_, np.where(inside, following, 0.5 * (low + high)), at)
    return powered


def _powered(logs: np.ndarray, at: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """p^γ normalised, its entropy, and the variance of γ ln p under it.  # [n, C], [n], [n]"""
    scaled = logs * np.exp(at)[:, None]
    weights = np.exp(scaled)
    total = weights.sum(axis=-1, keepdims=True)
    powered = weights / total
    mean = np.sum(powered * scaled, axis=-1)
    variance = np.sum(powered * (scaled - mean[:, None]) ** 2, axis=-1)
    return powered, np.log(total[:, 0]) - mean, variance
