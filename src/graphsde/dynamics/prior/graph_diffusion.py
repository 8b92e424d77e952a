"""Graph Ornstein–Uhlenbeck prior."""

from __future__ import annotations

from torch import Tensor

from graphsde.data.sparse import SparseMatrix
from graphsde.dynamics.arguments import check_state, number, whole
from graphsde.dynamics.field import BoundDrift, Prior
from graphsde.dynamics.operators import scaled_plus_identity
from graphsde.dynamics.prior.registry import register_prior


@register_prior
class GraphDiffusionPrior(Prior):
    r"""Nodes return to a share of what their neighbours are: :math:`p(H) = -(I - (1 - a)\hat A) H`.

    Paper: Chamberlain et al., "GRAND: graph neural diffusion", ICML 2021 (the flow; here as the drift of a graph
    Ornstein–Uhlenbeck process, stable for a > 0).

    The ``diffusion`` drift with the same ``teleport`` differs from it by the source alone, so that the path KL is
    ½ T a² ‖H(0)‖² / g².

    Args:
        width: d of the state.
        teleport: a in [0, 1].

    Example:
        >>> import torch
        >>> from graphsde.data.benchmarks import load
        >>> adjacency = load("digits").adjacency.operator
        >>> state = torch.ones(adjacency.shape[0], 1, 2)
        >>> GraphDiffusionPrior(2, teleport=1.0).bind(adjacency, state)(0.0, state)[0, 0]
        tensor([-1., -1.])
    """

    name = "graph-diffusion"
    summary = "nodes return to a share of what their neighbours are"
    paper = "Chamberlain et al., GRAND: graph neural diffusion"
    year = 2021

    def __init__(self, width: int, *, teleport: float = 0.1) -> None:
        super().__init__()
        self.width = whole(width, "width", at_least=1)
        self.teleport = number(teleport, "teleport", at_least=0.0, at_most=1.0)

    def bind(self, adjacency: SparseMatrix, initial: Tensor) -> BoundDrift:
        check_state(self.name, self.width, adjacency, initial)
        return _BoundMatrix(scaled_plus_identity(adjacency.to(initial.dtype), 1.0 - self.teleport, -1.0))


class _BoundMatrix:
    tensors: tuple[Tensor, ...] = ()

    def __init__(self, matrix: SparseMatrix) -> None:
        self.matrix = matrix

    def __call__(self, t: float, h: Tensor) -> Tensor:
        return (self.matrix @ h.reshape(h.shape[0], -1)).view(h.shape)
