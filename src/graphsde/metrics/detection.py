"""Are OOD nodes and wrong predictions detected?"""

from __future__ import annotations

import numpy as np

from graphsde.base.errors import BadInput
from graphsde.metrics import arrays
from graphsde.metrics.arrays import auroc, average_precision, higher, lower, tied_blocks


@higher("ood_auroc", "probability that an OOD node is more uncertain than an in-distribution one", chance=0.5)
def ood_auroc(inside: np.ndarray, outside: np.ndarray) -> float:
    """P(u_out > u_in) + ½ P(equal).

    Args:
        inside: uncertainty of in-distribution nodes.  # [n]
        outside: uncertainty of out-of-distribution nodes.  # [m]

    Example:
        >>> ood_auroc(np.array([0.1, 0.2]), np.array([0.2, 0.9]))
        0.875
    """
    return auroc(*_joined(inside, outside))


@higher(
    "ood_aupr_in",
    "average precision of finding in-distribution nodes by low uncertainty",
    chance="share of in-distribution nodes",
)
def aupr_in(inside: np.ndarray, outside: np.ndarray) -> float:
    """Step-wise average precision with in-distribution as positive and −u as score."""
    values, is_out = _joined(inside, outside)
    return average_precision(-values, ~is_out)


@higher("ood_aupr_out", "average precision of finding OOD nodes by high uncertainty", chance="share of OOD nodes")
def aupr_out(inside: np.ndarray, outside: np.ndarray) -> float:
    """Step-wise average precision with out-of-distribution as positive and u as score."""
    return average_precision(*_joined(inside, outside))


@lower("ood_fpr95", "share of OOD nodes accepted when 95 % of in-distribution nodes are", chance=0.95)
def fpr95(inside: np.ndarray, outside: np.ndarray) -> float:
    """P(u_out ≤ t) at the smallest threshold t with P(u_in ≤ t) ≥ 0.95; a constant score gets 1."""
    values, is_out = _joined(inside, outside)
    familiar, ood = np.sort(values[~is_out]), values[is_out]
    if len(familiar) == 0 or len(ood) == 0:
        return float("nan")
    accepted = -(-95 * len(familiar) // 100)  # integers: 0.95 * n can round to either side
    return float(np.mean(ood <= familiar[accepted - 1]))


@higher(
    "ood_detection_accuracy",
    "best balanced accuracy of OOD detection over all thresholds",
    range=(0.5, 1.0),
    chance=0.5,
)
def detection_accuracy(inside: np.ndarray, outside: np.ndarray) -> float:
    """``max_t ½ [P(u_in ≤ t) + P(u_out > t)]`` over every threshold; a constant score gets ½."""
    values, is_out = _joined(inside, outside)
    return _balanced_accuracy(values, is_out, np.unique(values))


@higher(
    "ood_detection_accuracy_grid",
    "balanced accuracy at the best of 10 equally spaced thresholds, as in some published tables",
    range=(0.5, 1.0),
    chance=0.5,
)
def detection_accuracy_grid(inside: np.ndarray, outside: np.ndarray, *, points: int = 10) -> float:
    """:func:`detection_accuracy` over equally spaced thresholds from the lowest to the highest value.

    It understates the exact value and depends on the scale of the score: use it only to compare with such tables.
    NaN for scores with infinite values, which have no such grid.
    """
    values, is_out = _joined(inside, outside)
    low, high = values.min(), values.max()
    if not (np.isfinite(low) and np.isfinite(high)):
        return float("nan")
    return _balanced_accuracy(values, is_out, np.linspace(low, high, points))


def _balanced_accuracy(values: np.ndarray, is_out: np.ndarray, thresholds: np.ndarray) -> float:
    distinct, size, ood = tied_blocks(values, is_out)
    accepted_out = np.concatenate([[0], np.cumsum(ood)])
    accepted_in = np.concatenate([[0], np.cumsum(size - ood)])
    if accepted_in[-1] == 0 or accepted_out[-1] == 0:
        return float("nan")
    at = np.searchsorted(distinct, thresholds, side="right")
    balanced = 0.5 * (accepted_in[at] / accepted_in[-1] + 1.0 - accepted_out[at] / accepted_out[-1])
    return max(0.5, float(balanced.max()))  # accepting all or none is always possible


def _joined(inside: np.ndarray, outside: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    familiar, ood = arrays.numbers(inside, "inside"), arrays.numbers(outside, "outside")
    if len(familiar) + len(ood) == 0:
        raise BadInput("inside and outside are both empty: there is no node to evaluate", code="E-EMPTY")
    return np.concatenate([familiar, ood]), np.repeat([False, True], [len(familiar), len(ood)])


@higher("misclassification_auroc", "probability that a wrong prediction is more uncertain than a right one", chance=0.5)
def misclassification_auroc(uncertainty: np.ndarray, errors: np.ndarray) -> float:
    """P(u of an error > u of a success) + ½ P(equal); NaN without errors or without successes.

    Args:
        uncertainty: higher = more uncertain.  # [N]
        errors: True where the prediction is wrong.  # [N] bool
    """
    return auroc(*arrays.uncertainty_and_errors(uncertainty, errors))


@higher("aupr_error", "average precision of finding wrong predictions by high uncertainty", chance="share of errors")
def aupr_error(uncertainty: np.ndarray, errors: np.ndarray) -> float:
    """Average precision with the errors as positives; NaN without errors or without successes."""
    return average_precision(*arrays.uncertainty_and_errors(uncertainty, errors))


@higher(
    "aupr_success",
    "average precision of finding right predictions by low uncertainty",
    chance="share of right predictions",
)
def aupr_success(uncertainty: np.ndarray, errors: np.ndarray) -> float:
    """Average precision with the successes as positives; NaN without errors or without successes."""
    uncertainty, errors = arrays.uncertainty_and_errors(uncertainty, errors)
    return average_precision(-uncertainty, ~errors)
