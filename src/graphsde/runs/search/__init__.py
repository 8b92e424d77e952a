"""Hyperparameters chosen on validation nodes, with the same budget for every model."""

from graphsde.runs.search.space import GRID, space_of
from graphsde.runs.search.study import SearchRequest, Trial, best_trial, run_search

__all__ = ["GRID", "SearchRequest", "Trial", "best_trial", "run_search", "space_of"]
