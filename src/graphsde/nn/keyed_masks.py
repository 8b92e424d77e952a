"""Random masks that belong to nodes and edges rather than to positions.

A model that draws masks at prediction (dropout, dropped edges) must give a node the same draw whatever stands beside
it. So a mask is the hash of its address (seed, sample, layer, node or edge, column), as the normals of
:mod:`graphsde.base.keyed_normals` are.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from graphsde.base.keyed_normals import GOLDEN, WORD, mix_words, stream_of
from graphsde.graph.sparse import SparseMatrix
from graphsde.nn.operators import rows_of


class KeyedMasks:
    """The masks of one sample; every draw belongs to a layer of its own, counted in the order of the calls.

    Args:
        seed, sample: which sample of which family.
        keys: of the nodes, from :func:`graphsde.sde.brownian.node_keys`.  # [N]

    Example:
        >>> import numpy as np
        >>> from graphsde.sde.brownian import node_keys
        >>> masks = KeyedMasks(0, 3, node_keys(np.arange(4)))
        >>> masks.rows(2).shape
        torch.Size([4, 2])
    """

    def __init__(self, seed: int, sample: int, keys: Tensor) -> None:
        self.base = (stream_of(seed, "masks") + (sample + 1) * GOLDEN) & WORD
        self.keys = keys.numpy().view(np.uint64)
        self.layer = 0

    def rows(self, width: int) -> Tensor:
        """Uniforms in [0, 1), one per node and column.  # [N, width]"""
        columns = self._columns(np.arange(width, dtype=np.uint64))
        return _uniform(mix_words(self._begin(self.keys)[:, None] + columns[None, :]))

    def entries(self, matrix: SparseMatrix) -> Tensor:
        """Uniforms, one per stored entry of a node × column matrix.  # [nnz]"""
        start = self._begin(self.keys)[rows_of(matrix).numpy()]
        return _uniform(mix_words(start + self._columns(matrix.col.numpy().astype(np.uint64))))

    def edges(self, structure: SparseMatrix, copies: int = 1, *, symmetric: bool = False) -> Tensor:
        """Uniforms, one per edge and copy; with ``symmetric`` both directions of an edge share theirs.

        # [E, copies]
        """
        receiver = mix_words(self.keys + np.uint64(GOLDEN if not symmetric else 0))
        sender = mix_words(self.keys.copy())
        both = receiver[rows_of(structure).numpy()] + sender[structure.col.numpy()]
        columns = self._columns(np.arange(copies, dtype=np.uint64))
        return _uniform(mix_words(self._begin(both)[:, None] + columns[None, :]))

    def scalars(self, count: int) -> Tensor:
        """Uniforms that belong to the sample as a whole.  # [count]"""
        start = self._begin(np.zeros(1, dtype=np.uint64))
        return _uniform(mix_words(start + self._columns(np.arange(count, dtype=np.uint64))))

    def _begin(self, keys: np.ndarray) -> np.ndarray:
        self.layer += 1
        word = np.array([(self.base + self.layer * 0xD1342543DE82EF95) & WORD], dtype=np.uint64)
        return mix_words(keys ^ mix_words(word))

    @staticmethod
    def _columns(columns: np.ndarray) -> np.ndarray:
        return (columns + np.uint64(1)) * np.uint64(GOLDEN)


def _uniform(words: np.ndarray) -> Tensor:
    """The upper 24 bits: every float32 in [0, 1) on that grid is exact."""
    return torch.from_numpy(((words >> np.uint64(40)).astype(np.float32)) * np.float32(2.0**-24))
