"""What a solve hands back."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Path:
    """States along a solve.

    Args:
        saved: the states at ``times``.  # M × [N, S, d]
        times: when they were saved; the last is the horizon.
        kl: path KL of each path against the prior, summed over nodes and dimensions; ``None`` without a prior or
            without noise.  # [S]
        evaluations: how often the drift was evaluated on the way forward.
    """

    saved: tuple[Tensor, ...]
    times: tuple[float, ...]
    kl: Tensor | None
    evaluations: int

    @property
    def final(self) -> Tensor:
        """The state at the horizon.  # [N, S, d]"""
        return self.saved[-1]

    @property
    def states(self) -> Tensor:
        """All saved states in one tensor.  # [M, N, S, d]"""
        return torch.stack(self.saved)


@dataclass(frozen=True)
class AdaptivePath:
    """What an adaptive solve hands back: final states and, path by path, what they took.

    Args:
        final: the states at the horizon.  # [N, S, d]
        kl: as in :class:`Path`.  # [S]
        accepted, rejected: steps.  # [S] int64
        evaluations: drift evaluations.  # [S] int64
    """

    final: Tensor
    kl: Tensor | None
    accepted: Tensor
    rejected: Tensor
    evaluations: Tensor
