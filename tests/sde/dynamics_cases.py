"""Equations that several tests of the dynamics share."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from graphsde.graph.sparse import SparseMatrix
from graphsde.sde.brownian import BrownianMotion, node_keys
from graphsde.sde.field import NodeNoise

DOUBLE = torch.float64


def small_operator(nodes: int = 12, seed: int = 0) -> SparseMatrix:
    """A random symmetric graph with self loops, normalised as a GCN does."""
    rng = np.random.default_rng(seed)
    upper = np.triu(rng.random((nodes, nodes)) < 0.3, 1)
    dense = (upper | upper.T).astype(float) + np.eye(nodes)
    root = dense.sum(1) ** -0.5
    return SparseMatrix.from_scipy(sp.csr_array(dense * root[:, None] * root), symmetric=True, dtype=DOUBLE)


class GCNField:
    """Two graph convolutions with tanh, a bias that follows time, and the initial state as a source."""

    def __init__(
        self, width: int = 4, nodes: int = 12, seed: int = 0, *, grad: bool = False, initial: Tensor | None = None
    ) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.adjacency = small_operator(nodes, seed)
        shapes = ((width, width), (width, width), (width,))
        weights = [torch.randn(s, generator=generator, dtype=DOUBLE) * 1.5 / width**0.5 for s in shapes]
        self.first, self.second, self.bias = (w.requires_grad_(grad) for w in weights)
        self.initial = initial
        self.tensors = (self.first, self.second, self.bias, *(() if initial is None else (initial,)))

    def propagate(self, h: Tensor) -> Tensor:
        return (self.adjacency @ h.reshape(h.shape[0], -1)).view(h.shape)

    def __call__(self, t: float, h: Tensor) -> Tensor:
        hidden = torch.tanh(self.propagate(h @ self.first) + self.bias * np.cos(3 * t))
        moved = self.propagate(hidden @ self.second) - 0.5 * h
        return moved if self.initial is None else moved + 0.3 * self.initial


class WavyNoise(NodeNoise):
    """g = size · (1 + swing · sin(h)), entry by entry."""

    def __init__(self, size: float | Tensor = 0.5, swing: float = 0.5) -> None:
        self.size, self.swing = size, swing
        self.tensors: tuple[Tensor, ...] = (size,) if isinstance(size, Tensor) else ()

    def scale(self, t: float, h: Tensor) -> Tensor:
        return (1 + self.swing * torch.sin(h)) * self.size

    def scale_slope(self, t: float, h: Tensor) -> Tensor:
        return self.swing * torch.cos(h) * self.size

    def apply(self, t: float, h: Tensor, noise: Tensor) -> Tensor:
        return self.scale(t, h) * noise

    def whiten(self, t: float, h: Tensor, difference: Tensor) -> Tensor:
        return difference / self.scale(t, h)


def motion(
    shape: tuple[int, int, int], cells: int, *, horizon: float = 1.0, seed: int = 0, dtype: torch.dtype = DOUBLE
) -> BrownianMotion:
    nodes, paths, width = shape
    return BrownianMotion(seed, node_keys(np.arange(nodes)), range(paths), width, horizon, cells, dtype)
