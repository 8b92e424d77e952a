"""Uncertainty that means what it says: maps fitted on validation nodes after training, one file per method."""

from graphsde.scores.calibrate import deviation, gats, temperature, vector  # noqa: F401  (importing registers them)
from graphsde.scores.calibrate.base import CALIBRATORS, Calibrator, Surroundings, register_calibrator
from graphsde.scores.calibrate.fitting import fit_calibrator, require_calibrator

__all__ = [
    "CALIBRATORS",
    "Calibrator",
    "Surroundings",
    "fit_calibrator",
    "register_calibrator",
    "require_calibrator",
]
