"""Diffusions, one file each: g in dH = f(t, H) dt + g dW."""

from graphsde.sde.diffusion.independent import (
    ConstantDiffusion,
    LearnedDiffusion,
    PerDimensionDiffusion,
    ScaledDiffusion,
    VelocityDiffusion,
)
from graphsde.sde.diffusion.q_wiener import QWienerDiffusion
from graphsde.sde.diffusion.smoothed import SmoothedDiffusion
from graphsde.sde.diffusion.state_dependent import StateDependentDiffusion
from graphsde.sde.field import DIFFUSIONS, register_diffusion

__all__ = [
    "DIFFUSIONS",
    "ConstantDiffusion",
    "LearnedDiffusion",
    "PerDimensionDiffusion",
    "QWienerDiffusion",
    "ScaledDiffusion",
    "SmoothedDiffusion",
    "StateDependentDiffusion",
    "VelocityDiffusion",
    "register_diffusion",
]
