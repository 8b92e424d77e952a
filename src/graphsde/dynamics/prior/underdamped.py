"""Underdamped Langevin prior, for states of positions and velocities."""

from __future__ import annotations

import torch
from torch import Tensor

from graphsde.data.sparse import SparseMatrix
from graphsde.dynamics.arguments import check_state, even_width, number
from graphsde.dynamics.field import BoundDrift, Prior
from graphsde.dynamics.prior.registry import register_prior


@register_prior
class UnderdampedPrior(Prior):
    r"""A damped oscillator in every entry, state (q, v): :math:`\dot q = v,\ \dot v = -\kappa q - \gamma v`.

    Paper: Kramers, "Brownian motion in a field of force and the diffusion model of chemical reactions", 1940.

    Its q̇ is that of the ``second-order`` drift to the bit, so that under the ``velocity`` diffusion the path KL between
    the two is finite and is that of the velocities.

    Args:
        width: d = 2 × the width of q, even.
        friction: γ ≥ 0.
        stiffness: κ ≥ 0.

    Example:
        >>> import torch
        >>> from graphsde.data.benchmarks import load
        >>> adjacency = load("digits").adjacency.operator
        >>> state = torch.ones(adjacency.shape[0], 1, 2)
        >>> UnderdampedPrior(2, friction=2.0).bind(adjacency, state)(0.0, state)[0, 0]
        tensor([ 1., -3.])
    """

    name = "underdamped"
    summary = "a damped oscillator in every entry, for second-order dynamics"
    paper = "Kramers, Brownian motion in a field of force and the diffusion model of chemical reactions"
    year = 1940

    def __init__(self, width: int, *, friction: float = 1.0, stiffness: float = 1.0) -> None:
        super().__init__()
        self.width = even_width(width)
        self.friction = number(friction, "friction", at_least=0.0)
        self.stiffness = number(stiffness, "stiffness", at_least=0.0)

    def bind(self, adjacency: SparseMatrix, initial: Tensor) -> BoundDrift:
        check_state(self.name, self.width, adjacency, initial)
        return _BoundOscillator(self.friction, self.stiffness)


class _BoundOscillator:
    tensors: tuple[Tensor, ...] = ()

    def __init__(self, friction: float, stiffness: float) -> None:
        self.friction, self.stiffness = friction, stiffness

    def __call__(self, t: float, h: Tensor) -> Tensor:
        position, velocity = h.chunk(2, dim=-1)
        return torch.cat([velocity, position * -self.stiffness - velocity * self.friction], dim=-1)
