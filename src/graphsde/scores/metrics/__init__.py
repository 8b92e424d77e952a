"""How good are the predictions, and how good is the uncertainty? Pure functions of arrays, float64, O(N log N)."""

from graphsde.scores.metrics.calibration import Reliability, adaptive_ece, brier, ece, nll, reliability
from graphsde.scores.metrics.classification import accuracy, balanced_accuracy, macro_f1, micro_auroc
from graphsde.scores.metrics.detection import (
    aupr_in,
    aupr_out,
    detection_accuracy,
    detection_accuracy_grid,
    fpr95,
    ood_auroc,
)
from graphsde.scores.metrics.misclassification import aupr_error, aupr_success, misclassification_auroc
from graphsde.scores.metrics.numeric import (
    calibration_error,
    coverage90,
    crps,
    density_nll,
    interval_width90,
    mae,
    r2,
    rmse,
    summarise_numbers,
)
from graphsde.scores.metrics.registry import METRICS
from graphsde.scores.metrics.selective import (
    PAPER_THRESHOLDS,
    AccuracyRejection,
    RiskCoverage,
    accuracy_rejection,
    augrc,
    aurc,
    e_aurc,
    optimal_aurc,
    prr,
    risk_coverage,
)
from graphsde.scores.metrics.summary import compare_scores, summarise, summarise_detection, summarise_ood

__all__ = [
    "METRICS",
    "PAPER_THRESHOLDS",
    "AccuracyRejection",
    "Reliability",
    "RiskCoverage",
    "accuracy",
    "accuracy_rejection",
    "adaptive_ece",
    "augrc",
    "aupr_error",
    "aupr_in",
    "aupr_out",
    "aupr_success",
    "aurc",
    "balanced_accuracy",
    "brier",
    "calibration_error",
    "compare_scores",
    "coverage90",
    "crps",
    "density_nll",
    "detection_accuracy",
    "detection_accuracy_grid",
    "e_aurc",
    "ece",
    "fpr95",
    "interval_width90",
    "macro_f1",
    "mae",
    "micro_auroc",
    "misclassification_auroc",
    "nll",
    "ood_auroc",
    "optimal_aurc",
    "prr",
    "r2",
    "reliability",
    "risk_coverage",
    "rmse",
    "summarise",
    "summarise_detection",
    "summarise_numbers",
    "summarise_ood",
]
