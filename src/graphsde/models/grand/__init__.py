"""Graph neural diffusion: the network that it shares with its descendants, and the model."""

from graphsde.models.grand.model import GRAND

__all__ = ["GRAND"]
