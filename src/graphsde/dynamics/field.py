"""What moves a hidden state: drift, diffusion, prior; and how they are bound to one graph and one solve.

Layout of a state everywhere in this folder: ``[N, S, d]``, nodes first, then paths, then dimensions. A sparse product
sees it as ``[N, S·d]`` and a weight matrix as ``[N·S, d]``: both are views, so that many paths cost no copy.

A drift, diffusion or prior is a plain ``nn.Module`` that knows nothing of a graph. Before a solve it is *bound*: it
gets the graph's operator, the initial state and, in training, a generator from which it draws its dropout masks: one
mask per path and solve, so that the field is a smooth function of time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Literal, Protocol

import torch
from torch import Tensor, nn

from graphsde.data.sparse import SparseMatrix
from graphsde.errors import BadUsage

Noise = Literal["none", "additive", "diagonal"]


class BoundDrift(Protocol):
    """A drift at work on one graph: ``f(t, h)``."""

    tensors: tuple[Tensor, ...]
    """Everything besides ``h`` that gradients must reach: parameters, and the initial state where it is a source."""

    def __call__(self, t: float, h: Tensor) -> Tensor:
        """``[N, S, d] -> [N, S, d]``"""


class BoundDiffusion(Protocol):
    """A diffusion at work on one graph."""

    tensors: tuple[Tensor, ...]

    def keys(self, node_keys: Tensor) -> Tensor:
        """Keys of the independent Brownian motions that drive it: those of the nodes, or one per mode.  # [K] int64"""

    def apply(self, t: float, h: Tensor, noise: Tensor) -> Tensor:
        """``g(t, h) · noise``.  # noise [K, S, d] -> [N, S, d]"""

    def whiten(self, t: float, h: Tensor, difference: Tensor) -> Tensor:
        """The ``u`` with ``g(t, h) · u = difference``; refused (:class:`BadUsage`) where there is none or many."""


class Component(nn.Module):
    """Base of drifts, diffusions and priors: a name, one line, and where it comes from."""

    name: ClassVar[str]
    summary: ClassVar[str]
    paper: ClassVar[str]
    year: ClassVar[int]


class Drift(Component, ABC):
    """f in dH = f(t, H) dt + g dW.

    Args of a subclass's constructor: ``width`` (d), its own settings, ``generator`` for its weights.
    ``linear`` declares that f(t, H) = M H + (terms without H), which lets noise and mean be simulated apart.
    """

    linear: bool = False

    @abstractmethod
    def bind(self, adjacency: SparseMatrix, initial: Tensor, generator: torch.Generator | None = None) -> BoundDrift:
        """``initial`` is H(0) of all paths.  # [N, S, d]"""

    def lipschitz(self, adjacency: SparseMatrix) -> float:
        """A certified upper bound of the Lipschitz constant in H; infinite where none is known."""
        return float("inf")


class Diffusion(Component, ABC):
    """g in dH = f dt + g dW; ``noise`` tells solvers what it depends on: nothing, or the state (entry by entry)."""

    noise: ClassVar[Noise] = "additive"

    @abstractmethod
    def bind(self, adjacency: SparseMatrix) -> BoundDiffusion: ...


class ElementwiseDiffusion(Diffusion):
    """Diagonal noise whose entry (i, k) depends on the state's entry (i, k) alone, as Milstein's method needs."""

    noise: ClassVar[Noise] = "diagonal"

    @abstractmethod
    def scale(self, t: float, h: Tensor) -> Tensor:
        """g, entry by entry.  # [N, S, d]"""

    @abstractmethod
    def scale_slope(self, t: float, h: Tensor) -> Tensor:
        """∂g/∂h, entry by entry.  # [N, S, d]"""


class Prior(Component, ABC):
    """The drift that the posterior is held against; it shares the posterior's diffusion."""

    @abstractmethod
    def bind(self, adjacency: SparseMatrix, initial: Tensor) -> BoundDrift: ...


class NodeNoise:
    """Mixin for bound diffusions driven by one Brownian motion per node and dimension."""

    def keys(self, node_keys: Tensor) -> Tensor:
        return node_keys


def refuse_infinite_kl(name: str) -> BadUsage:
    return BadUsage(
        f"the path KL is infinite or undefined under the diffusion '{name}'",
        code="E-KL",
        fix="use a diffusion with full rank, as 'constant', or set kl_weight=0",
    )
