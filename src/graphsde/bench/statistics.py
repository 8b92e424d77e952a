"""Paired statistics: is one model better than another, or is the difference due to chance?

The verdict comes from the paired t-test with Holm's correction over the rivals. A sign-flip permutation test is added
from eight pairs on; Wilcoxon's test and Nadeau and Bengio's are printed but never decide: with five pairs
Wilcoxon's cannot reach .05, and Nadeau and Bengio's is very conservative where test nodes far outnumber training nodes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from graphsde.base.errors import BadUsage
from graphsde.base.seeds import numpy_stream

LEVEL = 0.05
BOOTSTRAP_DRAWS = 10_000
SIGN_FLIPS = 20_000
FEWEST_FOR_PERMUTATION = 8


@dataclass(frozen=True)
class Comparison:
    """Two models on common pairs, the difference being first minus second.

    ``None`` where there are too few pairs.
    """

    n: int
    difference: float | None
    p_t: float | None
    p_permutation: float | None
    p_wilcoxon: float | None
    p_nadeau_bengio: float | None


def bootstrap_interval(values: Sequence[float], *, level: float = 0.95, seed: int = 0) -> tuple[float, float]:
    """Percentile interval of the mean over resampled runs, widened for few of them; for a single run, that run itself.

    A resample of n values spreads less than n new runs would, and its percentiles ignore how uncertain the
    spread itself is: bare, an interval that says 95 % holds the mean in 75 % of the cases at n = 3 and in 84 % at
    n = 5. Half-widths are therefore multiplied with √(n/(n−1)) t/z, t and z being the quantiles of Student's and the
    normal distribution, which tends to 1.

    Example:
        >>> low, high = bootstrap_interval([0.8, 0.82, 0.81, 0.79])
        >>> low < 0.805 < high
        True
    """
    x = np.asarray(values, dtype=np.float64)
    if x.size == 0:
        raise BadUsage("no values for an interval")
    draws = numpy_stream(seed, "bootstrap", x.size).integers(x.size, size=(BOOTSTRAP_DRAWS, x.size))
    means = x[draws].mean(axis=1)
    tail = (1 - level) / 2
    few = x.size / max(x.size - 1, 1)
    wider = math.sqrt(few) * stats.t.isf(tail, x.size - 1) / stats.norm.isf(tail) if x.size > 1 else 1.0
    low, high = (x.mean() + wider * (np.quantile(means, share) - x.mean()) for share in (tail, 1 - tail))
    return float(low), float(high)


def compare_pairs(first: Sequence[float], second: Sequence[float], *, test_to_train: float | None = None) -> Comparison:
    """All tests of one pair of models.

    Args:
        first, second: the same metric on the same splits and seeds, in the same order.
        test_to_train: test nodes over training nodes, for Nadeau and Bengio's correction.
    """
    d = np.asarray(first, dtype=np.float64) - np.asarray(second, dtype=np.float64)
    n = d.size
    if n == 0:
        return Comparison(0, None, None, None, None, None)
    return Comparison(
        n,
        float(d.mean()),
        paired_t(d),
        sign_flip(d) if n >= FEWEST_FOR_PERMUTATION else None,
        float(stats.wilcoxon(d).pvalue) if np.count_nonzero(d) else None,
        None if test_to_train is None else paired_t(d, extra=test_to_train),
    )


def paired_t(differences: np.ndarray, *, extra: float = 0.0) -> float | None:
    """Two-sided p of the mean difference; ``extra`` is added to 1/n in its variance (Nadeau and Bengio, 2003).

    If all differences are the same, as often happens with an accuracy over a few seeds, there is
    no spread: then p is that of a sign test, 2 / 2ⁿ.
    """
    n = differences.size
    if n < 2:
        return None
    spread = float(differences.std(ddof=1))
    mean = float(differences.mean())
    if spread <= 1e-12 * max(1.0, abs(mean)):
        return 1.0 if abs(mean) <= 1e-12 else 2.0 ** (1 - n)
    t = mean / (spread * math.sqrt(1 / n + extra))
    return float(2 * stats.t.sf(abs(t), n - 1))


def sign_flip(differences: np.ndarray, *, seed: int = 0) -> float:
    """Two-sided p of the mean under random signs: all of them up to 14 pairs, otherwise a fixed random choice."""
    n = differences.size
    observed = abs(differences.mean())
    if n <= 14:
        codes = np.arange(2**n)[:, None] >> np.arange(n)[None, :] & 1
        signs = 1.0 - 2.0 * codes
        return float((np.abs(signs @ differences) / n >= observed - 1e-12).mean())
    signs = numpy_stream(seed, "sign flips", n).choice([-1.0, 1.0], size=(SIGN_FLIPS, n))
    hits = int((np.abs(signs @ differences) / n >= observed - 1e-12).sum())
    return (hits + 1) / (SIGN_FLIPS + 1)


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """Holm's step-down adjusted p-values (1979).

    Example:
        >>> {name: round(p, 3) for name, p in holm({"a": 0.01, "b": 0.04, "c": 0.03}).items()}
        {'a': 0.03, 'c': 0.06, 'b': 0.06}
    """
    ordered = sorted(p_values.items(), key=lambda item: item[1])
    adjusted: dict[str, float] = {}
    highest = 0.0
    for position, (name, p) in enumerate(ordered):
        highest = max(highest, min(1.0, (len(ordered) - position) * p))
        adjusted[name] = highest
    return adjusted


def verdicts(runs: Mapping[str, Mapping[str, float]], *, higher_is_better: bool) -> dict[str, str]:
    """The verdict on each model: ``best``, ``tied``, ``behind``, ``only`` or ``too few``.

    Args:
        runs: value by pair (split and seed) by model.
        higher_is_better: of the metric.

    The leader is the first by :func:`paired_ranks`. It is ``best`` only if p < .05 against every rival after Holm.
    Otherwise the leader and all that don't differ from it are ``tied``. A model without two pairs in common with the
    leader is ``too few``.
    """
    known = {name: values for name, values in runs.items() if values}
    if len(known) == 1 and len(runs) == 1:
        return dict.fromkeys(runs, "only")
    if not known:
        return dict.fromkeys(runs, "too few")
    leader = leader_of(known, higher_is_better=higher_is_better)
    p_values, result = {}, dict.fromkeys(runs, "too few")
    for name, values in known.items():
        if name == leader:
            continue
        ahead = _lead(known[leader], values, higher_is_better)
        p = paired_t(ahead)
        if p is not None:
            # if every model is beaten by some other, the leader may be behind on common pairs: then no model leads
            p_values[name] = p if ahead.mean() > 0 else 1.0
    adjusted = holm(p_values)
    for name, p in adjusted.items():
        result[name] = "behind" if p < LEVEL else "tied"
    if p_values:
        complete = len(adjusted) == len(runs) - 1
        result[leader] = "best" if complete and all(p < LEVEL for p in adjusted.values()) else "tied"
    return result


def leader_of(runs: Mapping[str, Mapping[str, float]], *, higher_is_better: bool) -> str:
    """The first by :func:`paired_ranks`, of those that have runs."""
    ranks = paired_ranks(runs, higher_is_better=higher_is_better)
    return min(ranks, key=lambda name: ranks[name])


def against(runs: Mapping[str, Mapping[str, float]], subject: str, *, higher_is_better: bool) -> dict[str, str]:
    """How a model stands to each of its rivals: ``ahead``, ``tied``, ``behind`` or ``too few``.

    Paired t-tests on the pairs that both have, Holm's correction over the rivals.
    """
    own = runs[subject]
    leads = {name: _lead(own, values, higher_is_better) for name, values in runs.items() if name != subject}
    p_values = {name: p for name, lead in leads.items() if (p := paired_t(lead)) is not None}
    adjusted, result = holm(p_values), dict.fromkeys(leads, "too few")
    for name, p in adjusted.items():
        result[name] = "tied" if p >= LEVEL else "ahead" if leads[name].mean() > 0 else "behind"
    return result


def paired_ranks(runs: Mapping[str, Mapping[str, float]], *, higher_is_better: bool) -> dict[str, float]:
    """Ranks from 1 up, ties shared: one more than the number of rivals that are better on common pairs.

    If every model has every pair, this is the order of means. If some runs failed it need not be: a model that
    only has its easy seeds must not lead for that. Without common pairs the means decide.

    Example:
        >>> paired_ranks({"a": {"0": 0.8}, "b": {"0": 0.9, "1": 0.1}}, higher_is_better=True)
        {'a': 2.0, 'b': 1.0}
    """
    known = {name: values for name, values in runs.items() if values}
    ranks = dict.fromkeys(known, 1.0)
    for first, second in itertools.combinations(known, 2):
        ahead = _lead(known[first], known[second], higher_is_better)
        if ahead.size == 0:
            sign = 1.0 if higher_is_better else -1.0
            one, two = (np.mean(list(known[name].values())) for name in (first, second))
            ahead = np.array([sign * (one - two)])
        mean = float(ahead.mean())
        if abs(mean) <= 1e-12:  # ignore rounding
            ranks[first], ranks[second] = ranks[first] + 0.5, ranks[second] + 0.5
        else:
            ranks[second if mean > 0 else first] += 1.0
    return ranks


def _lead(first: Mapping[str, float], second: Mapping[str, float], higher_is_better: bool) -> np.ndarray:
    """By how much the first is better, pair by pair."""
    sign = 1.0 if higher_is_better else -1.0
    return np.array([sign * (first[pair] - second[pair]) for pair in sorted(set(first) & set(second))])


def average_ranks(table: np.ndarray, *, higher_is_better: bool) -> np.ndarray:
    """Mean rank of each model over blocks, 1 being best, ties shared.  # [blocks, models] -> [models]"""
    return stats.rankdata(-table if higher_is_better else table, axis=1).mean(axis=0)


def critical_difference(models: int, blocks: int, *, level: float = LEVEL) -> float:
    """Nemenyi's critical difference of mean ranks (Demšar, JMLR 2006)."""
    q = float(stats.studentized_range.ppf(1 - level, models, np.inf)) / math.sqrt(2)
    return q * math.sqrt(models * (models + 1) / (6 * blocks))
