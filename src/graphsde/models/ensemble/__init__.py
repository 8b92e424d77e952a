"""Several models of one kind that differ by their seed."""

from graphsde.models.ensemble.model import Ensemble, EnsembleSettings

__all__ = ["Ensemble", "EnsembleSettings"]
