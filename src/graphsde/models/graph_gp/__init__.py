"""Matérn Gaussian process on a graph: kernel on the spectrum, variational posterior, training."""

from graphsde.models.graph_gp.model import GraphGP

__all__ = ["GraphGP"]
