"""Attention along edges, and products whose weights live on edges."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from graphsde.base.arguments import whole
from graphsde.base.errors import BadUsage
from graphsde.graph.sparse import SparseMatrix
from graphsde.nn.layers import glorot
from graphsde.nn.operators import Kept, rows_of


class EdgeSpace:
    """The edges of a graph, once for each of M copies (paths × heads) of its nodes.

    The copies are the sparsity of A ⊗ I_M: row (i, m) holds (j, m) for every entry (i, j) of A. A state ``[N, M, c]``
    is seen as ``[N·M, c]`` without a copy and edge weights are one flat vector, so that all copies are one sparse
    product, and nothing of size E·M·c is ever made.

    Args:
        structure: whose entries are the edges; row = receiving node. Its values are ignored.
        copies: M.
    """

    def __init__(self, structure: SparseMatrix, copies: int) -> None:
        nodes = structure.shape[0]
        self.copies, self.size = copies, nodes * copies
        self.crow, self.row, self.col, _ = _repeat(structure.crow, structure.col, copies)
        turned_crow, turned_col, order = structure._transposed_structure()
        self.turned_crow, receiver_of_column, self.turned_col, entry = _repeat(turned_crow, turned_col, copies)
        # position of the entry of column (j, m), row (i, m) among the untransposed ones
        original, copy = order[entry], receiver_of_column % copies
        receiver = rows_of(structure)[original]
        self._targets: dict[int, Tensor] = {}
        self._patterns: dict[torch.dtype, Tensor] = {}
        self.order = self.crow[receiver * copies + copy] + original - structure.crow[receiver]

    @property
    def shape(self) -> tuple[int, int]:
        return self.size, self.size

    def softmax(self, logits: Tensor, *, over_receivers: bool = False) -> Tensor:
        """Softmax over the incoming edges of each receiving node, or over the outgoing edges of each sending
        node.  # [E·M] -> [E·M]"""
        end = self.col if over_receivers else self.row
        # the highest logit only guards the range of exp: it cancels
        lowest = logits.new_full((self.size,), float("-inf"))
        highest = lowest.scatter_reduce_(0, end, logits.detach(), "amax")
        return self._shares(torch.exp(logits - highest.index_select(0, end)), end)

    def squareplus(self, logits: Tensor, *, over_receivers: bool = False) -> Tensor:
        """Like :meth:`softmax`, with (x + √(x² + 4))/2 instead of exp(x): shares differ less: it grows no faster than
        x.  # [E·M] -> [E·M]"""
        end = self.col if over_receivers else self.row
        root = torch.sqrt(logits.square() + 4.0)
        # far below zero the sum would cancel; its twin does not, by (√ + x)(√ - x) = 4
        weight = torch.where(logits < 0, 2.0 / (root - logits.clamp(max=0.0)), (root + logits) / 2)
        return self._shares(weight, end)

    def _shares(self, weight: Tensor, end: Tensor) -> Tensor:
        total = weight.new_zeros(self.size).scatter_add(0, end, weight)
        return weight / total.index_select(0, end)

    def product(self, weights: Tensor, state: Tensor) -> Tensor:
        """Every node's weighted sum over its incoming edges.  # [E·M], [N·M, c] -> [N·M, c]"""
        return _Product.apply(weights, state, self, False)

    def dot(self, receivers: Tensor, senders: Tensor) -> Tensor:
        """Inner product of the two ends of every edge.  # [N·M, c], [N·M, c] -> [E·M]"""
        return _Dot.apply(receivers, senders, self)

    def mean_of_copies(self, weights: Tensor, group: int) -> Tensor:
        """Mean over ``group`` neighbouring copies (the heads of a path).  # [E·M] -> [E·M/group]"""
        if group == 1:
            return weights
        if group not in self._targets:
            # a group's copies of a node are consecutive, so it starts at 1/group of its first copy's place
            begin = self.crow[:-1:group] // group
            within = torch.arange(weights.shape[0], device=weights.device) - self.crow[self.row]
            self._targets[group] = begin[self.row // group] + within
        return weights.new_zeros(weights.shape[0] // group).index_add(0, self._targets[group], weights) / group

    def _pattern(self, dtype: torch.dtype) -> Tensor:
        if dtype not in self._patterns:
            self._patterns[dtype] = self._matrix(
                torch.zeros(self.col.shape[0], dtype=dtype, device=self.col.device)
            ).csr()
        return self._patterns[dtype]

    def _matrix(self, weights: Tensor) -> SparseMatrix:
        return SparseMatrix(self.crow, self.col, weights.detach(), self.shape)

    def _turned(self, weights: Tensor) -> SparseMatrix:
        turned = weights.detach().index_select(0, self.order)
        return SparseMatrix(self.turned_crow, self.turned_col, turned, self.shape)


_KEPT: Kept[EdgeSpace] = Kept(4)


def edge_space(structure: SparseMatrix, copies: int) -> EdgeSpace:
    """The edge space of a graph, cached for the next solve with as many copies."""
    return _KEPT.once(structure, copies, lambda: EdgeSpace(structure, copies))


def _repeat(crow: Tensor, col: Tensor, copies: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """CSR structure of A ⊗ I: row offsets, rows, columns, and the entry of A that each entry repeats."""
    lengths = torch.diff(crow).repeat_interleave(copies)
    wide = torch.cat([lengths.new_zeros(1), lengths.cumsum(0)])
    rows = torch.repeat_interleave(torch.arange(lengths.shape[0], device=crow.device), lengths)
    entry = torch.arange(rows.shape[0], device=crow.device) - wide[rows] + crow[rows // copies]
    return wide, rows, col[entry] * copies + rows % copies, entry


# Three bilinear maps whose derivatives are each other, so that the algebra is closed at every order:
# y_i = Σ_j w_ij x_j,   x_j = Σ_i w_ij y_i,   w_ij = <y_i, x_j>


class _Product(torch.autograd.Function):
    """The first map, or the second if ``turned``."""

    @staticmethod
    def forward(ctx: Any, weights: Tensor, state: Tensor, space: EdgeSpace, turned: bool) -> Tensor:
        ctx.save_for_backward(weights, state)
        ctx.space, ctx.turned = space, turned
        return (space._turned if turned else space._matrix)(weights).times(state)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        weights, state = ctx.saved_tensors
        grad = grads[0].contiguous()
        ends = (state, grad) if ctx.turned else (grad, state)
        of_weights = _Dot.apply(*ends, ctx.space) if ctx.needs_input_grad[0] else None
        of_state = _Product.apply(weights, grad, ctx.space, not ctx.turned) if ctx.needs_input_grad[1] else None
        return of_weights, of_state, None, None


class _Dot(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, receivers: Tensor, senders: Tensor, space: EdgeSpace) -> Tensor:
        ctx.save_for_backward(receivers, senders)
        ctx.space = space
        if receivers.device.type not in ("cpu", "cuda"):  # the others have no such kernel
            return (receivers.index_select(0, space.row) * senders.index_select(0, space.col)).sum(1)
        pattern = space._pattern(receivers.dtype)
        return torch.sparse.sampled_addmm(pattern, receivers, senders.t(), beta=0.0).values()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        receivers, senders = ctx.saved_tensors
        of_receivers = _Product.apply(grads[0], senders, ctx.space, False) if ctx.needs_input_grad[0] else None
        of_senders = _Product.apply(grads[0], receivers, ctx.space, True) if ctx.needs_input_grad[1] else None
        return of_receivers, of_senders, None


LEAK = 0.2


def divide(width: int, heads: int, what: str) -> int:
    """Width of one head."""
    whole(heads, "heads", at_least=1)
    if width % heads:
        raise BadUsage(
            f"{what} {width} can't be divided among {heads} heads",
            code="E-SETTING",
            found=heads,
            expected=f"a divisor of {width}",
        )
    return width // heads


def additive_attention(space: EdgeSpace, senders: Tensor, receivers: Tensor) -> Tensor:
    """softmax_j LeakyReLU(s_j + r_i) over the incoming neighbours j of i.  # [N·M], [N·M] -> [E·M]"""
    logits = senders.index_select(0, space.col) + receivers.index_select(0, space.row)
    return space.softmax(functional.leaky_relu(logits, LEAK))


class ScaledDotAttention(nn.Module):
    r"""Mean over heads of :math:`\mathrm{softmax}_j(q_i \cdot k_j / \sqrt{d_k})`, a row-stochastic matrix per path.

    Queries start at zero: attention starts uniform, and learning moves it. With ``conserving`` set, the softmax is over
    the receivers i of a sender j instead: columns sum to one, and a flow along it keeps the sum over nodes. ``sharing``
    may be ``squareplus`` instead of ``softmax``: see :meth:`EdgeSpace.squareplus`. ``inner``, a multiple of ``heads``,
    is the width of all heads' keys together.
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
    r"""Like :class:`ScaledDotAttention`, with :math:`\cos(q_i, k_j)`; queries start as the keys do.

    At zero a cosine has no derivative: norms are taken as :math:`\sqrt{|q|^2 + 10^{-6}}`.
    """

    def __init__(self, width: int, inner: int, heads: int, generator: torch.Generator) -> None:
        super().__init__(width, inner, heads, generator)
        self.query = nn.Parameter(self.key.detach().clone())

    def compare(self, space: EdgeSpace, queries: Tensor, keys: Tensor) -> Tensor:
        return space.dot(_unit(queries), _unit(keys))


class ExpKernelAttention(ScaledDotAttention):
    r""":class:`ScaledDotAttention` with :math:`v^2 \exp(-|q_i - k_j|^2 / 2 \ell^2)`; queries start as the keys do, v
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
