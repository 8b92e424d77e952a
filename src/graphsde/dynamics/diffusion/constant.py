"""Constant diffusion."""

from __future__ import annotations

from graphsde.data.sparse import SparseMatrix
from graphsde.dynamics.arguments import number, whole
from graphsde.dynamics.diffusion.independent import BoundIndependentNoise
from graphsde.dynamics.diffusion.registry import register_diffusion
from graphsde.dynamics.diffusion.scaled import ScaledDiffusion
from graphsde.dynamics.field import BoundDiffusion


@register_diffusion
class ConstantDiffusion(ScaledDiffusion):
    """The same noise everywhere and at all times: g = σ · gain.

    Paper: Li et al., "Scalable gradients for stochastic differential equations", AISTATS 2020 (the latent SDE).

    Args:
        width: d of the state.
        sigma: σ ≥ 0; zero switches the noise off.

    Example:
        >>> import torch
        >>> from graphsde.data.benchmarks import load
        >>> noise = torch.ones(1797, 1, 2)
        >>> diffusion = ConstantDiffusion(2, sigma=0.5).bind(load("digits").adjacency.operator)
        >>> diffusion.apply(0.0, noise, noise)[0, 0]
        tensor([0.5000, 0.5000])
    """

    name = "constant"
    summary = "independent noise of one fixed size"
    paper = "Li et al., Scalable gradients for stochastic differential equations"
    year = 2020

    def __init__(self, width: int, *, sigma: float = 1.0) -> None:
        super().__init__()
        self.width = whole(width, "width", at_least=1)
        self.sigma = number(sigma, "sigma", at_least=0.0)

    @property
    def is_zero(self) -> bool:
        return self.sigma == 0.0 or super().is_zero

    def bind(self, adjacency: SparseMatrix) -> BoundDiffusion:
        return BoundIndependentNoise(self.name, self.sigma * float(self.gain))
