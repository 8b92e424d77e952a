"""Random masks that belong to nodes and edges rather than to positions.

A model that draws masks at prediction (dropout, dropped edges) must give a node the same draw whatever surrounds
it. So a mask is the hash of its address (seed, sample, layer, node or edge, column), like the normals of
:mod:`graphsde.base.keyed_normals`.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from graphsde.base import torch_hash
from graphsde.base.keyed_normals import mix_words, stream_of
from graphsde.base.torch_hash import ADDRESS_STEP, GOLDEN, signed
from graphsde.graph.sparse import SparseMatrix
from graphsde.nn.operators import rows_of


class KeyedMasks:
    """The masks of one sample; every draw belongs to its own layer, counted in the order of the calls.

    Args:
        seed, sample: which sample of which family.
        keys: of the nodes, from :func:`graphsde.sde.brownian.node_keys`; masks are made on their device.  # [N]

    Example:
        >>> import numpy as np
        >>> from graphsde.sde.brownian import node_keys
        >>> masks = KeyedMasks(0, 3, node_keys(np.arange(4)))
        >>> masks.rows(2).shape
        torch.Size([4, 2])
    """

    def __init__(self, seed: int, sample: int, keys: Tensor) -> None:
        self.base = stream_of(seed, "masks") + (sample + 1) * GOLDEN
        self.keys = keys
        self.layer = 0

    def rows(self, width: int) -> Tensor:
        """Uniforms in [0, 1), one per node and column.  # [N, width]"""
        return _uniform(_mixed(self._begin(self.keys)[:, None] + self._columns(width)))

    def entries(self, matrix: SparseMatrix) -> Tensor:
        """Uniforms, one per stored entry of a node × column matrix.  # [nnz]"""
        start = self._begin(self.keys).index_select(0, rows_of(matrix))
        return _uniform(_mixed(_moved_on(start, matrix.col)))

    def edges(self, structure: SparseMatrix, copies: int = 1, *, symmetric: bool = False) -> Tensor:
        """Uniforms, one per edge and copy; with ``symmetric`` both directions of an edge share theirs.

        # [E, copies]
        """
        receiver = _mixed(self.keys + signed(GOLDEN if not symmetric else 0))
        sender = _mixed(self.keys.clone())
        both = receiver.index_select(0, rows_of(structure)).add_(sender.index_select(0, structure.col))
        return _uniform(_mixed(self._begin(both)[:, None] + self._columns(copies)))

    def scalars(self, count: int) -> Tensor:
        """Uniforms that belong to the sample as a whole.  # [count]"""
        return _uniform(_mixed(self._begin(self.keys.new_zeros(1)) + self._columns(count)))

    def _begin(self, keys: Tensor) -> Tensor:
        self.layer += 1
        word = torch.tensor([signed(self.base + self.layer * ADDRESS_STEP)]).to(self.keys.device)
        return _mixed(keys ^ _mixed(word))

    def _columns(self, count: int) -> Tensor:
        return torch.arange(1, count + 1, device=self.keys.device) * signed(GOLDEN)


# integers wrap around in int64 as they do in uint64: sums and products need no distinction, shifts do. For large
# arrays numpy's loops take less time than torch's, and work in place


def _moved_on(start: Tensor, column: Tensor) -> Tensor:
    """Where the hash of a column starts, in the memory of ``start`` on the CPU."""
    if start.device.type != "cpu":
        return start + (column + 1) * signed(GOLDEN)
    steps = column.numpy() + 1
    steps *= signed(GOLDEN)
    np.add(start.numpy(), steps, out=start.numpy())
    return start


def _mixed(words: Tensor) -> Tensor:
    """The hash, in the memory of ``words`` on the CPU."""
    if words.device.type != "cpu":
        return torch_hash.mixed(words)
    mix_words(words.numpy().view(np.uint64))
    return words


def _uniform(words: Tensor) -> Tensor:
    """The upper 24 bits: every float32 in [0, 1) on that grid is exact."""
    if words.device.type != "cpu":
        return torch_hash.uniforms(words)
    return torch.from_numpy(
        ((words.numpy().view(np.uint64) >> np.uint64(40)).astype(np.float32)) * np.float32(2.0**-24)
    )
