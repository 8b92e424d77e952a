"""Sets of classes, or intervals of numbers, that hold the true one with a chosen frequency: one file per score."""

from graphsde.scores.conformal import aps, daps, raps, thr  # noqa: F401  (importing them registers them)
from graphsde.scores.conformal.intervals import ConformalIntervals
from graphsde.scores.conformal.registry import CONFORMAL_SCORES, Case
from graphsde.scores.conformal.sets import Conformal, conformalize
from graphsde.scores.conformal.summary import summarise_sets

__all__ = ["CONFORMAL_SCORES", "Case", "Conformal", "ConformalIntervals", "conformalize", "summarise_sets"]
