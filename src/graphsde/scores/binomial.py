"""How large a probability may be, given how often something happened: exact bounds for counts."""

from __future__ import annotations

import math

import numpy as np


def clopper_pearson_upper(events: np.ndarray | int, trials: np.ndarray | int, delta: float) -> np.ndarray:
    """One-sided upper confidence bound of a probability (Clopper and Pearson, 1934).

    The largest r with ``P(Bin(n, r) ≤ k) ≥ δ``: the ``1 − δ`` quantile of Beta(k + 1, n − k). It is exceeded by the
    true probability with a chance of at most ``delta``, whatever n is. 1 where all trials are events or there are none.

    Example:
        >>> float(clopper_pearson_upper(0, 59, 0.05)) < 0.05 < float(clopper_pearson_upper(0, 58, 0.05))
        True
    """
    from scipy.special import betaincinv

    k, n = np.broadcast_arrays(np.asarray(events, dtype=np.float64), np.asarray(trials, dtype=np.float64))
    inside = k < n
    safe_k, safe_n = np.where(inside, k, 0.0), np.where(inside, n, 1.0)
    return np.where(inside, betaincinv(safe_k + 1, safe_n - safe_k, 1.0 - delta), 1.0)


def nodes_to_certify(max_error: float, delta: float, errors: int = 0) -> int:
    """The fewest nodes that show an error rate of at most ``max_error`` when ``errors`` of them are wrong.

    Without errors that is ``⌈ln δ / ln(1 − ε)⌉``.

    Example:
        >>> nodes_to_certify(0.05, 0.05), nodes_to_certify(0.05, 0.05, errors=2)
        (59, 124)
    """
    low, high = errors, math.ceil((errors + 1) / max_error)
    while clopper_pearson_upper(errors, high, delta) > max_error:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        if clopper_pearson_upper(errors, middle, delta) > max_error:
            low = middle
        else:
            high = middle
    return high
