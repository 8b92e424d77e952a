"""How sure a prediction is: scores, calibration, conformal sets and intervals."""
