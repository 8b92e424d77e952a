r"""Replayable Brownian motion on a grid: any step can be drawn again, in any order, to the same bits.

A step of a strong order 1.5 method needs, besides the increment :math:`W_{s,t}`, the *space-time Lévy area*

.. math:: H_{s,t} = \frac1h \int_s^t \Bigl( W_{s,r} - \frac{r-s}{h} W_{s,t} \Bigr) dr \sim N(0, h/12),

which is independent of the increment (Foster, Lyons and Oberhauser, SIAM J. Numer. Anal. 2020). It says on which
side of its chord the path ran. Then :math:`\int_s^t W_{s,r} dr = h (\tfrac12 W_{s,t} + H_{s,t})`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from graphsde.base.errors import BadUsage
from graphsde.base.keyed_normals import node_keys, normals_of_cells, stream_of
from graphsde.graph.graph import Graph
from graphsde.graph.part_graph import PartGraph

__all__ = ["BrownianMotion", "Increment", "keys_of", "node_keys", "spent"]

_DRAWN_TOGETHER = 1 << 18  # numbers: below it the calls cost more than the numbers, above it they would fill a cache


@dataclass(frozen=True)
class Increment:
    """What a Brownian motion did during one step.

    Args:
        dt: the step's length h.
        dw: W at the end minus W at the start.  # [K, S, d]
        area: the space-time Lévy area H, if requested.  # [K, S, d]
        spent: the tensors are not used after the step, which may reuse their memory.
    """

    dt: float
    dw: Tensor
    area: Tensor | None = None
    spent: bool = False

    def levy(self) -> Tensor:
        if self.area is None:
            raise BadUsage("this step needs the space-time Lévy area", fix="request increments with area=True")
        return self.area


def keys_of(graph: Graph) -> Tensor:
    """Of a graph's nodes.  # [N] int64"""
    return torch.from_numpy(graph.keys) if isinstance(graph, PartGraph) else node_keys(graph.node_ids)


def spent(noise: Increment | None) -> Increment | None:
    """The same noise, whose memory the step may reuse."""
    return None if noise is None else replace(noise, spent=True)


class BrownianMotion:
    """K × S × d independent Brownian motions on [0, T], known on a grid of equal cells.

    Every number is a function of (seed, path, key, cell, dimension): drawing more paths or permuting the nodes changes
    no number, and nothing has to be stored to go back. Coarser steps sum cells, so that the same path can be walked in
    steps of several sizes.

    Args:
        seed: names the motion.
        keys: one key per driving motion, such as :func:`node_keys` of the node ids.  # [K] int64
        paths: indices of the paths to draw.
        width: d.
        horizon: T.
        cells: how many cells [0, T] is cut into.
        dtype: of the increments.

    Example:
        >>> import numpy as np
        >>> motion = BrownianMotion(0, node_keys(np.arange(3)), range(2), width=4, horizon=1.0, cells=8)
        >>> motion.increment(0, 8, area=False).dw.shape
        torch.Size([3, 2, 4])
    """

    def __init__(
        self,
        seed: int,
        keys: Tensor,
        paths: Sequence[int],
        width: int,
        horizon: float,
        cells: int,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        if not (math.isfinite(horizon) and horizon > 0):
            raise BadUsage(f"invalid horizon {horizon}", found=horizon, expected="a number above 0")
        if cells < 1 or width < 1 or len(paths) < 1:
            raise BadUsage(f"{cells} cells, width {width}, {len(paths)} paths", expected="at least one of each")
        self.seed, self.keys, self.paths = seed, keys, paths
        self.width, self.horizon, self.cells, self.dtype = width, float(horizon), int(cells), dtype
        self._increment_stream = stream_of(seed, "increment")
        self._area_stream = stream_of(seed, "area")
        self._waiting: dict[int, dict[int, Tensor]] = {}
        self._last: dict[int, int] = {}

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.keys.numel(), len(self.paths), self.width

    def increment(self, first: int, last: int, area: bool = False) -> Increment:
        """What happened from the start of cell ``first`` to the start of cell ``last``."""
        if not 0 <= first < last <= self.cells:
            raise BadUsage(f"no step from cell {first} to cell {last}", expected=f"0 <= first < last <= {self.cells}")
        h = self.horizon / self.cells
        total = self.cell_increment(first)
        if not area:
            for cell in range(first + 1, last):
                total += self.cell_increment(cell)
            return Increment((last - first) * h, total)
        if last == first + 1:
            return Increment(h, total, self.cell_area(first))
        # the integral of W over the step: each cell adds its own and, for its length, the height it starts from
        integral = (total * 0.5).add_(self.cell_area(first))
        for cell in range(first + 1, last):
            dw = self.cell_increment(cell)
            integral.add_(total).add_(dw, alpha=0.5).add_(self.cell_area(cell))
            total.add_(dw)
        count = last - first
        return Increment(count * h, total, integral.div_(count).sub_(total, alpha=0.5))

    def cell_increment(self, cell: int) -> Tensor:
        """W over one cell, N(0, h).  # [K, S, d]"""
        return self._normals(self._increment_stream, cell, math.sqrt(self.horizon / self.cells))

    def cell_area(self, cell: int) -> Tensor:
        """H over one cell, N(0, h/12).  # [K, S, d]"""
        return self._normals(self._area_stream, cell, math.sqrt(self.horizon / self.cells / 12))

    def _normals(self, stream: int, cell: int, scale: float) -> Tensor:
        """Small draws are made for several cells ahead; each tensor is handed out once, since the caller owns it."""
        waiting = self._waiting.setdefault(stream, {})
        if cell not in waiting:
            together = max(1, _DRAWN_TOGETHER // math.prod(self.shape))
            # for backward or random access, draw only what is requested
            cells = range(cell, min(cell + together, self.cells) if self._goes_on(stream, cell) else cell + 1)
            drawn = normals_of_cells(stream, self.keys, self.paths, cells, self.width, self.dtype, scale=scale)
            waiting.clear()
            waiting.update(zip(cells, drawn, strict=True))
        self._last[stream] = cell
        return waiting.pop(cell)

    def _goes_on(self, stream: int, cell: int) -> bool:
        return cell == self._last.get(stream, -1) + 1
