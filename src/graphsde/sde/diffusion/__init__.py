"""Diffusions, one file each: g in dH = f(t, H) dt + g dW."""

from graphsde.sde.diffusion.independent import (
    ConstantDiffusion,
    LearnedDiffusion,
    PerDimensionDiffusion,
    ScaledDiffusion,
)
from graphsde.sde.diffusion.structured import (
    QWienerDiffusion,
    SmoothedDiffusion,
    StateDependentDiffusion,
    VelocityDiffusion,
)
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
