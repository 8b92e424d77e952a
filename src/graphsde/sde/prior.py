"""Priors: the drift of the prior process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from graphsde.base.arguments import number, whole
from graphsde.graph.sparse import SparseMatrix
from graphsde.nn.operators import scaled_plus_identity
from graphsde.sde.field import PRIORS, BoundDrift, Prior, check_state, even_width, register_prior

__all__ = ["PRIORS", "ConstantPrior", "GraphOUPrior", "OrnsteinUhlenbeckPrior", "UnderdampedPrior"]


@dataclass
class _Fixed:
    """A bound prior without parameters."""

    value: Callable[[float, Tensor], Tensor]
    tensors: tuple[Tensor, ...] = ()

    def __call__(self, t: float, h: Tensor) -> Tensor:
        return self.value(t, h)


@register_prior
class ConstantPrior(Prior):
    """Every entry moves at the same speed: p(H) = c; with c = 0 the prior is Brownian motion.

    Paper: Bergna et al., "Uncertainty modeling in graph neural networks via stochastic differential equations", 2024.

    Args:
        width: d of the state.
        drift: c.

    Example:
        >>> import torch
        >>> from graphsde.datasets.benchmarks import load
        >>> adjacency = load("digits").adjacency.operator
        >>> state = torch.ones(adjacency.shape[0], 1, 2)
        >>> ConstantPrior(2, drift=-5.0).bind(adjacency, state)(0.0, state)[0, 0]
        tensor([-5., -5.])
    """

    name = "constant"
    summary = "every entry moves at one constant speed"
    paper = "Bergna et al., Uncertainty modeling in graph neural networks via stochastic differential equations"
    year = 2024

    def __init__(self, width: int, *, drift: float = 0.0) -> None:
        super().__init__()
        self.width = whole(width, "width", at_least=1)
        self.drift = number(drift, "drift")

    def bind(self, adjacency: SparseMatrix, initial: Tensor) -> BoundDrift:
        check_state(self.name, self.width, adjacency, initial)
        return _Fixed(lambda t, h: h.new_full((), self.drift).expand(h.shape))


@register_prior
class GraphOUPrior(Prior):
    r"""Graph Ornstein–Uhlenbeck: nodes revert to a share of their neighbours' mean,
    :math:`p(H) = -(I - (1 - a)\hat A) H`.

    Paper: Chamberlain et al., "GRAND: graph neural diffusion", ICML 2021 (the flow; here as the drift of a graph
    Ornstein–Uhlenbeck process, stable for a > 0, in the sense of Courgeau and Veraart, "Likelihood theory for the graph
    Ornstein-Uhlenbeck process", 2022).

    The ``graph-heat`` drift with the same ``teleport`` differs from it only by the source, so that the path KL is
    ½ T a² ‖H(0)‖² / g².

    Args:
        width: d of the state.
        teleport: a in [0, 1].

    Example:
        >>> import torch
        >>> from graphsde.datasets.benchmarks import load
        >>> adjacency = load("digits").adjacency.operator
        >>> state = torch.ones(adjacency.shape[0], 1, 2)
        >>> GraphOUPrior(2, teleport=1.0).bind(adjacency, state)(0.0, state)[0, 0]
        tensor([-1., -1.])
    """

    name = "graph-ou"
    summary = "nodes revert to a share of their neighbours' mean"
    paper, year = "Chamberlain et al., GRAND: graph neural diffusion", 2021
    relative = True

    def __init__(self, width: int, *, teleport: float = 0.1) -> None:
        super().__init__()
        self.width = whole(width, "width", at_least=1)
        self.teleport = number(teleport, "teleport", at_least=0.0, at_most=1.0)

    def bind(self, adjacency: SparseMatrix, initial: Tensor) -> BoundDrift:
        check_state(self.name, self.width, adjacency, initial)
        matrix = scaled_plus_identity(adjacency.to(initial.dtype), 1.0 - self.teleport, -1.0)
        return _Fixed(lambda t, h: (matrix @ h.reshape(h.shape[0], -1)).view(h.shape))


@register_prior
class OrnsteinUhlenbeckPrior(Prior):
    r"""Every entry reverts to μ on its own: :math:`p(H) = \theta (\mu - H)`.

    Paper: Uhlenbeck and Ornstein, "On the theory of the Brownian motion", 1930.

    Args:
        width: d of the state.
        theta: θ ≥ 0, the speed of reversion; the variance converges to σ²/(2θ).
        mu: μ.

    Example:
        >>> import torch
        >>> from graphsde.datasets.benchmarks import load
        >>> adjacency = load("digits").adjacency.operator
        >>> state = torch.ones(adjacency.shape[0], 1, 2)
        >>> OrnsteinUhlenbeckPrior(2, theta=3.0).bind(adjacency, state)(0.0, state)[0, 0]
        tensor([-3., -3.])
    """

    name = "ou"
    summary = "every entry reverts to a mean"
    paper, year = "Uhlenbeck and Ornstein, On the theory of the Brownian motion", 1930

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
        >>> from graphsde.datasets.benchmarks import load
        >>> adjacency = load("digits").adjacency.operator
        >>> state = torch.ones(adjacency.shape[0], 1, 2)
        >>> UnderdampedPrior(2, friction=2.0).bind(adjacency, state)(0.0, state)[0, 0]
        tensor([ 1., -3.])
    """

    name = "underdamped"
    summary = "a damped oscillator in every entry, for second-order dynamics"
    paper, year = "Kramers, Brownian motion in a field of force and the diffusion model of chemical reactions", 1940

    def __init__(self, width: int, *, friction: float = 1.0, stiffness: float = 1.0) -> None:
        super().__init__()
        self.width = even_width(width)
        self.friction = number(friction, "friction", at_least=0.0)
        self.stiffness = number(stiffness, "stiffness", at_least=0.0)

    def bind(self, adjacency: SparseMatrix, initial: Tensor) -> BoundDrift:
        check_state(self.name, self.width, adjacency, initial)
        return _Fixed(self._pull)

    def _pull(self, t: float, h: Tensor) -> Tensor:
        position, velocity = h.chunk(2, dim=-1)
        return torch.cat([velocity, position * -self.stiffness - velocity * self.friction], dim=-1)
