"""Constant diffusion whose size is learned."""

from __future__ import annotations

import math

import torch
from torch import nn

from graphsde.data.sparse import SparseMatrix
from graphsde.dynamics.arguments import number, whole
from graphsde.dynamics.diffusion.independent import BoundIndependentNoise
from graphsde.dynamics.diffusion.registry import register_diffusion
from graphsde.dynamics.diffusion.scaled import ScaledDiffusion
from graphsde.dynamics.field import BoundDiffusion


@register_diffusion
class LearnedDiffusion(ScaledDiffusion):
    """The same noise everywhere, its size learned: g = e^s · gain, s a parameter.

    Paper: Li et al., "Scalable gradients for stochastic differential equations", AISTATS 2020.

    Without a path KL nothing keeps σ from shrinking to zero in training.

    Args:
        width: d of the state.
        sigma: σ > 0 at the start.

    Example:
        >>> import torch
        >>> from graphsde.data.benchmarks import load
        >>> noise = torch.ones(1797, 1, 2)
        >>> bound = LearnedDiffusion(2, sigma=0.5).bind(load("digits").adjacency.operator)
        >>> bound.apply(0.0, noise, noise).requires_grad
        True
    """

    name = "learned"
    summary = "independent noise of one learned size"
    paper = "Li et al., Scalable gradients for stochastic differential equations"
    year = 2020

    def __init__(self, width: int, *, sigma: float = 1.0) -> None:
        super().__init__()
        self.width = whole(width, "width", at_least=1)
        self.log_sigma = nn.Parameter(torch.tensor(math.log(number(sigma, "sigma", above=0.0))))

    def bind(self, adjacency: SparseMatrix) -> BoundDiffusion:
        return BoundIndependentNoise(self.name, self.log_sigma.exp() * float(self.gain))
