"""Hyperparameters chosen on validation nodes, with the same budget for every model."""

from graphsde.runs.search.question import SearchRequest
from graphsde.runs.search.space import GRID, space_of
from graphsde.runs.search.study import run_search
from graphsde.runs.search.trials import Trial, best_trial, read_trials

__all__ = ["GRID", "SearchRequest", "Trial", "best_trial", "read_trials", "run_search", "space_of"]
