"""What moves a hidden state: drift, diffusion, prior; how they are registered, checked and bound to one graph."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol

import torch
from torch import Tensor, nn

from graphsde.base.arguments import whole
from graphsde.base.errors import BadUsage
from graphsde.base.registry import Registry
from graphsde.graph.sparse import SparseMatrix


def even_width(width: int) -> int:
    """A width that can be halved into positions and velocities."""
    if whole(width, "width", at_least=2) % 2:
        raise BadUsage(
            f"a state of width {width} can't be halved into positions and velocities",
            code="E-SETTING",
            found=width,
            expected="an even width",
        )
    return width


def check_state(component: str, width: int, adjacency: SparseMatrix, initial: Tensor) -> None:
    """Refuse a state that does not fit the component or the graph."""
    if initial.ndim != 3 or initial.shape[0] != adjacency.shape[0] or initial.shape[2] != width:
        raise BadUsage(
            f"'{component}' of width {width} can't move this state",
            code="E-SHAPE",
            found=tuple(initial.shape),
            expected=f"[N, S, d] = [{adjacency.shape[0]}, any, {width}]",
        )


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


Kept = tuple[Tensor, ...]


@dataclass
class Gathering:
    """Where the gradients of one evaluation go.

    Args:
        tensors: a sum for each tensor of the drift whose gradient is wanted.
        share: what is added to them is multiplied by this.
        state: the sum for the state, where that is wanted.  # [N, S, d]
        factor: what is added to it is multiplied by this.
        fresh: there is nothing in ``state`` yet, not even zeros.
    """

    tensors: list[Tensor | None]
    share: float
    state: Tensor | None = None
    factor: float = 1.0
    fresh: bool = False


class WrittenDrift(Protocol):
    """A bound drift that knows its own gradient."""

    tensors: tuple[Tensor, ...]

    def evaluate(self, t: float, h: Tensor) -> tuple[Tensor, Kept]:
        """The value, without a graph, which may be changed in place, and what :meth:`pull` needs besides ``h``."""

    def pull(self, t: float, h: Tensor, kept: Kept, grad: Tensor, into: Gathering) -> None:
        """Add the gradients of ``h`` and of ``tensors`` to what ``into`` holds; that of ``h`` last, as its place may be
        ``grad`` itself, which is not changed otherwise."""

    def __call__(self, t: float, h: Tensor) -> Tensor: ...


def _origin(cls: type[Component]) -> dict[str, Any]:
    return {"paper": cls.paper, "year": cls.year}


DRIFTS: Registry[type[Drift]] = Registry("drift", base=Drift, facts=_origin)
"""Every drift. The facts of an entry are ``paper`` and ``year``; the constructor takes ``width``, the drift's own
settings and ``generator``."""

register_drift = DRIFTS.add_class

DIFFUSIONS: Registry[type[Diffusion]] = Registry(
    "diffusion", base=Diffusion, facts=lambda cls: {**_origin(cls), "noise": cls.noise}
)
"""Every diffusion. The facts of an entry are ``paper``, ``year`` and ``noise`` (additive or diagonal); the constructor
takes ``width``, ``sigma`` and the diffusion's own settings."""

register_diffusion = DIFFUSIONS.add_class

PRIORS: Registry[type[Prior]] = Registry("prior", base=Prior, facts=_origin)
"""Every prior. The facts of an entry are ``paper`` and ``year``; the constructor takes ``width`` and the prior's own
settings."""

register_prior = PRIORS.add_class
