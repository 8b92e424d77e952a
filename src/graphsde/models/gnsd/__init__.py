"""Graph neural stochastic diffusion: its drift and noise, network and model."""

from graphsde.models.gnsd.model import GNSD

__all__ = ["GNSD"]
