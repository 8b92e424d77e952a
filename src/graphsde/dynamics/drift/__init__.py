"""Drifts, one file each: f in dH = f(t, H) dt + g dW."""

from graphsde.dynamics.drift.diffusion import DiffusionDrift
from graphsde.dynamics.drift.gat import GATDrift
from graphsde.dynamics.drift.gcn import GCNDrift
from graphsde.dynamics.drift.reaction import ReactionDrift
from graphsde.dynamics.drift.registry import DRIFTS, register_drift
from graphsde.dynamics.drift.second_order import SecondOrderDrift

__all__ = [
    "DRIFTS",
    "DiffusionDrift",
    "GATDrift",
    "GCNDrift",
    "ReactionDrift",
    "SecondOrderDrift",
    "register_drift",
]
