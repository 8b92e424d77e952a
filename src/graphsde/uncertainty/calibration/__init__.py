"""Calibration: maps fitted on validation nodes after training, one file per method."""

from graphsde.uncertainty.calibration.base import CALIBRATORS, Calibrator, Surroundings
from graphsde.uncertainty.calibration.calibrators import (
    DEFAULT_CALIBRATOR,
    calibrate,
    fit_calibrator,
    require_calibrator,
)
from graphsde.uncertainty.calibration.diffusion import DiffusionTemperature

__all__ = [
    "CALIBRATORS",
    "DEFAULT_CALIBRATOR",
    "Calibrator",
    "DiffusionTemperature",
    "Surroundings",
    "calibrate",
    "fit_calibrator",
    "require_calibrator",
]
