"""How much noise a diffusion makes, in numbers that bounds need."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch.nn import functional

from graphsde.dynamics.diffusion import (
    ConstantDiffusion,
    LearnedDiffusion,
    PerDimensionDiffusion,
    QWienerDiffusion,
    SmoothedDiffusion,
    StateDependentDiffusion,
)
from graphsde.dynamics.field import Diffusion
from graphsde.errors import BadUsage


@dataclass(frozen=True)
class Noise:
    """``power``: q ≥ tr g gᵀ over all nodes and dimensions; ``l_g``: Lipschitz constant of g in H."""

    power: float
    l_g: float


def noise_of(diffusion: Diffusion, nodes: int, width: int) -> Noise:
    """The size of a diffusion on a graph with ``nodes`` nodes and a state ``width`` wide.

    Graph-correlated noise (``smoothed``, ``q-wiener``) is scaled to unit variance on average over nodes, so its trace
    is that of independent noise of the same g. For noise that depends on the state q is the largest it can be.

    Example:
        >>> noise_of(ConstantDiffusion(4, sigma=0.5), nodes=10, width=4)
        Noise(power=10.0, l_g=0.0)
    """
    if isinstance(diffusion, ConstantDiffusion | SmoothedDiffusion | QWienerDiffusion):
        return Noise(nodes * width * (diffusion.sigma * float(diffusion.gain)) ** 2, 0.0)
    if isinstance(diffusion, LearnedDiffusion):
        return Noise(nodes * width * (math.exp(float(diffusion.log_sigma.detach())) * float(diffusion.gain)) ** 2, 0.0)
    if isinstance(diffusion, PerDimensionDiffusion):
        sizes = diffusion.sigma if diffusion.raw is None else functional.softplus(diffusion.raw.detach())
        return Noise(nodes * float((sizes.double() * float(diffusion.gain)).square().sum()), 0.0)
    if isinstance(diffusion, StateDependentDiffusion):
        middle = diffusion.sigma * float(diffusion.gain)
        steepest = float(diffusion.steepness.detach().abs().max())
        largest = middle * (1.0 + diffusion.swing)
        return Noise(nodes * width * largest**2, middle * diffusion.swing * steepest)
    raise BadUsage(
        f"the size of the diffusion '{diffusion.name}' is not known",
        code="E-SETTING",
        found=diffusion.name,
        expected="one of the diffusions of: graphsde list diffusions",
    )
