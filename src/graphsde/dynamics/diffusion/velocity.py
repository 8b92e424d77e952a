"""Noise on velocities alone, for states of positions and velocities."""

from __future__ import annotations

from graphsde.dynamics.arguments import even_width, number
from graphsde.dynamics.diffusion.per_dimension import PerDimensionDiffusion
from graphsde.dynamics.diffusion.registry import register_diffusion


@register_diffusion
class VelocityDiffusion(PerDimensionDiffusion):
    """State (q, v), halves of the width: no noise on q, σ · gain on v.

    Paper: Kramers, "Brownian motion in a field of force and the diffusion model of chemical reactions", 1940.

    The companion of the ``second-order`` drift. The path KL counts the velocities' drifts only, and is refused unless
    the positions' drifts agree to the bit, as those of ``second-order`` and the prior ``underdamped`` do.

    Args:
        width: d = 2 × the width of q, even.
        sigma: σ ≥ 0 of the velocities.

    Example:
        >>> import torch
        >>> from graphsde.data.benchmarks import load
        >>> noise = torch.ones(1797, 1, 2)
        >>> bound = VelocityDiffusion(2, sigma=0.5).bind(load("digits").adjacency.operator)
        >>> bound.apply(0.0, noise, noise)[0, 0]
        tensor([0.0000, 0.5000])
    """

    name = "velocity"
    summary = "noise on the velocities of second-order dynamics"
    paper = "Kramers, Brownian motion in a field of force and the diffusion model of chemical reactions"
    year = 1940

    def __init__(self, width: int, *, sigma: float = 1.0) -> None:
        half = even_width(width) // 2
        size = number(sigma, "sigma", at_least=0.0)
        super().__init__(width, sigma=[0.0] * half + [size] * half)
