"""Ornstein–Uhlenbeck prior."""

from __future__ import annotations

import torch
from torch import Tensor

from graphsde.data.sparse import SparseMatrix
from graphsde.dynamics.arguments import check_state, number, whole
from graphsde.dynamics.field import BoundDrift, Prior
from graphsde.dynamics.prior.registry import register_prior


@register_prior
class OrnsteinUhlenbeckPrior(Prior):
    r"""Every entry returns to μ on its own: :math:`p(H) = \theta (\mu - H)`.

    Paper: Uhlenbeck and Ornstein, "On the theory of the Brownian motion", 1930.

    Args:
        width: d of the state.
        theta: θ ≥ 0, the speed of return; the variance settles at σ²/(2θ).
        mu: μ.

    Example:
        >>> import torch
        >>> from graphsde.data.benchmarks import load
        >>> adjacency = load("digits").adjacency.operator
        >>> state = torch.ones(adjacency.shape[0], 1, 2)
        >>> OrnsteinUhlenbeckPrior(2, theta=3.0).bind(adjacency, state)(0.0, state)[0, 0]
        tensor([-3., -3.])
    """

    name = "ou"
    summary = "every entry returns to a mean"
    paper = "Uhlenbeck and Ornstein, On the theory of the Brownian motion"
    year = 1930

    def __init__(self, width: int, *, theta: float = 1.0, mu: float = 0.0) -> None:
        super().__init__()
        self.width = whole(width, "width", at_least=1)
        self.theta = number(theta, "theta", at_least=0.0)
        self.mu = number(mu, "mu")

    def bind(self, adjacency: SparseMatrix, initial: Tensor) -> BoundDrift:
        check_state(self.name, self.width, adjacency, initial)
        return _BoundReturn(self.theta, self.mu)


class _BoundReturn:
    tensors: tuple[Tensor, ...] = ()

    def __init__(self, theta: float, mu: float) -> None:
        self.theta, self.mu = theta, mu
        self.gap_slope = theta

    def __call__(self, t: float, h: Tensor) -> Tensor:
        back = h * -self.theta
        return back.add_(self.theta * self.mu) if self.mu else back

    def gap(self, t: float, h: Tensor, f: Tensor, out: Tensor | None = None) -> Tensor:
        """f − p(t, h) in one pass; its derivative in h is the number ``gap_slope``.  # [N, S, d]"""
        away = torch.add(f, h, alpha=self.theta, out=out)
        return away.sub_(self.theta * self.mu) if self.mu else away
