"""Does the uncertainty point at the wrong predictions?"""

from __future__ import annotations

import numpy as np

from graphsde.scores.metrics import arrays
from graphsde.scores.metrics.ranking import auroc, average_precision
from graphsde.scores.metrics.registry import ERRORS, METRICS


@METRICS.register(
    "misclassification_auroc",
    summary="probability that a wrong prediction is more uncertain than a right one",
    takes=ERRORS,
    better="higher",
    range=(0.0, 1.0),
    chance=0.5,
)
def misclassification_auroc(uncertainty: np.ndarray, errors: np.ndarray) -> float:
    """P(u of an error > u of a success) + ½ P(equal); NaN without errors or without successes.

    Args:
        uncertainty: higher = more uncertain.  # [N]
        errors: True where the prediction is wrong.  # [N] bool
    """
    return auroc(*arrays.uncertainty_and_errors(uncertainty, errors))


@METRICS.register(
    "aupr_error",
    summary="average precision of finding wrong predictions by high uncertainty",
    takes=ERRORS,
    better="higher",
    range=(0.0, 1.0),
    chance="share of errors",
)
def aupr_error(uncertainty: np.ndarray, errors: np.ndarray) -> float:
    """Average precision with the errors as positives; NaN without errors or without successes."""
    return average_precision(*arrays.uncertainty_and_errors(uncertainty, errors))


@METRICS.register(
    "aupr_success",
    summary="average precision of finding right predictions by low uncertainty",
    takes=ERRORS,
    better="higher",
    range=(0.0, 1.0),
    chance="share of right predictions",
)
def aupr_success(uncertainty: np.ndarray, errors: np.ndarray) -> float:
    """Average precision with the successes as positives; NaN without errors or without successes."""
    uncertainty, errors = arrays.uncertainty_and_errors(uncertainty, errors)
    return average_precision(-uncertainty, ~errors)
