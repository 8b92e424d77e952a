"""Attention along edges: how much each node listens to each of those it hears from."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from graphsde.data.sparse import SparseMatrix
from graphsde.dynamics.arguments import whole
from graphsde.dynamics.drift.edge_space import EdgeSpace, edge_space
from graphsde.dynamics.layers import glorot
from graphsde.errors import BadUsage

LEAK = 0.2


def divide(width: int, heads: int, what: str) -> int:
    """Width of one head."""
    whole(heads, "heads", at_least=1)
    if width % heads:
        raise BadUsage(
            f"{what} {width} can't be shared by {heads} heads",
            code="E-SETTING",
            found=heads,
            expected=f"a divisor of {width}",
        )
    return width // heads


def additive_attention(space: EdgeSpace, senders: Tensor, receivers: Tensor) -> Tensor:
    """softmax_j LeakyReLU(s_j + r_i) over the nodes j that i hears from.  # [N·M], [N·M] -> [E·M]"""
    logits = senders.index_select(0, space.col) + receivers.index_select(0, space.row)
    return space.softmax(functional.leaky_relu(logits, LEAK))


class ScaledDotAttention(nn.Module):
    r"""Mean over heads of :math:`\mathrm{softmax}_j(q_i \cdot k_j / \sqrt{d_k})`, a row-stochastic matrix per path.

    Queries start at zero: attention starts uniform, and learning moves it. With ``conserving`` set, the softmax is over
    the receivers i of a sender j instead: columns sum to one, and a flow along it keeps the sum over nodes. ``sharing``
    may be ``squareplus`` instead of ``softmax``: see :meth:`EdgeSpace.squareplus`.

    Args:
        width: of the state.
        inner: width of all heads' keys together.
        heads: a divisor of ``inner``.
        generator: for the weights.
    """

    conserving: bool = False
    sharing: str = "softmax"

    def __init__(self, width: int, inner: int, heads: int, generator: torch.Generator) -> None:
        super().__init__()
        self.heads = heads
        self.head_width = divide(whole(inner, "attention_width", at_least=1), heads, "attention_width")
        self.query = nn.Parameter(torch.zeros(width, inner))
        self.key = nn.Parameter(glorot(width, inner, generator))

    def spaces(self, structure: SparseMatrix, paths: int) -> tuple[EdgeSpace, EdgeSpace]:
        """Edges per path and head, and per path."""
        return edge_space(structure, paths * self.heads), edge_space(structure, paths)

    def compare(self, space: EdgeSpace, queries: Tensor, keys: Tensor) -> Tensor:
        """What the softmax is taken of.  # [N·M, c], [N·M, c] -> [E·M]"""
        return space.dot(queries, keys) / math.sqrt(self.head_width)

    def forward(self, space: EdgeSpace, h: Tensor) -> Tensor:
        """``space`` has one copy per path and head.  # [N, S, d] -> [E·S]"""
        flat = h.reshape(-1, h.shape[2])
        queries = (flat @ self.query).view(space.size, self.head_width)
        keys = (flat @ self.key).view(space.size, self.head_width)
        share = space.squareplus if self.sharing == "squareplus" else space.softmax
        weights = share(self.compare(space, queries, keys), over_receivers=self.conserving)
        return space.mean_of_copies(weights, self.heads)


class CosineAttention(ScaledDotAttention):
    r"""As :class:`ScaledDotAttention`, of :math:`\cos(q_i, k_j)`; queries start as the keys do.

    At zero a cosine has no derivative: norms are taken as :math:`\sqrt{|q|^2 + 10^{-6}}`.
    """

    def __init__(self, width: int, inner: int, heads: int, generator: torch.Generator) -> None:
        super().__init__(width, inner, heads, generator)
        self.query = nn.Parameter(self.key.detach().clone())

    def compare(self, space: EdgeSpace, queries: Tensor, keys: Tensor) -> Tensor:
        return space.dot(_unit(queries), _unit(keys))


class ExpKernelAttention(ScaledDotAttention):
    r"""As :class:`ScaledDotAttention`, of :math:`v^2 \exp(-|q_i - k_j|^2 / 2 \ell^2)`; queries start as the keys do, v
    and ℓ are learned from 1 on."""

    def __init__(self, width: int, inner: int, heads: int, generator: torch.Generator) -> None:
        super().__init__(width, inner, heads, generator)
        self.query = nn.Parameter(self.key.detach().clone())
        self.amplitude = nn.Parameter(torch.ones(()))
        self.length = nn.Parameter(torch.ones(()))

    def compare(self, space: EdgeSpace, queries: Tensor, keys: Tensor) -> Tensor:
        ends = queries.square().sum(1).index_select(0, space.row) + keys.square().sum(1).index_select(0, space.col)
        # rounding may leave the distance of equal ends a little below zero
        distance = (ends - 2 * space.dot(queries, keys)).clamp_min(0.0)
        return self.amplitude.square() * torch.exp(distance / (-2 * self.length.square()))


KERNELS: dict[str, type[ScaledDotAttention]] = {
    "scaled-dot": ScaledDotAttention,
    "cosine": CosineAttention,
    "exp-kernel": ExpKernelAttention,
}


SHARING = ("softmax", "squareplus")


def _unit(x: Tensor) -> Tensor:
    return x * torch.rsqrt(x.square().sum(1, keepdim=True) + 1e-6)
