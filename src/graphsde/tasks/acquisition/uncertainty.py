"""Nodes that the model is unsure of."""

from __future__ import annotations

import numpy as np

from graphsde.scores import score
from graphsde.tasks.acquisition.registry import ACQUISITIONS, Candidates


@ACQUISITIONS.register(
    "entropy",
    summary="highest predictive entropy",
    paper="Settles, Active learning literature survey",
    year=2009,
    score="entropy",
)
def highest_entropy(candidates: Candidates, budget: int) -> np.ndarray:
    return candidates.top(score("entropy", candidates.prediction), budget)


@ACQUISITIONS.register(
    "least-confidence",
    summary="lowest probability of the predicted class",
    paper="Lewis and Gale, A sequential algorithm for training text classifiers",
    year=1994,
    score="msp",
)
def least_confidence(candidates: Candidates, budget: int) -> np.ndarray:
    return candidates.top(score("msp", candidates.prediction), budget)


@ACQUISITIONS.register(
    "margin",
    summary="smallest gap between the two most probable classes",
    paper="Scheffer et al., Active hidden Markov models for information extraction",
    year=2001,
    score="margin",
)
def smallest_margin(candidates: Candidates, budget: int) -> np.ndarray:
    return candidates.top(score("margin", candidates.prediction), budget)


@ACQUISITIONS.register(
    "bald",
    summary="highest mutual information between class and sample; for models with samples",
    paper="Houlsby et al., Bayesian active learning for classification and preference learning",
    year=2011,
    score="mutual-information",
)
def disagreement(candidates: Candidates, budget: int) -> np.ndarray:
    return candidates.top(score("mutual-information", candidates.prediction), budget)
