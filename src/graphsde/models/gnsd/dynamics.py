r"""The two halves of the equation: diffusion by attention, and noise in proportion to what attention would change.

:math:`f(H) = A_f(H) - H` and :math:`g(H) = H - A_g(H)`, each with one attention layer of its own,
:math:`A(H)_i = \sum_j a_{ij}(H)\, W h_j + b`.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from graphsde.data.sparse import SparseMatrix
from graphsde.dynamics.diffusion import QWienerDiffusion
from graphsde.dynamics.drift import GATDrift
from graphsde.dynamics.field import BoundDiffusion, BoundDrift, NodeNoise, refuse_infinite_kl


class AttentionFlow(nn.Module):
    """A layer of single-head graph attention without activation, and the pull from a state towards it.

    Args:
        width: d.
        generator: for the weights.
    """

    def __init__(self, width: int, generator: torch.Generator) -> None:
        super().__init__()
        self.layer = GATDrift(width, heads=1, layers=1, time=False, generator=generator)

    def bind(self, adjacency: SparseMatrix, initial: Tensor) -> BoundAttentionFlow:
        return BoundAttentionFlow(self.layer.bind(adjacency, initial))


class BoundAttentionFlow:
    """A(H) − H.  # [N, S, d] -> [N, S, d]"""

    def __init__(self, attention: BoundDrift) -> None:
        self.attention, self.tensors = attention, attention.tensors

    def __call__(self, t: float, h: Tensor) -> Tensor:
        return self.attention(t, h) - h


class BoundForcing(NodeNoise):
    """g(H) = H − A(H), entry by entry, times independent noise of every node and dimension."""

    def __init__(self, flow: BoundAttentionFlow) -> None:
        self.flow, self.tensors = flow, flow.tensors

    def apply(self, t: float, h: Tensor, noise: Tensor) -> Tensor:
        return -self.flow(t, h) * noise

    def whiten(self, t: float, h: Tensor, difference: Tensor) -> Tensor:
        raise refuse_infinite_kl("gnsd")


class BoundModeForcing(BoundForcing):
    r"""g(H) times a Q-Wiener process :math:`\sum_k \sqrt{q_k} e_k \beta_k`: the graph's slow modes, each with its own
    Brownian motion per dimension."""

    def __init__(self, flow: BoundAttentionFlow, modes: BoundDiffusion) -> None:
        super().__init__(flow)
        self.modes = modes

    def keys(self, node_keys: Tensor) -> Tensor:
        return self.modes.keys(node_keys)

    def apply(self, t: float, h: Tensor, noise: Tensor) -> Tensor:
        return super().apply(t, h, self.modes.apply(t, h, noise))


class Forcing(nn.Module):
    """The stochastic forcing network.

    Args:
        width: d.
        modes: of the graph that carry the noise; ``None`` gives every node its own.
        generator: for the weights.
    """

    def __init__(self, width: int, modes: int | None, generator: torch.Generator) -> None:
        super().__init__()
        self.flow = AttentionFlow(width, generator)
        self.process = None if modes is None else QWienerDiffusion(width, modes=modes)

    def bind(self, adjacency: SparseMatrix, initial: Tensor) -> BoundForcing:
        flow = self.flow.bind(adjacency, initial)
        return BoundForcing(flow) if self.process is None else BoundModeForcing(flow, self.process.bind(adjacency))
