"""The case a component's contract is run on, and the words in which a broken promise is told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from graphsde.data.adjacency import Adjacency
from graphsde.data.sparse import SparseMatrix
from graphsde.dynamics.field import BoundDiffusion, BoundDrift, Component, Diffusion, Drift, Prior
from graphsde.seeds import numpy_stream, torch_stream

NODES, PATHS, TIME = 7, 2, 0.3
ComponentT = TypeVar("ComponentT", bound=Component)
Check = Callable[["ComponentCase"], None]
DRIFT_CHECKS: list[Check] = []
PRIOR_CHECKS: list[Check] = []
DIFFUSION_CHECKS: list[Check] = []


class Broken(AssertionError):
    """A promise that a component does not keep."""


class ComponentCase(Generic[ComponentT]):
    """A way to make the component, and small graphs and states to try it on.

    Args:
        make: from a width and a generator.
        width: a width that the component accepts.
    """

    def __init__(self, make: Callable[[int, torch.Generator], ComponentT], *, width: int = 4) -> None:
        self.make, self.width = make, width

    def fresh(self) -> ComponentT:
        return self.make(self.width, torch_stream(0, "contract", "weights"))

    def shaken(self, dtype: torch.dtype = torch.float64) -> ComponentT:
        """With every parameter moved, so that those that start at zero play a part."""
        component = self.fresh().to(dtype)
        stream = torch_stream(0, "contract", "shake")
        with torch.no_grad():
            for parameter in component.parameters():
                parameter.add_(torch.randn(parameter.shape, generator=stream).to(dtype), alpha=0.5)
        return component

    def state(self, seed: int = 0, paths: int = PATHS, *, nodes: int = NODES, scale: float = 1.0) -> Tensor:
        stream = torch_stream(seed, "contract", "state")
        return scale * torch.randn(nodes, paths, self.width, generator=stream, dtype=torch.float64)


def small_graph(order: Sequence[int] | None = None, *, edges: bool = True) -> SparseMatrix:
    """Seven nodes, the last without a neighbour; renumbered if asked.  # [7, 7]"""
    rng = numpy_stream(0, "contract", "graph")
    upper = np.triu(rng.random((NODES, NODES)) < 0.45, 1)
    upper[:, -1] = False
    dense = (upper | upper.T) & edges
    if order is not None:
        dense = dense[np.ix_(order, order)]
    return SparseMatrix.from_scipy(
        Adjacency(sp.csr_array(dense.astype(np.float32))).normalized, symmetric=True, dtype=torch.float64
    )


def contract(*lists: list[Check]) -> Callable[[Check], Check]:
    def keep(check: Check) -> Check:
        for checks in lists:
            checks.append(check)
        return check

    return keep


def promise(kept: object, words: str) -> None:
    if not kept:
        raise Broken(words)


def close(one: Tensor, two: Tensor, words: str, *, within: float = 1e-9) -> None:
    promise(one.shape == two.shape, f"{words}: shapes {tuple(one.shape)} and {tuple(two.shape)}")
    one, two = one.detach(), two.detach()
    gap = float((one - two).abs().max()) if one.numel() else 0.0
    promise(gap <= within * (1.0 + float(two.abs().max())), f"{words}: differ by {gap:.2g}")


def bind_field(component: Component, adjacency: SparseMatrix, initial: Tensor) -> BoundDrift:
    if not isinstance(component, Drift | Prior):
        raise Broken(f"{type(component).__name__} is neither a Drift nor a Prior")
    return component.bind(adjacency, initial)


def bind_diffusion(component: Component, adjacency: SparseMatrix) -> BoundDiffusion:
    if not isinstance(component, Diffusion):
        raise Broken(f"{type(component).__name__} is no Diffusion")
    return component.bind(adjacency)


def gradcheck(function: Callable[..., Any], inputs: tuple[Tensor, ...]) -> None:
    """Gradients of ``inputs`` (parameters among them) against finite differences along random directions."""
    good = torch.autograd.gradcheck(function, inputs, fast_mode=True, raise_exception=False)
    promise(good, "gradients equal finite differences")


def gradients_agree(
    words: str, output: Tensor, tensors: tuple[Tensor, ...], sources: Sequence[Tensor], seed: int = 0
) -> None:
    """The gradient of ``sources`` is the same whether taken directly or gathered at ``tensors`` first."""
    if not output.requires_grad:
        return
    weight = torch.randn(output.shape, generator=torch_stream(seed, "contract", "weight"), dtype=output.dtype)
    direct = torch.autograd.grad(output, list(sources), weight, allow_unused=True, retain_graph=True)
    listed = [tensor for tensor in tensors if tensor.requires_grad]
    gathered: tuple[Tensor | None, ...] = (None,) * len(sources)
    if listed:
        at = torch.autograd.grad(output, listed, weight, allow_unused=True, retain_graph=True)
        reached = [(tensor, grad) for tensor, grad in zip(listed, at, strict=True) if grad is not None]
        if reached:
            outs, grads = zip(*reached, strict=True)
            gathered = torch.autograd.grad(outs, list(sources), grads, allow_unused=True, retain_graph=True)
    for source, one, two in zip(sources, direct, gathered, strict=True):
        zero = torch.zeros_like(source)
        close(zero if two is None else two, zero if one is None else one, words)
