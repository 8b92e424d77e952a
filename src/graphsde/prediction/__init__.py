"""The seam: what a model hands to everything after it."""

from graphsde.prediction.prediction import (
    Kind,
    NotForNumbers,
    NumericKind,
    NumericPrediction,
    Perturb,
    Prediction,
    Predictor,
    Trajectories,
    entropy,
)

__all__ = [
    "Kind",
    "NotForNumbers",
    "NumericKind",
    "NumericPrediction",
    "Perturb",
    "Prediction",
    "Predictor",
    "Trajectories",
    "entropy",
]
