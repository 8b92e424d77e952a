"""Exact binomial arithmetic: Clopper–Pearson bounds, the test of an error limit, its power, the nodes it needs."""

from __future__ import annotations

import math

import numpy as np

Counts = np.ndarray | int


def clopper_pearson_upper(events: Counts, trials: Counts, delta: float) -> np.ndarray:
    """One-sided upper confidence bound of a probability (Clopper and Pearson, 1934).

    The largest r with ``P(Bin(n, r) ≤ k) ≥ δ``: the ``1 − δ`` quantile of Beta(k + 1, n − k). It is exceeded by the
    true probability with probability at most ``delta``, for any n. 1 if all trials are events or there are none.

    Example:
        >>> float(clopper_pearson_upper(0, 59, 0.05)) < 0.05 < float(clopper_pearson_upper(0, 58, 0.05))
        True
    """
    from scipy.special import betaincinv

    k, n = np.broadcast_arrays(np.asarray(events, dtype=np.float64), np.asarray(trials, dtype=np.float64))
    inside = k < n
    safe_k, safe_n = np.where(inside, k, 0.0), np.where(inside, n, 1.0)
    return np.where(inside, betaincinv(safe_k + 1, safe_n - safe_k, 1.0 - delta), 1.0)


def clopper_pearson_interval(events: int, trials: int, delta: float = 0.05) -> tuple[float, float]:
    """Both ends of the exact interval of a probability; each end is missed with probability at most ``delta / 2``.

    Example:
        >>> clopper_pearson_interval(0, 10) == (0.0, float(clopper_pearson_upper(0, 10, 0.025)))
        True
    """
    high = float(clopper_pearson_upper(events, trials, delta / 2))
    return 1.0 - float(clopper_pearson_upper(trials - events, trials, delta / 2)), high


def binomial_p_value(errors: Counts, nodes: Counts, max_error: float | np.ndarray) -> np.ndarray:
    """``P(Bin(n, ε) ≤ k)``: the probability of so few errors if the error rate is at the limit; 1 without nodes.

    At most ``delta`` exactly if the Clopper–Pearson bound at ``1 − delta`` is at most ``max_error``.

    Example:
        >>> round(float(binomial_p_value(0, 59, 0.05)), 4)
        0.0485
    """
    from scipy.special import bdtr

    k, n = np.broadcast_arrays(np.asarray(errors, dtype=np.float64), np.asarray(nodes, dtype=np.int64))
    return np.where(n > 0, bdtr(np.minimum(k, n), n, max_error), 1.0)


def most_errors(nodes: Counts, max_error: float, delta: float) -> np.ndarray:
    """The most errors with which n nodes still pass the test; −1 if they fail even without errors.

    Example:
        >>> most_errors(np.array([58, 59, 93, 124]), 0.05, 0.05).tolist()
        [-1, 0, 1, 2]
    """
    from scipy.special import bdtr
    from scipy.stats import binom

    n = np.asarray(nodes, dtype=np.int64)
    at = np.nan_to_num(np.asarray(binom.ppf(delta, np.maximum(n, 1), max_error)))  # the fewest with P(Bin ≤ k) ≥ δ
    passes = bdtr(at, np.maximum(n, 1), max_error) <= delta
    return np.where(n > 0, np.where(passes, at, at - 1), -1).astype(np.int64)


def power_of_test(nodes: Counts, error: float | np.ndarray, max_error: float, delta: float) -> np.ndarray:
    """The probability that n accepted nodes pass the test if a share ``error`` of the accepted nodes is wrong.

    Example:
        >>> power_of_test(np.array([58, 59]), 0.0, 0.05, 0.05).tolist()
        [0.0, 1.0]
    """
    from scipy.special import bdtr

    n = np.asarray(nodes, dtype=np.int64)
    allowed = most_errors(n, max_error, delta)
    chance = bdtr(np.maximum(allowed, 0).astype(np.float64), np.maximum(n, 1), error)
    return np.where(allowed >= 0, chance, 0.0)


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


MOST_NODES = 200_000
"""Largest number of nodes to search for: more is impractical."""


def nodes_for_power(max_error: float, error: float, delta: float, power: float) -> int | None:
    """The fewest accepted nodes from which on the test passes with probability at least ``power``.

    The power rises in a sawtooth, since the most errors that pass are an integer; the result is the end of
    the last tooth below ``power``, so that more nodes are never worse. ``None`` if no number of nodes is enough,
    because ``error`` is not below the limit, or if it would exceed :data:`MOST_NODES`.

    Example:
        >>> nodes_for_power(0.05, 0.0, 0.05, 0.8), nodes_for_power(0.05, 0.05, 0.05, 0.8)
        (59, None)
    """
    from scipy.special import bdtr, ndtri

    if error >= max_error:
        return None
    spread = -ndtri(delta) * math.sqrt(max_error * (1 - max_error)) + ndtri(power) * math.sqrt(error * (1 - error))
    about = (spread / (max_error - error)) ** 2
    if about > MOST_NODES:
        return None
    # twice as far as the normal approximation says: the teeth shrink, and no deeper one follows
    most = 2 * max(nodes_to_certify(max_error, delta), math.ceil(about))
    allowed = np.arange(int(most_errors(most, max_error, delta)) + 1)
    first = _fewest_nodes(allowed, max_error, delta)
    last = np.append(first[1:] - 1, most)  # of each tooth, along which the power falls
    below = np.flatnonzero(bdtr(allowed.astype(np.float64), last, error) < power)
    return int(last[below[-1]]) + 1 if len(below) else int(first[0])


def _fewest_nodes(errors: np.ndarray, max_error: float, delta: float) -> np.ndarray:
    """:func:`nodes_to_certify` for many numbers of errors at once.  # [K] int64"""
    from scipy.special import bdtr, ndtri

    def passes(nodes: np.ndarray) -> np.ndarray:
        return np.asarray(bdtr(errors.astype(np.float64), nodes, max_error) <= delta)

    # begins where the normal approximation passes, which is wrong by some multiple of 1 / max_error
    spread = -ndtri(delta) * math.sqrt(1 - max_error)
    about = ((spread + np.sqrt(spread**2 + 4 * (errors + 0.5))) / (2 * math.sqrt(max_error))) ** 2
    step = math.ceil(4 / max_error)
    low = np.maximum(errors, about.astype(np.int64) - step)  # as many errors as nodes never pass
    high = low + 2 * step
    while (early := passes(low) & (low > errors)).any():
        low = np.where(early, np.maximum(errors, low - step), low)
    while (late := ~passes(high)).any():
        low, high = np.where(late, high, low), np.where(late, high + step, high)
    while (high - low > 1).any():
        middle = (low + high) // 2
        enough = passes(middle)
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return high
