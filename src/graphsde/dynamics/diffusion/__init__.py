"""Diffusions, one file each: g in dH = f(t, H) dt + g dW."""

from graphsde.dynamics.diffusion.constant import ConstantDiffusion
from graphsde.dynamics.diffusion.learned import LearnedDiffusion
from graphsde.dynamics.diffusion.per_dimension import PerDimensionDiffusion
from graphsde.dynamics.diffusion.q_wiener import QWienerDiffusion
from graphsde.dynamics.diffusion.registry import DIFFUSIONS, register_diffusion
from graphsde.dynamics.diffusion.scaled import ScaledDiffusion
from graphsde.dynamics.diffusion.smoothed import SmoothedDiffusion
from graphsde.dynamics.diffusion.state_dependent import StateDependentDiffusion
from graphsde.dynamics.diffusion.velocity import VelocityDiffusion

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
