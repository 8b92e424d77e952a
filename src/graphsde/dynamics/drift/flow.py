"""The matrix that a diffusion follows: the graph's operator, a random walk, or attention."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from graphsde.data.sparse import SparseMatrix
from graphsde.dynamics.arguments import choice, number
from graphsde.dynamics.drift.attention import KERNELS, SHARING, ScaledDotAttention
from graphsde.dynamics.drift.edge_space import EdgeSpace
from graphsde.dynamics.lipschitz import operator_norm_bound, stochastic_norm_bound
from graphsde.dynamics.operators import random_walk

LinearMap = Callable[[Tensor], Tensor]
"""X ↦ A X.  # [N, S, d] -> [N, S, d]"""
FlowAt = Callable[[Tensor], LinearMap]
"""The linear map that A is at a state."""

ATTENTION = ("none", "linear", "nonlinear")
OPERATORS = ("symmetric", "random-walk")


class Flow(nn.Module):
    """A in (A − I)H.

    Args:
        width: of the state.
        attention: ``none``: the operator itself; ``linear``: attention, evaluated once from the initial state;
            ``nonlinear``: evaluated at every call.
        operator: without attention, ``symmetric`` takes the operator as it is and ``random-walk`` its row-stochastic
            twin.
        kernel: of the attention: ``scaled-dot``, ``cosine`` or ``exp-kernel``.
        conserving: normalise attention over receivers, so that its columns sum to one instead of its rows.
        sharing: how attention is normalised: ``softmax`` or ``squareplus``.
        heads, attention_width: of the attention; the width defaults to that of the state.
        generator: for the attention's weights.
    """

    def __init__(
        self,
        width: int,
        *,
        attention: str = "none",
        operator: str = "symmetric",
        kernel: str = "scaled-dot",
        conserving: bool = False,
        sharing: str = "softmax",
        heads: int = 1,
        attention_width: int | None = None,
        generator: torch.Generator,
    ) -> None:
        super().__init__()
        self.kind = choice(attention, "attention", ATTENTION)
        self.operator = choice(operator, "operator", OPERATORS)
        make = KERNELS[choice(kernel, "kernel", list(KERNELS))]
        self.attention: ScaledDotAttention | None = None
        if attention != "none":
            self.attention = make(width, attention_width or width, heads, generator)
            self.attention.conserving = conserving
            self.attention.sharing = choice(sharing, "sharing", SHARING)

    def matrix(self, adjacency: SparseMatrix) -> SparseMatrix:
        """A, where it does not depend on the state."""
        return random_walk(adjacency) if self.operator == "random-walk" else adjacency

    def bind(self, adjacency: SparseMatrix, initial: Tensor) -> tuple[FlowAt, tuple[Tensor, ...]]:
        """The flow at a state, and the tensors it uses besides the state."""
        attention = self.attention
        if attention is None:
            matrix = self.matrix(adjacency)

            def constant(x: Tensor) -> Tensor:
                return (matrix @ x.reshape(x.shape[0], -1)).view(x.shape)

            return (lambda h: constant), ()

        per_head, per_path = attention.spaces(adjacency, initial.shape[1])

        def average(weights: Tensor, x: Tensor) -> Tensor:
            return per_path.product(weights, x.reshape(per_path.size, x.shape[2])).view(x.shape)

        if self.kind == "nonlinear":
            return (lambda h: partial(average, attention(per_head, h))), tuple(attention.parameters())
        weights, _ = self.weights(adjacency, initial)
        return (lambda h: partial(average, weights)), (weights,)

    def weights(self, adjacency: SparseMatrix, h: Tensor) -> tuple[Tensor, EdgeSpace]:
        """The attention at a state, and the edges it belongs to.  # [N, S, d] -> [E·S]"""
        assert self.attention is not None
        per_head, per_path = self.attention.spaces(adjacency, h.shape[1])
        return self.attention(per_head, h), per_path

    def norm_bound(self, adjacency: SparseMatrix) -> float:
        if self.kind == "none":
            return operator_norm_bound(self.matrix(adjacency))
        if self.kind == "nonlinear" or self.attention is None:
            return math.inf
        return stochastic_norm_bound(adjacency.transposed() if self.attention.conserving else adjacency)


class Rate(nn.Module):
    """α: a fixed number, or the sigmoid of a learned one."""

    def __init__(self, value: float, learned: bool) -> None:
        super().__init__()
        self.fixed = number(value, "rate", above=0.0, **({"below": 1.0} if learned else {}))
        self.raw: nn.Parameter | None = None
        if learned:
            self.raw = nn.Parameter(torch.tensor(math.log(value / (1.0 - value))))

    def value(self) -> Tensor | float:
        return self.fixed if self.raw is None else torch.sigmoid(self.raw)

    def number(self) -> float:
        return self.fixed if self.raw is None else float(torch.sigmoid(self.raw.detach()))
