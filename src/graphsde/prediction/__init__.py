"""The seam: what a model hands to everything after it."""

from graphsde.prediction.base import Kind, Perturb, Prediction, Predictor, require
from graphsde.prediction.classification import ClassPrediction, Trajectories, entropy
from graphsde.prediction.regression import OfAnotherKind, RegressionPrediction

__all__ = [
    "ClassPrediction",
    "Kind",
    "OfAnotherKind",
    "Perturb",
    "Prediction",
    "Predictor",
    "RegressionPrediction",
    "Trajectories",
    "entropy",
    "require",
]
