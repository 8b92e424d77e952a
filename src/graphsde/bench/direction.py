"""Which direction of a metric is better: up, down, towards a value, or undefined."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Literal

from graphsde.metrics import METRICS

Aim = Literal["higher", "lower"] | float | None

# costs: twice as many seconds are as much worse at a thousandth of a second as at a hundred
COSTS = ("seconds", "bytes", "over_gcn")
SMALLEST_COST = 1e-9  # the resolution of the clock, where nothing was measured
# parts of metric names that only tasks have
LOWER_IS_BETTER = (*COSTS, "epochs", "error", "set_size", "false_alarms")
LOWER_METRICS = ("nll", "aurc", "fpr", "ece")
# conformal sets should have the requested coverage: more is not better, and the name does not contain the level
# and a time that grows more slowly may still be the longer one
NOT_JUDGED = ("coverage[", "worst_class_coverage[", "set_coverage", "exponent")


def aim_of(metric: str) -> Aim:
    """``higher``, ``lower``, the best value, or ``None`` if no value is better than another by itself.

    Example:
        >>> aim_of("accuracy"), aim_of("nll@0.5"), aim_of("coverage90"), aim_of("coverage[aps]")
        ('higher', 'lower', 0.9, None)
    """
    if metric.startswith(NOT_JUDGED):
        return None
    base = metric.partition("@")[0].partition("[")[0]
    if base in METRICS:
        facts = METRICS.entry(base).facts
        return facts["best"] if "best" in facts else facts["better"]
    return "lower" if any(word in base for word in (*LOWER_IS_BETTER, *LOWER_METRICS)) else "higher"


def is_cost(metric: str) -> bool:
    """Whether a metric is an amount of time or memory."""
    return any(word in metric.partition("@")[0].partition("[")[0] for word in COSTS)


def first_judged(metrics: Iterable[str]) -> str | None:
    """The first metric that can be ranked."""
    return next((metric for metric in metrics if aim_of(metric) is not None), None)


def in_words(metric: str) -> str:
    """For the head of a table."""
    aim = aim_of(metric)
    if aim is None:
        return "compare with the requested level"
    return f"{aim} is better" if isinstance(aim, str) else f"best at {aim:g}"


def judged_values(metric: str, values: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float]] | None:
    """Values turned so that more is better: unchanged, negated, the negated distance from the best value or, of costs,
    the negated logarithm, so that factors are compared.

    ``None`` if the metric can't be ranked.
    """
    if aim_of(metric) is None:
        return None
    return {label: {seed: turned(metric, value) for seed, value in runs.items()} for label, runs in values.items()}


def turned(metric: str, value: float) -> float:
    """One value, so that more is better."""
    if is_cost(metric):
        return -math.log(max(value, SMALLEST_COST))
    aim = aim_of(metric)
    if aim is None or isinstance(aim, str):
        return -value if aim == "lower" else value
    return -abs(value - aim)


def within_range(metric: str, interval: tuple[float, float], scale: float = 1.0) -> tuple[float, float]:
    """An interval clipped to the range of the metric: with two runs it may otherwise extend beyond 0 and 1.

    Example:
        >>> within_range("ood_auroc_all@gcn", (-0.3, 0.8)), within_range("epoch_seconds", (-0.1, 2.0))
        ((0.0, 0.8), (0.0, 2.0))
    """
    if is_cost(metric):
        return max(interval[0], 0.0), interval[1]
    base = metric.partition("@")[0].partition("[")[0].removeprefix("val_")
    for ending in ("_all", "_propagated", "_area", "_exact"):
        base = base.removesuffix(ending)
    if base not in METRICS:
        base = "accuracy" if base.endswith("accuracy") else base.removeprefix("ood_")
    if base not in METRICS or base == "nll":  # that of a density can be negative, and has the same name
        return interval
    low, high = METRICS.entry(base).facts["range"]
    return (
        interval[0] if low is None else max(interval[0], scale * low),
        interval[1] if high is None else min(interval[1], scale * high),
    )
