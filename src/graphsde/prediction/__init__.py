"""The interface between models and everything after them: predictions."""

from graphsde.prediction.base import (
    Kind,
    Perturb,
    Prediction,
    Predictor,
    keeps_samples,
    memory_of_samples,
    require,
    require_prediction_of,
    require_room_for_samples,
    require_room_for_sums,
)
from graphsde.prediction.classification import ClassPrediction, Trajectories, entropy
from graphsde.prediction.regression import RegressionPrediction
from graphsde.prediction.summarised import SamplesNotKept, SummarisedPrediction

__all__ = ["ClassPrediction", "Kind", "Perturb", "Prediction", "Predictor", "RegressionPrediction"]
__all__ += ["SamplesNotKept", "SummarisedPrediction", "keeps_samples", "memory_of_samples"]
__all__ += [
    "Trajectories",
    "entropy",
    "require",
    "require_prediction_of",
    "require_room_for_samples",
    "require_room_for_sums",
]
