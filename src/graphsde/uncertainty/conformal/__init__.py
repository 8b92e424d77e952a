"""Sets of classes, or intervals of numbers, that hold the true one with a chosen frequency: one file per score."""

from graphsde.uncertainty.conformal.intervals import ConformalIntervals
from graphsde.uncertainty.conformal.scores import CONFORMAL_SCORES, Case
from graphsde.uncertainty.conformal.sets import Conformal, conformalize, summarise_sets

__all__ = ["CONFORMAL_SCORES", "Case", "Conformal", "ConformalIntervals", "conformalize", "summarise_sets"]
