"""Diffusion with its own size in every dimension."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from graphsde.data.sparse import SparseMatrix
from graphsde.dynamics.arguments import number, whole
from graphsde.dynamics.diffusion.independent import BoundIndependentNoise
from graphsde.dynamics.diffusion.registry import register_diffusion
from graphsde.dynamics.diffusion.scaled import ScaledDiffusion
from graphsde.dynamics.field import BoundDiffusion
from graphsde.errors import BadUsage


@register_diffusion
class PerDimensionDiffusion(ScaledDiffusion):
    """Independent noise of its own size in every dimension: g = diag(σ) · gain.

    Paper: Li et al., "Scalable gradients for stochastic differential equations", AISTATS 2020.

    Dimensions with σ = 0 are free of noise; a path KL is then finite only if the two drifts agree there to the bit.

    Args:
        width: d of the state.
        sigma: a number for all dimensions, or one for each; not negative.
        learn: σ is the softplus of a parameter that starts at ``sigma`` (then positive).

    Example:
        >>> import torch
        >>> from graphsde.data.benchmarks import load
        >>> noise = torch.ones(1797, 1, 2)
        >>> bound = PerDimensionDiffusion(2, sigma=[0.5, 2.0]).bind(load("digits").adjacency.operator)
        >>> bound.apply(0.0, noise, noise)[0, 0]
        tensor([0.5000, 2.0000])
    """

    name = "per-dimension"
    summary = "independent noise with its own size in every dimension, fixed or learned"
    paper = "Li et al., Scalable gradients for stochastic differential equations"
    year = 2020
    sigma: Tensor

    def __init__(self, width: int, *, sigma: float | Sequence[float] = 1.0, learn: bool = False) -> None:
        super().__init__()
        self.width = whole(width, "width", at_least=1)
        sizes = _sizes(sigma, width)
        self.raw: nn.Parameter | None = None
        if learn:
            # the inverse of softplus, written so that a large σ does not overflow
            starts = [s + math.log(-math.expm1(-s)) for s in (number(s, "sigma", above=0.0) for s in sizes)]
            self.raw = nn.Parameter(torch.tensor(starts))
        else:
            self.register_buffer("sigma", torch.tensor(sizes, dtype=torch.float64))

    @property
    def is_zero(self) -> bool:
        return super().is_zero or (self.raw is None and not bool(self.sigma.any()))

    def bind(self, adjacency: SparseMatrix) -> BoundDiffusion:
        gain = float(self.gain)
        if self.raw is not None:
            return BoundIndependentNoise(self.name, functional.softplus(self.raw) * gain)
        return BoundIndependentNoise(self.name, (self.sigma * gain).to(adjacency.values.dtype))


def _sizes(sigma: float | Sequence[float], width: int) -> list[float]:
    given: list[float] = list(sigma) if isinstance(sigma, Iterable) else [sigma] * width
    if len(given) != width:
        raise BadUsage(
            f"sigma has {len(given)} values for {width} dimensions",
            code="E-SETTING",
            found=given,
            expected=f"one number, or {width}",
        )
    return [number(value, "sigma", at_least=0.0) for value in given]
