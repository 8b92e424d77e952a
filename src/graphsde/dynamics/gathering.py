"""Drifts that know their own gradient, and where that gradient goes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

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
