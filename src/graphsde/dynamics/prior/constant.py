"""Constant prior drift."""

from __future__ import annotations

from torch import Tensor

from graphsde.data.sparse import SparseMatrix
from graphsde.dynamics.arguments import check_state, number, whole
from graphsde.dynamics.field import BoundDrift, Prior
from graphsde.dynamics.prior.registry import register_prior


@register_prior
class ConstantPrior(Prior):
    """Every entry moves at the same speed: p(H) = c; with c = 0 the prior is Brownian motion.

    Paper: Bergna et al., "Uncertainty modeling in graph neural networks via stochastic differential equations", 2024.

    Args:
        width: d of the state.
        drift: c.

    Example:
        >>> import torch
        >>> from graphsde.data.benchmarks import load
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
        return _BoundConstant(self.drift)


class _BoundConstant:
    tensors: tuple[Tensor, ...] = ()

    def __init__(self, drift: float) -> None:
        self.drift = drift

    def __call__(self, t: float, h: Tensor) -> Tensor:
        return h.new_full((), self.drift).expand(h.shape)
