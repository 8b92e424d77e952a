"""Graph-correlated noise by one smoothing step."""

from __future__ import annotations

import torch
from torch import Tensor

from graphsde.graph.sparse import SparseMatrix
from graphsde.nn.operators import smoothing_scale
from graphsde.sde.diffusion.independent import FixedDiffusion
from graphsde.sde.field import BoundDiffusion, NodeNoise, refuse_infinite_kl, register_diffusion


@register_diffusion
class SmoothedDiffusion(FixedDiffusion):
    r"""Neighbours share noise: :math:`g B\,dW`, B = Â/ρ, so that B dW has variance one on average over nodes
    (ρ² = mean over rows of the sum of squares of Â's row).

    Paper: Lin et al., "Graph neural stochastic diffusion for estimating uncertainty in node classification", ICML 2024
    (a Q-Wiener process; here with Q = BBᵀ).

    Â may be singular, so a difference of drifts has no unique u with g B u = difference, and ``whiten`` refuses. A
    drift that acts through the noise's own channel needs none: the bound diffusion's ``apply_control(u)`` = g B u has
    the path KL ½∫‖u‖². The ``graph-heat`` drift with ``source_operator="smoothing"`` is such a one, with u = a H(0)/g,
    against the prior ``graph-ou``: KL = ½ T a² ‖H(0)‖²/g².

    Args:
        width: d of the state.
        sigma: σ ≥ 0; g = σ · gain.

    Example:
        >>> import torch
        >>> from graphsde.datasets.benchmarks import load
        >>> noise = torch.ones(1797, 1, 2)
        >>> bound = SmoothedDiffusion(2, sigma=0.5).bind(load("digits").adjacency.operator)
        >>> bound.apply(0.0, noise, noise).shape
        torch.Size([1797, 1, 2])
    """

    name = "smoothed"
    summary = "noise that neighbours share: white noise after one step of averaging"
    paper = "Lin et al., Graph neural stochastic diffusion for estimating uncertainty in node classification"
    year = 2024
    channel = "smoothing"
    full_rank = False

    def bind(self, adjacency: SparseMatrix) -> BoundDiffusion:
        return BoundSmoothedNoise(adjacency, self.amount)


class BoundSmoothedNoise(NodeNoise):
    """g B on one graph; ``g`` is there for a model's closed-form KL."""

    tensors: tuple[Tensor, ...] = ()
    autonomous = True

    def __init__(self, adjacency: SparseMatrix, g: float) -> None:
        self.adjacency, self.g, self.is_zero = adjacency, g, g == 0.0
        self._amount = g * smoothing_scale(adjacency)

    def apply(self, t: float, h: Tensor, noise: Tensor) -> Tensor:
        return self.apply_control(noise)

    def apply_control(self, u: Tensor) -> Tensor:
        """g B u: the drift that a control u causes through the channel of the noise.  # [N, S, d] -> [N, S, d]"""
        if self.is_zero:
            return torch.zeros_like(u)
        smooth = self.adjacency.to(u.dtype) @ u.reshape(u.shape[0], -1)
        return smooth.mul_(self._amount).view(u.shape)

    def whiten(self, t: float, h: Tensor, difference: Tensor) -> Tensor:
        raise refuse_infinite_kl(SmoothedDiffusion.name)
