"""Beta–Bernoulli graph DropConnect: learned rates at which edges are heard."""

from graphsde.models.bgcn.model import BGCN, BGCNSettings

__all__ = ["BGCN", "BGCNSettings"]
