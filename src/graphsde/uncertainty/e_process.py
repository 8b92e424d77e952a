"""Anytime-valid tests: an e-process for an error rate, and its confidence sequence."""

from __future__ import annotations

import numpy as np

from graphsde.uncertainty.binomial import Counts


def log_e_process(errors: Counts, nodes: Counts, max_error: float | np.ndarray) -> np.ndarray:
    r"""Logarithm of the evidence against an error rate of ``max_error`` or more after n nodes with k errors.

    The wealth of a gambler who bets on fewer errors, spread evenly over all rates q below the limit ε (a mixture as of
    Robbins, 1970):

    .. math:: E = \frac{1}{\varepsilon} \int_0^\varepsilon
        \Big(\frac{q}{\varepsilon}\Big)^k \Big(\frac{1-q}{1-\varepsilon}\Big)^{n-k} dq
        = \frac{B(k+1, n-k+1)\, I_\varepsilon(k+1, n-k+1)}{\varepsilon^{k+1} (1-\varepsilon)^{n-k}}

    For each q the product is a martingale if the error rate is ε and a supermartingale if it is higher, so by
    Ville's inequality ``P(E ≥ 1/δ at any time) ≤ δ``. It depends on the counts only, not on the order of the labels.

    Example:
        >>> float(log_e_process(0, 0, 0.1))
        0.0
    """
    from scipy.special import betainc, betaln

    k, n, limit = np.broadcast_arrays(
        np.asarray(errors, dtype=np.float64), np.asarray(nodes, dtype=np.float64), np.asarray(max_error, np.float64)
    )
    with np.errstate(divide="ignore"):
        mass = betaln(k + 1, n - k + 1) + np.log(betainc(k + 1, n - k + 1, limit))
    return np.asarray(mass - (k + 1) * np.log(limit) - (n - k) * np.log1p(-limit))


def anytime_p_value(errors: Counts, nodes: Counts, max_error: float | np.ndarray) -> np.ndarray:
    """``min(1, 1/E)``: at most δ at *any* time with probability at most δ if the error rate is not below the limit.

    Example:
        >>> float(anytime_p_value(0, 91, 0.05)) <= 0.05 < float(anytime_p_value(0, 59, 0.05))
        True
    """
    return np.asarray(np.exp(-np.maximum(log_e_process(errors, nodes, max_error), 0.0)))


def anytime_upper(errors: Counts, nodes: Counts, delta: float) -> np.ndarray:
    """Upper end of a confidence sequence: with probability ``1 − delta`` the error rate never exceeds it.

    The largest limit that the e-process does not refute at ``1/delta``, by bisection; 1 without nodes or if all are
    wrong. Wider than :func:`~graphsde.uncertainty.binomial.clopper_pearson_upper`, which is valid only once.

    Args:
        errors, nodes: k errors among n nodes so far.
        delta: probability that the bound is ever too low.

    Example:
        >>> anytime_upper(np.array([0, 2]), np.array([100, 100]), 0.05).round(3).tolist()
        [0.044, 0.085]
    """
    k, n = np.broadcast_arrays(np.asarray(errors, dtype=np.float64), np.asarray(nodes, dtype=np.float64))
    low, high = k / np.maximum(n, 1.0), np.ones(k.shape)
    for _ in range(60):
        middle = np.clip((low + high) / 2, 1e-15, 1 - 1e-15)
        refuted = anytime_p_value(k, n, middle) <= delta
        low, high = np.where(refuted, low, middle), np.where(refuted, middle, high)
    return np.where((n > 0) & (k < n), high, 1.0)
