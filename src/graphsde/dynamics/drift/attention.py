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

    Queries start at zero: attention starts uniform, and learning moves it.

    Args:
        width: of the state.
        inner: width of all heads' keys together.
        heads: a divisor of ``inner``.
        generator: for the weights.
    """

    def __init__(self, width: int, inner: int, heads: int, generator: torch.Generator) -> None:
        super().__init__()
        self.heads = heads
        self.head_width = divide(whole(inner, "attention_width", at_least=1), heads, "attention_width")
        self.query = nn.Parameter(torch.zeros(width, inner))
        self.key = nn.Parameter(glorot(width, inner, generator))

    def spaces(self, structure: SparseMatrix, paths: int) -> tuple[EdgeSpace, EdgeSpace]:
        """Edges per path and head, and per path."""
        return edge_space(structure, paths * self.heads), edge_space(structure, paths)

    def forward(self, space: EdgeSpace, h: Tensor) -> Tensor:
        """``space`` has one copy per path and head.  # [N, S, d] -> [E·S]"""
        flat = h.reshape(-1, h.shape[2])
        queries = (flat @ self.query).view(space.size, self.head_width)
        keys = (flat @ self.key).view(space.size, self.head_width)
        weights = space.softmax(space.dot(queries, keys) / math.sqrt(self.head_width))
        return space.mean_of_copies(weights, self.heads)
