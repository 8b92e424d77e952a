"""One mask value per edge and block of features, the same in both directions of an undirected edge."""

from __future__ import annotations

from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from graphsde.data.sparse import SparseMatrix
from graphsde.dynamics.drift.edge_space import edge_space
from graphsde.dynamics.keyed_masks import KeyedMasks
from graphsde.dynamics.operators import rows_of


class EdgeMasks:
    """The edges of a graph, self loops included, once per block of features.

    Args:
        adjacency: the operator that is masked.
        blocks: number of masks per edge.

    Memory is O(E · blocks): no array of nodes × nodes exists.
    """

    def __init__(self, adjacency: SparseMatrix, blocks: int) -> None:
        self.adjacency, self.blocks = adjacency, blocks
        self.space = edge_space(adjacency, blocks)
        rows, copies = self.space.row // blocks, self.space.row % blocks
        entry = torch.arange(len(rows)) - self.space.crow[self.space.row] + adjacency.crow[rows]
        self.first, mask_of_entry = _shared_masks(adjacency)
        self._take = mask_of_entry[entry] * blocks + copies  # from masks [P, B] to the edge space's order [E·B]
        self._values = adjacency.values[entry]

    def uniforms(self, randomness: torch.Generator | KeyedMasks) -> Tensor:
        """P is the number of edges, each counted once where the graph is undirected.  # [P, blocks]"""
        if isinstance(randomness, KeyedMasks):
            drawn = randomness.edges(self.adjacency, self.blocks, symmetric=self.adjacency.symmetric)
            return drawn[self.first]
        return torch.rand(len(self.first), self.blocks, generator=randomness)

    def product(self, masks: Tensor, state: Tensor) -> Tensor:
        """(Z_b ∘ Â) H_b for every block b.  # [P, blocks], [N, blocks, c] -> [N, blocks, c]"""
        weights = masks.reshape(-1).index_select(0, self._take) * self._values
        flat = state.reshape(self.space.size, state.shape[-1])
        return self.space.product(weights, flat).view_as(state)


_KEPT: WeakKeyDictionary[SparseMatrix, dict[int, EdgeMasks]] = WeakKeyDictionary()


def edge_masks(adjacency: SparseMatrix, blocks: int) -> EdgeMasks:
    """The masks of a graph, kept for as long as its operator lives."""
    kept = _KEPT.setdefault(adjacency, {})
    if blocks not in kept:
        kept[blocks] = EdgeMasks(adjacency, blocks)
    return kept[blocks]


def _shared_masks(adjacency: SparseMatrix) -> tuple[Tensor, Tensor]:
    """The entry that stands for each mask, and the mask of each entry.  # [P], [E]"""
    entries = torch.arange(adjacency.nnz)
    if not adjacency.symmetric:
        return entries, entries
    rows = rows_of(adjacency)
    upper = adjacency.col >= rows
    first = entries[upper]
    # CSR order is sorted by (row, column), and so the entries on and above the diagonal are by their pair
    pair = torch.minimum(rows, adjacency.col) * adjacency.shape[0] + torch.maximum(rows, adjacency.col)
    return first, torch.searchsorted(pair[upper], pair)
