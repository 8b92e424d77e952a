"""How good are the predictions, and how good is the uncertainty? Pure functions of arrays, float64, O(N log N)."""

from graphsde.metrics.arrays import METRICS
from graphsde.metrics.calibration import Reliability, adaptive_ece, brier, ece, nll, reliability
from graphsde.metrics.classification import accuracy, balanced_accuracy, macro_f1, micro_auroc
from graphsde.metrics.detection import (
    aupr_error,
    aupr_in,
    aupr_out,
    aupr_success,
    detection_accuracy,
    detection_accuracy_grid,
    fpr95,
    misclassification_auroc,
    ood_auroc,
)
from graphsde.metrics.regression import (
    calibration_error,
    coverage90,
    crps,
    density_nll,
    interval_width90,
    mae,
    r2,
    rmse,
    summarise_regression,
)
from graphsde.metrics.selective import (
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
from graphsde.metrics.summary import compare_scores, summarise, summarise_detection, summarise_ood

# the newest metrics are registered last
# isort: split
from graphsde.metrics.spread import ence, miscalibration_area, spread_spearman, summarise_spread

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
    "ence",
    "fpr95",
    "interval_width90",
    "macro_f1",
    "mae",
    "micro_auroc",
    "miscalibration_area",
    "misclassification_auroc",
    "nll",
    "ood_auroc",
    "optimal_aurc",
    "prr",
    "r2",
    "reliability",
    "risk_coverage",
    "rmse",
    "spread_spearman",
    "summarise",
    "summarise_detection",
    "summarise_ood",
    "summarise_regression",
    "summarise_spread",
]
