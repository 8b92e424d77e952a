r"""Brownian motion that is refined where a solver asks for it: a dyadic tree of intervals.

Halving an interval of length h with increment W and space-time Lévy area H at its midpoint u, with independent
:math:`Z \sim N(0, h/16)` and :math:`N \sim N(0, h/12)` (Foster, Lyons and Oberhauser, SIAM J. Numer. Anal. 2020):

.. math::
    W_{s,u} &= \tfrac12 W + \tfrac32 H + Z, & H_{s,u} &= \tfrac14 H - \tfrac12 Z + \tfrac12 N, \\
    W_{u,t} &= \tfrac12 W - \tfrac32 H - Z, & H_{u,t} &= \tfrac14 H - \tfrac12 Z - \tfrac12 N.

A rejected step is then not thrown away, which would bias the law, but refined.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from graphsde.dynamics.brownian import BrownianMotion, Increment
from graphsde.dynamics.keyed_normals import standard_normals, stream_of
from graphsde.errors import BadUsage

DEEPEST = 50


class BrownianBridge:
    """One path of K × d Brownian motions on [0, T], as a tree: interval ``index`` of level l has length T / 2^l.

    The draws of an interval are keyed by its level and index, so the path does not depend on the order of questions.
    The ancestors of the last question are kept, which makes a walk from left to right cheap.

    Args:
        seed, keys, path, width, horizon, dtype: as in :class:`~graphsde.dynamics.brownian.BrownianMotion`; one path.

    Example:
        >>> import numpy as np
        >>> from graphsde.dynamics.brownian import node_keys
        >>> bridge = BrownianBridge(0, node_keys(np.arange(3)), path=0, width=2, horizon=1.0)
        >>> left, right = bridge.increment(1, 0), bridge.increment(1, 1)
        >>> torch.allclose(left.dw + right.dw, bridge.increment(0, 0).dw)
        True
    """

    def __init__(
        self,
        seed: int,
        keys: Tensor,
        path: int,
        width: int,
        horizon: float,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.keys, self.path, self.width, self.horizon, self.dtype = keys, path, width, float(horizon), dtype
        self._middle_stream = stream_of(seed, "bridge middle")
        self._tilt_stream = stream_of(seed, "bridge tilt")
        root = BrownianMotion(seed, keys, [path], width, horizon, 1, dtype).increment(0, 1, area=True)
        self._kept: dict[tuple[int, int], Increment] = {(0, 0): root}

    def increment(self, level: int, index: int) -> Increment:
        """The interval ``[index, index + 1] · T / 2^level``, with its area."""
        if not (0 <= level <= DEEPEST and 0 <= index < 2**level):
            raise BadUsage(f"there is no interval {index} on level {level}", expected=f"level 0 to {DEEPEST}")
        known = level
        while (known, index >> (level - known)) not in self._kept:
            known -= 1
        for parent_level in range(known, level):
            parent = index >> (level - parent_level)
            left, right = self._halve(parent_level, parent)
            self._kept[parent_level + 1, 2 * parent] = left
            self._kept[parent_level + 1, 2 * parent + 1] = right
        self._forget(level, index)
        return self._kept[level, index]

    def _halve(self, level: int, index: int) -> tuple[Increment, Increment]:
        whole = self._kept[level, index]
        w, h = whole.dw, whole.levy()
        middle = self._draw(self._middle_stream, level, index).mul_(math.sqrt(whole.dt / 16))
        tilt = self._draw(self._tilt_stream, level, index).mul_(math.sqrt(whole.dt / 12) / 2)
        left = (w * 0.5).add_(h, alpha=1.5).add_(middle)
        right = w - left  # so that the halves add up to the whole
        shared = (h * 0.25).sub_(middle, alpha=0.5)
        half = whole.dt / 2
        return Increment(half, left, shared + tilt), Increment(half, right, shared - tilt)

    def _draw(self, stream: int, level: int, index: int) -> Tensor:
        # 2^level + index numbers the nodes of a binary tree without repetition
        return standard_normals(stream, self.keys, [self.path], (1 << level) + index, self.width, self.dtype)

    def _forget(self, level: int, index: int) -> None:
        """Keep the line of ancestors and their siblings: a walk forward asks for nothing else."""
        line = {(up, index >> (level - up)) for up in range(level + 1)}
        line |= {(up, position ^ 1) for up, position in line if up > 0}
        self._kept = {place: kept for place, kept in self._kept.items() if place in line}
