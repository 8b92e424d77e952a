"""Numbers from a prediction: scores (higher = more uncertain, everywhere) and their parts."""

# isort: off
from graphsde.uncertainty.scores import outputs, beyond, spread, ood  # noqa: F401  (registers them, in this order)

# isort: on
from graphsde.uncertainty.scores.propagation import propagate
from graphsde.uncertainty.scores.registry import SCORES, available_scores, score
from graphsde.uncertainty.scores.spread import Decomposition, decompose

__all__ = ["SCORES", "Decomposition", "available_scores", "decompose", "propagate", "score"]
