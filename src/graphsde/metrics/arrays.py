"""Metrics by name; their arguments, checked once; ranks with ties."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial

import numpy as np

from graphsde.base.errors import BadInput
from graphsde.base.registry import Registry

METRICS: Registry[Callable[..., float]] = Registry("metric")
"""Every metric.

The facts of an entry: ``takes``, its arguments in order; ``better`` (``higher``, ``lower``, or in words with the value
as ``best``); ``range``, lowest and highest possible value (``None`` = unbounded); ``chance``, what a score or a model
that knows nothing gets, as a number or, if that depends on the data, in words.
"""


def metric(
    better: str,
    name: str,
    summary: str,
    *,
    range: tuple[float | None, float | None] = (0.0, 1.0),
    chance: float | str | None = None,
    **facts: float,
) -> Callable[[Callable[..., float]], Callable[..., float]]:
    """Decorator: registers a metric, with facts as of :data:`METRICS`; it takes its positional parameters."""

    def keep(function: Callable[..., float]) -> Callable[..., float]:
        takes = tuple(p.name for p in inspect.signature(function).parameters.values() if p.kind is not p.KEYWORD_ONLY)
        METRICS.add(name, function, summary=summary, takes=takes, better=better, **facts, range=range, chance=chance)
        return function

    return keep


higher, lower = partial(metric, "higher"), partial(metric, "lower")


def numbers(values: np.ndarray, what: str) -> np.ndarray:
    """A vector of float64 without NaN; infinities can be ranked and are allowed."""
    vector = np.asarray(values, dtype=np.float64)
    if vector.ndim != 1:
        raise BadInput(f"{what} has shape {vector.shape}", code="E-LEN", expected="one value per node")
    if np.isnan(vector).any():
        raise BadInput(
            f"{int(np.isnan(vector).sum())} of {len(vector)} values of {what} are not a number",
            code="E-NAN",
            fix="choose a score that is defined for this model, or leave out these nodes",
        )
    return vector


def uncertainty_and_errors(uncertainty: np.ndarray, errors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    values = numbers(uncertainty, "uncertainty")
    flags = numbers(errors, "errors")
    same_length(values, flags, "uncertainty", "errors")
    if not np.isin(flags, (0.0, 1.0)).all():
        raise BadInput("errors must only hold 0 and 1", expected="True where the prediction is wrong")
    return values, flags.astype(bool)


def class_positions(predicted: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    said, true = np.asarray(predicted), np.asarray(labels)
    same_length(said, true, "predicted", "labels")
    for what, array in (("predicted", said), ("labels", true)):
        if array.ndim != 1 or not np.issubdtype(array.dtype, np.integer) or array.min() < 0:
            raise BadInput(
                f"{what} is not a vector of class positions", expected="integers from 0", fix=_UNKNOWN_CLASSES
            )
    return said.astype(np.int64), true.astype(np.int64)


def probs_and_labels(probs: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    table, true = np.asarray(probs, dtype=np.float64), np.asarray(labels)
    if table.ndim != 2:
        raise BadInput(f"probs has shape {table.shape}", code="E-LEN", expected="[nodes, classes]")
    same_length(table, true, "probs", "labels")
    if not np.isfinite(table).all():
        raise BadInput("probs holds values that are not finite", code="E-NAN")
    outside = (true < 0) | (true >= table.shape[1])
    if true.ndim != 1 or not np.issubdtype(true.dtype, np.integer) or outside.any():
        raise BadInput(
            f"labels are not valid columns of probs, which has {table.shape[1]}",
            code="E-LABEL",
            found=true[outside][:5].tolist() if true.ndim == 1 else true.shape,
            expected=f"integers from 0 to {table.shape[1] - 1}",
            fix=_UNKNOWN_CLASSES,
        )
    return table, true.astype(np.int64)


_UNKNOWN_CLASSES = "leave out nodes without a label or of an unknown class"


def same_length(first: np.ndarray, second: np.ndarray, first_name: str, second_name: str) -> None:
    if len(first) != len(second):
        raise BadInput(
            f"{first_name} has {len(first)} entries and {second_name} has {len(second)}",
            code="E-LEN",
            expected="equal lengths",
        )
    if len(first) == 0:
        raise BadInput(f"{first_name} is empty: there is no node to evaluate", code="E-EMPTY", fix="check the mask")


def tied_blocks(values: np.ndarray, marked: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Group equal values.

    Returns:
        The distinct values in ascending order, how many nodes have each, and how many of these are marked.  # [B] each
    """
    distinct, block = np.unique(values, return_inverse=True)
    size = np.bincount(block, minlength=len(distinct))
    return distinct, size, np.bincount(block[marked], minlength=len(distinct))


def auroc(values: np.ndarray, positive: np.ndarray) -> float:
    """P(value of a positive > value of a negative) + ½ P(equal); NaN if either group is empty."""
    _, size, hits = tied_blocks(values, positive)
    misses = size - hits
    positives, negatives = int(hits.sum()), int(misses.sum())
    if positives == 0 or negatives == 0:
        return float("nan")
    below = np.cumsum(misses) - misses
    twice_won = int(np.sum(hits * (2 * below + misses)))  # integers: exact
    return twice_won / (2 * positives * negatives)


def average_precision(values: np.ndarray, positive: np.ndarray) -> float:
    """Step-wise area under precision against recall, tied values entering together; NaN if either group is empty."""
    _, size, hits = tied_blocks(values, positive)
    positives = int(hits.sum())
    if positives == 0 or positives == len(values):
        return float("nan")
    size, hits = size[::-1], hits[::-1]
    return float(np.sum(np.cumsum(hits) / np.cumsum(size) * hits) / positives)
