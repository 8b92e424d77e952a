"""Latent graph neural SDE: settings, presets, network, objective, model."""

from graphsde.models.lgnsde.model import LGNSDE
from graphsde.models.lgnsde.presets import PRESETS

__all__ = ["LGNSDE", "PRESETS"]
