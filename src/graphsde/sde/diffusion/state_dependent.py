"""Diffusion that depends on the state, entry by entry."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from graphsde.base.arguments import number
from graphsde.graph.sparse import SparseMatrix
from graphsde.sde.diffusion.independent import FixedDiffusion
from graphsde.sde.field import BoundDiffusion, ElementwiseDiffusion, NodeNoise, refuse_infinite_kl, register_diffusion


@register_diffusion
class StateDependentDiffusion(FixedDiffusion, ElementwiseDiffusion):
    r"""Noise between two bounds, learned from the state: :math:`g_k(h) = \sigma\,(1 + s \tanh(a_k h + b_k))` · gain.

    Paper: Li et al., "Scalable gradients for stochastic differential equations", AISTATS 2020 (diagonal noise).

    g stays within σ(1 ± s), which keeps it positive and the path KL finite; its slope in h is at most σ s |a_k|.

    Args:
        width: d of the state.
        sigma: σ ≥ 0.
        swing: s in (0, 1).
        steepness: a at the start; b starts at 0.

    Example:
        >>> import torch
        >>> from graphsde.datasets.benchmarks import load
        >>> state, noise = torch.zeros(1797, 1, 2), torch.ones(1797, 1, 2)
        >>> bound = StateDependentDiffusion(2, sigma=0.5).bind(load("digits").adjacency.operator)
        >>> bound.apply(0.0, state, noise)[0, 0].tolist()
        [0.5, 0.5]
    """

    name = "state-dependent"
    summary = "independent noise whose size is learned from the state"
    paper = "Li et al., Scalable gradients for stochastic differential equations"
    year = 2020

    def __init__(self, width: int, *, sigma: float = 1.0, swing: float = 0.5, steepness: float = 1.0) -> None:
        super().__init__(width, sigma=sigma)
        self.swing = number(swing, "swing", above=0.0, below=1.0)
        self.steepness = nn.Parameter(torch.full((width,), number(steepness, "steepness")))
        self.shift = nn.Parameter(torch.zeros(width))

    def bind(self, adjacency: SparseMatrix) -> BoundDiffusion:
        return _BoundStateDependent(self)

    def power(self, nodes: int, width: int) -> float:
        return nodes * width * (self.amount * (1.0 + self.swing)) ** 2

    def lipschitz(self) -> float:
        return self.amount * self.swing * float(self.steepness.detach().abs().max())

    def scale(self, t: float, h: Tensor) -> Tensor:
        return _BoundStateDependent(self).scale(t, h)

    def scale_slope(self, t: float, h: Tensor) -> Tensor:
        return _BoundStateDependent(self).scale_slope(t, h)


class _BoundStateDependent(NodeNoise):
    def __init__(self, diffusion: StateDependentDiffusion) -> None:
        self.middle = diffusion.amount
        self.swing, self.is_zero = diffusion.swing, self.middle == 0.0
        self.steepness, self.shift = diffusion.steepness, diffusion.shift
        self.tensors: tuple[Tensor, ...] = (self.steepness, self.shift)

    def _bend(self, h: Tensor) -> Tensor:
        return torch.tanh(h * self.steepness + self.shift)

    def scale(self, t: float, h: Tensor) -> Tensor:
        return self._bend(h) * (self.middle * self.swing) + self.middle

    def scale_slope(self, t: float, h: Tensor) -> Tensor:
        return (1.0 - self._bend(h).square()) * (self.steepness * (self.middle * self.swing))

    def apply(self, t: float, h: Tensor, noise: Tensor) -> Tensor:
        return self.scale(t, h) * noise

    def whiten(self, t: float, h: Tensor, difference: Tensor) -> Tensor:
        if self.is_zero:
            raise refuse_infinite_kl(StateDependentDiffusion.name)
        return difference / self.scale(t, h)
