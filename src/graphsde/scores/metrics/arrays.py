"""Arguments of metrics, checked once: same length, not empty, no NaN."""

from __future__ import annotations

import numpy as np

from graphsde.errors import BadInput


def numbers(values: np.ndarray, what: str) -> np.ndarray:
    """A vector of float64 without NaN; infinities have a place in an order and may stay."""
    vector = np.asarray(values, dtype=np.float64)
    if vector.ndim != 1:
        raise BadInput(f"{what} has shape {vector.shape}", code="E-LEN", expected="one value per node")
    if np.isnan(vector).any():
        raise BadInput(
            f"{int(np.isnan(vector).sum())} of {len(vector)} values of {what} are not a number",
            code="E-NAN",
            fix="choose a score that is defined for this model, or leave these nodes out",
        )
    return vector


def uncertainty_and_errors(uncertainty: np.ndarray, errors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    values = numbers(uncertainty, "uncertainty")
    flags = numbers(errors, "errors")
    same_length(values, flags, "uncertainty", "errors")
    if not np.isin(flags, (0.0, 1.0)).all():
        raise BadInput("errors holds something else than 0 and 1", expected="True where the prediction is wrong")
    return values, flags.astype(bool)


def class_positions(predicted: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    said, true = np.asarray(predicted), np.asarray(labels)
    same_length(said, true, "predicted", "labels")
    for what, array in (("predicted", said), ("labels", true)):
        if array.ndim != 1 or not np.issubdtype(array.dtype, np.integer) or array.min() < 0:
            raise BadInput(f"{what} is no vector of class positions", expected="whole numbers from 0", fix=_FOREIGN)
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
            f"labels does not name columns of probs, which has {table.shape[1]}",
            code="E-LABEL",
            found=true[outside][:5].tolist() if true.ndim == 1 else true.shape,
            expected=f"whole numbers from 0 to {table.shape[1] - 1}",
            fix=_FOREIGN,
        )
    return table, true.astype(np.int64)


_FOREIGN = "leave out nodes without a label or with a class that the model does not know"


def same_length(first: np.ndarray, second: np.ndarray, first_name: str, second_name: str) -> None:
    if len(first) != len(second):
        raise BadInput(
            f"{first_name} has {len(first)} entries and {second_name} has {len(second)}",
            code="E-LEN",
            expected="as many of one as of the other",
        )
    if len(first) == 0:
        raise BadInput(f"{first_name} is empty: there is no node to judge", code="E-EMPTY", fix="check the mask")
