"""Uncertainty of predictions: scores, calibration, conformal sets and intervals."""
