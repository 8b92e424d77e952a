"""Diffusions: g in dH = f(t, H) dt + g dW."""

from graphsde.sde.diffusion.independent import ConstantDiffusion as ConstantDiffusion
from graphsde.sde.diffusion.independent import LearnedDiffusion as LearnedDiffusion
from graphsde.sde.diffusion.independent import PerDimensionDiffusion as PerDimensionDiffusion
from graphsde.sde.diffusion.independent import ScaledDiffusion as ScaledDiffusion
from graphsde.sde.diffusion.structured import QWienerDiffusion as QWienerDiffusion
from graphsde.sde.diffusion.structured import SmoothedDiffusion as SmoothedDiffusion
from graphsde.sde.diffusion.structured import StateDependentDiffusion as StateDependentDiffusion
from graphsde.sde.diffusion.structured import VelocityDiffusion as VelocityDiffusion
from graphsde.sde.field import DIFFUSIONS as DIFFUSIONS
