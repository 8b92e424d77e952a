"""The parts of the dynamics: drift, diffusion, prior; how they are registered, checked and bound to one graph."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
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
    """Refuse a state that does not match the component or the graph."""
    if initial.ndim != 3 or initial.shape[0] != adjacency.shape[0] or initial.shape[2] != width:
        raise BadUsage(
            f"'{component}' of width {width} does not match this state",
            code="E-SHAPE",
            found=tuple(initial.shape),
            expected=f"[N, S, d] = [{adjacency.shape[0]}, any, {width}]",
        )


Noise = Literal["none", "additive", "diagonal"]


class BoundDrift(Protocol):
    """A drift bound to one graph: ``f(t, h)``."""

    tensors: tuple[Tensor, ...]
    """Everything besides ``h`` that gradients must reach: parameters, and the initial state if it is a source."""

    def __call__(self, t: float, h: Tensor) -> Tensor:
        """``[N, S, d] -> [N, S, d]``"""


class BoundDiffusion(Protocol):
    """A diffusion bound to one graph."""

    tensors: tuple[Tensor, ...]

    def keys(self, node_keys: Tensor) -> Tensor:
        """Keys of the independent Brownian motions that drive it: those of the nodes, or one per mode.  # [K] int64"""

    def apply(self, t: float, h: Tensor, noise: Tensor) -> Tensor:
        """``g(t, h) · noise``.  # noise [K, S, d] -> [N, S, d]"""

    def whiten(self, t: float, h: Tensor, difference: Tensor) -> Tensor:
        """The ``u`` with ``g(t, h) · u = difference``; refused (:class:`BadUsage`) if there is none or many."""


class Component(nn.Module):
    """Base of drifts, diffusions and priors: a name, a summary, its source, and its capabilities.

    Models check what a part can do, never its name. ``relative`` means that a drift or prior is made for
    noise in proportion to the signal: only with both of that kind does an LGNSDE use such noise by default.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    paper: ClassVar[str]
    year: ClassVar[int]
    relative: ClassVar[bool] = False


class Drift(Component, ABC):
    """f in dH = f(t, H) dt + g dW.

    Args of a subclass's constructor: ``width`` (d), its own settings, ``generator`` for its weights.

    Attributes of a drift, and what follows from them:

    ``linear``: f(t, H) = M H + (terms without H), so noise and mean can be simulated apart, unless ``learns_rate``:
    M itself is learned. ``pulls_back``: f is restoring by itself, so that as a force it needs no spring.
    ``kept_states``: how many states the gradient of one evaluation keeps, for the estimate of memory.
    """

    linear: bool = False
    learns_rate: bool = False
    pulls_back: ClassVar[bool] = False
    kept_states: ClassVar[int] = 1

    @abstractmethod
    def bind(self, adjacency: SparseMatrix, initial: Tensor, generator: torch.Generator | None = None) -> BoundDrift:
        """``initial`` is H(0) of all paths.  # [N, S, d]"""

    def lipschitz(self, adjacency: SparseMatrix) -> float:
        """A certified upper bound of the Lipschitz constant in H; infinite if none is known."""
        return float("inf")

    def source_lipschitz(self, adjacency: SparseMatrix) -> float:
        """How much f at a fixed H changes with H(0), if that is a source; infinite if unknown."""
        return float("inf")

    def relaxation(self, adjacency: SparseMatrix) -> tuple[float, float, bool] | None:
        """α, ν, and whether N is symmetric, of a linear drift with M = α(N − I), ‖N‖ ≤ ν; ``None`` if it is not of
        that form. It gives bounds that don't grow with time."""
        return None

    def coefficients(self) -> Tensor | None:
        """κ of every channel, if an Euler step of length one maps H to κÂH and terms without H: then the law of
        each node's state is known (:mod:`graphsde.sde.marginals`). ``None`` for any other drift.  # [d]"""
        return None

    def closed_kl(self, prior: Prior, diffusion: Diffusion) -> bool:
        """Whether f − p = C u with C the :attr:`Diffusion.channel` and u = :meth:`control`, the same at all times and
        states: then the path KL is ½ T ‖u‖²/g², whatever rank the noise has."""
        return False

    def control(self, initial: Tensor) -> Tensor:
        """u of :meth:`closed_kl`; called only if that is true.  # [N, S, d] -> [N, S, d]"""
        raise NotImplementedError(f"the drift '{self.name}' has no control")

    @classmethod
    def suited(cls, options: Mapping[str, Any], channel: str | None) -> tuple[dict[str, Any], dict[str, Any]]:
        """Options of this drift and of its prior that make :meth:`closed_kl` true if a preset chose the other ones.

        Args:
            options: of the drift, as given.
            channel: of the noise, if given.
        """
        return {}, {}


class Diffusion(Component, ABC):
    """g in dH = f dt + g dW; ``noise`` tells solvers what it depends on: nothing, or the state (entry by entry).

    ``channel`` names C if g dW = g C dW with a number g: ``identity``, ``smoothing`` (B of the diffusion
    ``smoothed``), or a name that your own drift knows. ``full_rank``: a path KL can be computed from the
    difference of drifts, by ``whiten``.
    """

    noise: ClassVar[Noise] = "additive"
    channel: ClassVar[str | None] = None
    full_rank: ClassVar[bool] = True

    @abstractmethod
    def bind(self, adjacency: SparseMatrix) -> BoundDiffusion: ...

    def power(self, nodes: int, width: int) -> float:
        """q ≥ tr g gᵀ over all nodes and dimensions, for any state; infinite if unknown."""
        return float("inf")

    def lipschitz(self) -> float:
        """Of g in H."""
        return 0.0 if self.noise == "additive" else float("inf")


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
    """The prior's drift; it shares the posterior's diffusion."""

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
        fix="use a diffusion of full rank, such as 'constant', or set kl_weight=0",
    )


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
