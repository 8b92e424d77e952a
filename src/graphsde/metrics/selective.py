"""Selective prediction: how few errors remain when the most uncertain nodes are rejected?

All metrics here are expected values under a random order within ties, so that they do not depend on the order of nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from graphsde.metrics import arrays
from graphsde.metrics.arrays import higher, lower, tied_blocks

PAPER_THRESHOLDS = (float("inf"), 2.0, *(tenths / 10 for tenths in range(16, 0, -1)))
"""Entropies at which the released code of the LGNSDE study reads off accuracy."""


@dataclass(frozen=True, eq=False)
class RiskCoverage:
    """Error rate among the nodes kept, against how many are kept.

    Args:
        coverage: 1/N, 2/N, …, 1.  # [N]
        risk: share of errors among the nodes kept.  # [N]
    """

    coverage: np.ndarray
    risk: np.ndarray


@dataclass(frozen=True, eq=False)
class AccuracyRejection:
    """Accuracy among the nodes kept; report it with coverage, since thresholds differ between models.

    Args:
        coverage: share of nodes kept.  # [K]
        accuracy: share of right predictions among them, NaN if none are kept.  # [K]
        threshold: the largest uncertainty kept.  # [K]
    """

    coverage: np.ndarray
    accuracy: np.ndarray
    threshold: np.ndarray


def risk_coverage(uncertainty: np.ndarray, errors: np.ndarray) -> RiskCoverage:
    """The risk–coverage curve (El-Yaniv and Wiener, 2010).

    Args:
        uncertainty: higher = more uncertain.  # [N]
        errors: True where the prediction is wrong.  # [N] bool

    Example:
        >>> curve = risk_coverage(np.array([0.1, 0.2, 0.9]), np.array([False, False, True]))
        >>> curve.risk.round(3).tolist()
        [0.0, 0.0, 0.333]
    """
    kept_errors = _errors_among_kept(uncertainty, errors)
    kept = np.arange(1, len(kept_errors) + 1)
    return RiskCoverage(kept / len(kept), kept_errors / kept)


def accuracy_rejection(
    uncertainty: np.ndarray, errors: np.ndarray, thresholds: Sequence[float] | None = None
) -> AccuracyRejection:
    """Accuracy of the nodes with uncertainty up to each threshold.

    Args:
        uncertainty: higher = more uncertain.  # [N]
        errors: True where the prediction is wrong.  # [N] bool
        thresholds: where to read off; the distinct values of ``uncertainty`` if not given.
    """
    uncertainty, errors = arrays.uncertainty_and_errors(uncertainty, errors)
    distinct, size, wrong = tied_blocks(uncertainty, errors)
    at = distinct if thresholds is None else arrays.numbers(np.asarray(thresholds), "thresholds")
    blocks = np.searchsorted(distinct, at, side="right")
    kept, errors_kept = (np.concatenate([[0], np.cumsum(counts)])[blocks] for counts in (size, wrong))
    right = kept - errors_kept
    share = np.divide(right, kept, out=np.full(len(kept), np.nan), where=kept > 0)
    return AccuracyRejection(kept / len(errors), share, at)


@lower("aurc", "area under the risk-coverage curve: mean error rate over all coverages", chance="error rate")
def aurc(uncertainty: np.ndarray, errors: np.ndarray) -> float:
    """``(1/N) Σ_k R_k`` with ``R_k`` the error rate among the k least uncertain nodes (Geifman et al., 2019)."""
    return float(np.mean(risk_coverage(uncertainty, errors).risk))


@lower(
    "e_aurc",
    "aurc in excess of the best possible order at the same error rate",
    chance="error rate minus the best possible aurc",
)
def e_aurc(uncertainty: np.ndarray, errors: np.ndarray) -> float:
    """AURC − AURC*, the optimum having all errors last (Geifman et al., 2019)."""
    uncertainty, errors = arrays.uncertainty_and_errors(uncertainty, errors)
    return max(aurc(uncertainty, errors) - optimal_aurc(len(errors), int(errors.sum())), 0.0)


def optimal_aurc(nodes: int, errors: int) -> float:
    """``(1/N) Σ_{k=N−m+1..N} (k − (N − m)) / k``: the AURC of N nodes whose m errors come last."""
    kept = np.arange(nodes - errors + 1, nodes + 1)
    return float(np.sum((kept - (nodes - errors)) / kept) / nodes)


@lower(
    "augrc",
    "area under the generalised risk-coverage curve: mean share of nodes that are kept and wrong",
    chance="half the error rate",
)
def augrc(uncertainty: np.ndarray, errors: np.ndarray) -> float:
    """``(1/N) Σ_k (1/N) Σ_{i≤k} e_(i)`` (Traub et al., 2024)."""
    kept_errors = _errors_among_kept(uncertainty, errors)
    return float(np.mean(kept_errors) / len(kept_errors))


@higher(
    "prr",
    "prediction-rejection ratio: 1 for the best order, 0 for a random one, negative if worse",
    range=(-1.0, 1.0),
    chance=0.0,
)
def prr(uncertainty: np.ndarray, errors: np.ndarray) -> float:
    """``(A_random − A_u) / (A_random − A_oracle)``; NaN without errors or without successes (Malinin et al., 2020).

    ``A`` is the area under the remaining error mass against the share rejected, by trapezoids on N + 1 points, where
    ``A_random = r/2`` and ``A_oracle = r²/2`` for error rate r.
    """
    kept_errors = _errors_among_kept(uncertainty, errors)
    nodes, wrong = len(kept_errors), round(float(kept_errors[-1]))
    if wrong in (0, nodes):
        return float("nan")
    # everything times N²: areas of integers
    area = float(np.sum(kept_errors)) - wrong / 2
    return (nodes * wrong / 2 - area) / (nodes * wrong / 2 - wrong * wrong / 2)


def _errors_among_kept(uncertainty: np.ndarray, errors: np.ndarray) -> np.ndarray:
    """Expected errors among the k least uncertain nodes, k = 1..N: linear within a block of ties.  # [N]"""
    uncertainty, errors = arrays.uncertainty_and_errors(uncertainty, errors)
    _, size, wrong = tied_blocks(uncertainty, errors)
    kept_before = np.cumsum(size) - size
    wrong_before = np.cumsum(wrong) - wrong
    within = np.arange(1, len(errors) + 1) - np.repeat(kept_before, size)
    return np.repeat(wrong_before, size) + within * np.repeat(wrong, size) / np.repeat(size, size)
