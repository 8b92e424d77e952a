"""Which direction of a metric is better: up, down, towards a value, or undefined."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from graphsde.metrics import METRICS

Aim = Literal["higher", "lower"] | float | None

# parts of metric names that only tasks have
LOWER_IS_BETTER = ("seconds", "epochs", "bytes", "over_gcn", "exponent", "error", "set_size", "false_alarms")
LOWER_METRICS = ("nll", "aurc", "fpr", "ece")
# conformal sets should have the requested coverage: more is not better, and the name does not contain the level
NOT_JUDGED = ("coverage[", "worst_class_coverage[", "set_coverage")


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
    """Values signed so that more is better: unchanged, negated, or the negated distance from the best value.

    ``None`` if the metric can't be ranked.
    """
    if aim_of(metric) is None:
        return None
    return {label: {seed: turned(metric, value) for seed, value in runs.items()} for label, runs in values.items()}


def turned(metric: str, value: float) -> float:
    """One value, so that more is better."""
    aim = aim_of(metric)
    if aim is None or isinstance(aim, str):
        return -value if aim == "lower" else value
    return -abs(value - aim)


def within_range(metric: str, interval: tuple[float, float], scale: float = 1.0) -> tuple[float, float]:
    """An interval clipped to the range of the metric: with two runs it may otherwise extend beyond 0 and 1.

    Example:
        >>> within_range("ood_auroc_all@gcn", (-0.3, 0.8)), within_range("epoch_seconds", (-0.1, 2.0))
        ((0.0, 0.8), (-0.1, 2.0))
    """
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
