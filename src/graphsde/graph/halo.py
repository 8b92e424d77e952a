"""One part's rows of a graph's operator; products fetch the rows of neighbours in other parts.

The entries of a row keep the order of the whole graph, so that a product has the same bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

from graphsde.base.errors import BadUsage
from graphsde.base.world import World, world
from graphsde.graph.sparse import Found, SparseMatrix


@dataclass(frozen=True)
class Layout:
    """Which nodes each part holds.

    Args:
        order: positions of the nodes, part by part, within a part increasing.  # [N]
        starts: where in ``order`` each part begins, and where the last one ends.  # [P + 1]
    """

    order: np.ndarray
    starts: np.ndarray

    @classmethod
    def of(cls, parts: np.ndarray, count: int) -> Layout:
        """From the part of every node.  # [N]"""
        return cls(
            np.argsort(parts, kind="stable"),
            np.concatenate([[0], np.cumsum(np.bincount(parts, minlength=count))]).astype(np.int64),
        )

    @property
    def parts(self) -> int:
        return len(self.starts) - 1

    def own(self, part: int) -> np.ndarray:
        """Positions of a part's nodes.  # [n]"""
        return self.order[self.starts[part] : self.starts[part + 1]]

    def places(self) -> np.ndarray:
        """The position of every node in ``order``.  # [N]"""
        places = np.empty(len(self.order), dtype=np.int64)
        places[self.order] = np.arange(len(self.order))
        return places

    def rows(self, matrix: sp.csr_array, part: int, places: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """A part's rows of a square matrix: CSR with columns as places in ``order``, in the order of the matrix."""
        own = self.own(part)
        lengths = np.diff(matrix.indptr)[own]
        crow = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        entries = np.repeat(matrix.indptr[own].astype(np.int64) - crow[:-1], lengths) + np.arange(crow[-1])
        return crow, places[matrix.indices[entries]], matrix.data[entries]


class Halo:
    """What a part has to fetch before each product: the neighbours it does not hold.

    Args:
        starts: of the layout.  # [P + 1]
        part: which one.
        places: of the neighbours held elsewhere, increasing.  # [h] int64
        wanted: for every other part, which of this part's rows it fetches, as places.
    """

    def __init__(self, starts: np.ndarray, part: int, places: np.ndarray, wanted: Sequence[np.ndarray]) -> None:
        self.part, self.first = part, int(starts[part])
        ends = np.searchsorted(places, starts)
        self.needs = {  # rows of each owner, in its own numbering
            owner: torch.from_numpy(places[ends[owner] : ends[owner + 1]] - int(starts[owner]))
            for owner in range(len(starts) - 1)
            if ends[owner + 1] > ends[owner]
        }
        self.gives = {
            other: torch.from_numpy(rows - self.first)
            for other, rows in enumerate(wanted)
            if other != part and len(rows)
        }
        self.size = len(places)


_NOTHING = torch.zeros(0, dtype=torch.int64)


def _tables(here: World, brought: dict[int, tuple[Halo, Tensor]]) -> dict[int, Tensor]:
    """For every part of this process its own rows, followed by those that it fetches.  # [n + h, w] each"""
    wire, far = here.wire, {}
    if wire is not None:
        held = set(brought)
        sent = {
            # even if nothing is sent: the other side has no other way to know the width
            (part, other): own[halo.gives.get(other, _NOTHING)]
            for part, (halo, own) in brought.items()
            for other in {*halo.gives, *halo.needs}
            if other not in held
        }
        rows = {
            (owner, part): len(halo.needs[owner])
            for part, (halo, _) in brought.items()
            for owner in halo.needs
            if owner not in held
        }
        far = wire.across(sent, rows)
    return {
        part: torch.cat(
            [own]
            + [
                brought[owner][1].index_select(0, rows) if owner in brought else far[owner, part]
                for owner, rows in halo.needs.items()
            ]
        )
        for part, (halo, own) in brought.items()
    }


class PartMatrix(SparseMatrix):
    """Some rows of a square matrix, as an operator on the rows of all parts together: ``times`` takes and gives this
    part's rows, and is a meeting of all parts.

    Args:
        crow, col, values: CSR; columns are places in the table that a product is made from.
        size: how many rows.
        first: where in that table this part's own rows begin.
        halo: what to fetch; ``None`` if all parts of one process share a table of all rows.
        nodes: rows of all parts.
        symmetric: the whole matrix equals its transpose.
        turned: the same rows of the transpose, if it is a different matrix.
        found: what was computed on the whole graph.
    """

    def __init__(
        self,
        crow: Tensor,
        col: Tensor,
        values: Tensor,
        size: int,
        *,
        first: int,
        halo: Halo | None,
        nodes: int,
        symmetric: bool,
        turned: PartMatrix | None = None,
        found: Found | None = None,
    ) -> None:
        super().__init__(crow, col, values, (size, size), symmetric=symmetric)
        self.first, self.halo, self.nodes, self.found = first, halo, nodes, found
        self._other = turned
        self._inner = SparseMatrix(crow, col, values, (size, nodes if halo is None else size + halo.size))

    @property
    def col(self) -> Tensor:
        """Not available: columns here are not nodes of this part."""
        raise BadUsage(
            "anything that reads single edges (attention, random walks, spectra) needs the whole graph",
            code="E-PARTS",
            fix="use way=full, or a drift, prior and diffusion that only multiply by the operator",
        )

    @col.setter
    def col(self, col: Tensor) -> None:
        pass

    @property
    def nnz(self) -> int:
        return self.values.numel()

    def like(self, values: Tensor, *, symmetric: bool) -> PartMatrix:
        if self.symmetric and not symmetric:
            raise BadUsage(
                "the transpose of this operator is not known part by part",
                code="E-PARTS",
                fix="use an operator that is symmetric, or way=full",
            )
        return self._with(values, symmetric, None)

    def _with(self, values: Tensor, symmetric: bool, turned: PartMatrix | None) -> PartMatrix:
        return PartMatrix(
            self.crow,
            self._inner.col,
            values,
            self.shape[0],
            first=self.first,
            halo=self.halo,
            nodes=self.nodes,
            symmetric=symmetric,
            turned=turned,
            found=self.found,
        )

    def on(self, device: torch.device) -> SparseMatrix:
        if device.type == "cpu":
            return self
        raise BadUsage(
            "parts of a graph only run on the CPU", code="E-DEVICE", found=str(device), fix="use device='cpu'"
        )

    def to(self, dtype: torch.dtype) -> SparseMatrix:
        if self.values.dtype == dtype:
            return self
        turned = None if self._other is None else self._other.to(dtype)
        return self._with(self.values.to(dtype), self.symmetric, turned)  # type: ignore[arg-type]

    def transposed(self) -> SparseMatrix:
        if self.symmetric:
            return self
        if self._other is None:
            raise BadUsage("the transpose of this operator is not known part by part", code="E-PARTS", fix="way=full")
        return self._other

    def on_diagonal(self) -> Tensor:
        return self.rows_of_entries() + self.first == self._inner.col

    def times(self, dense: Tensor, out: Tensor | None = None) -> Tensor:
        here, own = world(), dense.detach()
        if self.halo is not None:
            tables = here.meet((self.halo, own.contiguous()), lambda brought: _tables(here, brought))
            return self._inner.times(tables[here.part], out)  # type: ignore[index]
        table = here.shared_rows(self.nodes, own.shape[1], own.dtype)
        table[self.first : self.first + self.shape[0]] = own
        here.meet(None)
        return self._inner.times(table, out)
