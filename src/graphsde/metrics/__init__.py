"""How good are the predictions, and how good is the uncertainty? Pure functions of arrays, float64, O(N log N)."""

# isort: off
from graphsde.metrics import calibration, classification, detection, regression, selective  # noqa: F401  (registers them)

# isort: on
from graphsde.metrics.arrays import METRICS
from graphsde.metrics.calibration import reliability
from graphsde.metrics.detection import ood_auroc
from graphsde.metrics.selective import risk_coverage
from graphsde.metrics.summary import summarise

__all__ = ["METRICS", "ood_auroc", "reliability", "risk_coverage", "summarise"]
