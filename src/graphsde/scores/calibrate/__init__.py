"""Probabilities that mean what they say: maps fitted on validation nodes after training, one file per method."""

from graphsde.scores.calibrate import gats, temperature, vector  # noqa: F401  (importing them registers them)
from graphsde.scores.calibrate.base import CALIBRATORS, Calibrator, Surroundings, register_calibrator
from graphsde.scores.calibrate.fitting import fit_calibrator

__all__ = ["CALIBRATORS", "Calibrator", "Surroundings", "fit_calibrator", "register_calibrator"]
