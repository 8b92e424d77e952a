"""Small equations with known solutions, bound to nothing: they show what a drift and a diffusion must offer."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from graphsde.dynamics.field import NodeNoise


class Field:
    """A drift from a plain function, counting how often it is asked.

    Args:
        function: ``(t, h) -> [N, S, d]``.
        tensors: what gradients must reach besides the state.
    """

    def __init__(self, function: Callable[[float, Tensor], Tensor], tensors: tuple[Tensor, ...] = ()) -> None:
        self.function, self.tensors = function, tensors
        self.calls = 0

    def __call__(self, t: float, h: Tensor) -> Tensor:
        self.calls += 1
        return self.function(t, h)


def ornstein_uhlenbeck(rate: float | Tensor, level: float | Tensor) -> Field:
    """f = rate · (level − h)."""
    tensors = tuple(x for x in (rate, level) if isinstance(x, Tensor))
    return Field(lambda t, h: (level - h) * rate, tensors)


class ConstantNoise(NodeNoise):
    """g = size, for every node and dimension."""

    autonomous = True

    def __init__(self, size: float | Tensor) -> None:
        self.size = size
        self.tensors: tuple[Tensor, ...] = (size,) if isinstance(size, Tensor) else ()

    def apply(self, t: float, h: Tensor, noise: Tensor) -> Tensor:
        return noise * self.size

    def whiten(self, t: float, h: Tensor, difference: Tensor) -> Tensor:
        return difference / self.size


class GrowingNoise(ConstantNoise):
    """g = size · (1 + t): additive, and changing in time."""

    autonomous = False

    def apply(self, t: float, h: Tensor, noise: Tensor) -> Tensor:
        return noise * self.size * (1.0 + t)

    def whiten(self, t: float, h: Tensor, difference: Tensor) -> Tensor:
        return difference / self.size / (1.0 + t)


class ProportionalNoise(NodeNoise):
    """g = size · h, entry by entry: with drift a · h, geometric Brownian motion."""

    def __init__(self, size: float | Tensor) -> None:
        self.size = size
        self.tensors: tuple[Tensor, ...] = (size,) if isinstance(size, Tensor) else ()

    def scale(self, t: float, h: Tensor) -> Tensor:
        return h * self.size

    def scale_slope(self, t: float, h: Tensor) -> Tensor:
        return torch.ones_like(h) * self.size

    def apply(self, t: float, h: Tensor, noise: Tensor) -> Tensor:
        return self.scale(t, h) * noise

    def whiten(self, t: float, h: Tensor, difference: Tensor) -> Tensor:
        return difference / self.scale(t, h)
