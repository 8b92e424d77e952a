"""Numbers from a prediction: scores (higher = more uncertain, everywhere), their parts, and how good they are."""

from graphsde.scores import (  # noqa: F401  (importing them registers them)
    confidence,
    energy,
    entropy,
    evidence,
    gebm,
    mahalanobis,
    odin,
    spread,
)
from graphsde.scores.decomposition import Decomposition, decompose
from graphsde.scores.metrics import METRICS
from graphsde.scores.propagation import propagate
from graphsde.scores.registry import SCORES, available_scores, score

__all__ = ["METRICS", "SCORES", "Decomposition", "available_scores", "decompose", "propagate", "score"]
