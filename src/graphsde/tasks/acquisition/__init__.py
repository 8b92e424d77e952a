"""Which nodes to have labelled next; one file per idea."""

from graphsde.tasks.acquisition import (  # noqa: F401  (importing them registers them)
    age,
    centrality,
    chance,
    coreset,
    featprop,
    graphpart,
    uncertainty,
)
from graphsde.tasks.acquisition.registry import ACQUISITIONS, Acquisition, Candidates, acquire

__all__ = ["ACQUISITIONS", "Acquisition", "Candidates", "acquire"]
