"""Sparse times dense in torch, with the transpose cached for the backward pass."""

from __future__ import annotations

import warnings
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp
import torch
from torch import Tensor

LARGE_BYTES = 1 << 25
"""Results above this size are computed in blocks: glibc does not keep larger pieces of freed memory."""
BLOCK_BYTES = 1 << 22
_SUM = 0  # torch's number for this mode of an embedding bag


class Found(Protocol):
    """What was computed on a whole graph, for one of its parts."""

    def energies(self, steps: int) -> Tensor:
        """Squared norms of the rows of the first powers.  # [n, K]"""


class SparseMatrix:
    """A constant sparse matrix whose products are differentiable with respect to the dense side.

    torch's own backward pass for CSR converts the layout at every call; here the transpose is built once and kept, as
    a permutation of the values, so that masked values (dropout on bag-of-words features) need no rebuild either.

    Args:
        crow, col: CSR structure, int64.
        values: the entries, in CSR order.
        shape: rows and columns.
        symmetric: the matrix equals its transpose; then one layout serves both directions.
    """

    found: Found | None = None

    def __init__(
        self, crow: Tensor, col: Tensor, values: Tensor, shape: tuple[int, int], *, symmetric: bool = False
    ) -> None:
        self.crow, self.col, self.values, self.shape = crow, col, values, shape
        self.symmetric = symmetric
        self._transpose: tuple[Tensor, Tensor, Tensor] | None = None
        self._csr: Tensor | None = None
        self._turned: SparseMatrix | None = None
        self._elsewhere: SparseMatrix | None = None
        self._order: Tensor | None = None
        self._row_blocks: tuple[int, list[tuple[range, SparseMatrix]]] | None = None

    @classmethod
    def from_scipy(
        cls, matrix: sp.csr_array, *, symmetric: bool = False, dtype: torch.dtype = torch.float32
    ) -> SparseMatrix:
        matrix = sp.csr_array(matrix)
        return cls(
            torch.from_numpy(matrix.indptr.astype(np.int64)),
            torch.from_numpy(matrix.indices.astype(np.int64)),
            torch.from_numpy(np.array(matrix.data)).to(dtype),  # a copy: graph arrays are read-only
            (int(matrix.shape[0]), int(matrix.shape[1])),
            symmetric=symmetric,
        )

    @property
    def nnz(self) -> int:
        return self.col.numel()

    @property
    def device(self) -> torch.device:
        return self.values.device

    def on(self, device: torch.device) -> SparseMatrix:
        """The same matrix on ``device``; the copy and what is derived from it are kept as long as this one lives.

        # one copy: switching between cards copies again
        """
        if self.device == device:
            return self
        if self._elsewhere is None or self._elsewhere.device != device:
            moved = (self.crow.to(device), self.col.to(device), self.values.to(device))
            self._elsewhere = SparseMatrix(*moved, self.shape, symmetric=self.symmetric)
        return self._elsewhere

    def to(self, dtype: torch.dtype) -> SparseMatrix:
        if self.values.dtype == dtype:
            return self
        return self.like(self.values.to(dtype), symmetric=self.symmetric)

    def with_values(self, values: Tensor) -> SparseMatrix:
        """The same structure with other values; no longer symmetric unless all values changed alike."""
        other = SparseMatrix(self.crow, self.col, values, self.shape)
        other._transpose = self._transposed_structure()
        return other

    def like(self, values: Tensor, *, symmetric: bool) -> SparseMatrix:
        """The same structure with other values, of which the caller knows whether they are symmetric."""
        if symmetric:
            return SparseMatrix(self.crow, self.col, values, self.shape, symmetric=True)
        return self.with_values(values)

    def rows_of_entries(self) -> Tensor:
        """The row of every stored entry.  # [E]"""
        return torch.repeat_interleave(torch.arange(self.shape[0], device=self.device), torch.diff(self.crow))

    def on_diagonal(self) -> Tensor:
        """Which stored entries are on the diagonal.  # [E] bool"""
        return self.rows_of_entries() == self.col

    def csr(self) -> Tensor:
        if self._csr is None:
            self._csr = _csr_tensor(self.crow, self.col, self.values, self.shape)
        return self._csr

    def csr_transposed(self) -> Tensor:
        return self.transposed().csr()

    def transposed(self) -> SparseMatrix:
        if self.symmetric:
            return self
        if self._turned is None:
            crow, col, order = self._transposed_structure()
            # half the time of values[order]
            turned = self.values.index_select(0, order)
            self._turned = SparseMatrix(crow, col, turned, (self.shape[1], self.shape[0]))
        return self._turned

    def transposed_order(self) -> Tensor:
        """The position of each entry of the transpose, with 32-bit integers if possible.  # [nnz]"""
        if self._order is None:
            small = self.nnz <= torch.iinfo(torch.int32).max
            self._order = self._transposed_structure()[2].to(torch.int32 if small else torch.int64)
        return self._order

    def row_blocks(self, size: int) -> list[tuple[range, SparseMatrix]]:
        """The matrix in blocks of rows, which share its memory; cached for the last size."""
        if self._row_blocks is None or self._row_blocks[0] != size:
            ranges = [range(first, min(first + size, self.shape[0])) for first in range(0, self.shape[0], size)]
            self._row_blocks = (size, [(block, self._rows(block)) for block in ranges])
        return self._row_blocks[1]

    def _rows(self, block: range) -> SparseMatrix:
        begin, end = int(self.crow[block.start]), int(self.crow[block.stop])
        crow = self.crow[block.start : block.stop + 1] - begin
        return SparseMatrix(crow, self.col[begin:end], self.values[begin:end], (len(block), self.shape[1]))

    def times(self, dense: Tensor, out: Tensor | None = None) -> Tensor:
        """``self @ dense`` without a graph; each row is summed by one thread in the order of its entries.

        ``out`` is memory for the result, which may not be that of ``dense``.
        """
        if self.device.type not in ("cpu", "cuda"):
            product = self._summed(dense)
            return product if out is None else out.copy_(product)
        single = dense.dtype == self.values.dtype == torch.float32 and self.device.type == "cpu"
        if not single or dense.dim() != 2 or not dense.numel() or not self.nnz:
            product = self.csr() @ dense
            return product if out is None else out.copy_(product)
        # a weighted bag of embeddings is the same sum, and torch has a kernel for it that is 2 to 4 times faster
        table = (dense.detach() if dense.requires_grad else dense).contiguous()
        row_bytes = 4 * dense.shape[1]
        if out is None and self.shape[0] * row_bytes <= LARGE_BYTES:
            return self._bags(table)
        # freed pieces this large go back to the system, which zeroes them again for the next product
        out = table.new_empty(self.shape[0], dense.shape[1]) if out is None else out
        for block, part in self.row_blocks(max(1, BLOCK_BYTES // row_bytes)):
            out[block.start : block.stop] = part._bags(table)
        return out

    def _bags(self, table: Tensor) -> Tensor:
        return torch.embedding_bag(table, self.col, self.crow, False, _SUM, False, self.values, True)[0]

    def _summed(self, dense: Tensor) -> Tensor:
        """:meth:`times` if torch has no sparse kernels: a row of memory for every entry."""
        table = dense.detach() if dense.requires_grad else dense
        terms = table.index_select(0, self.col) * self.values.view(-1, *[1] * (table.dim() - 1))
        return terms.new_zeros(self.shape[0], *table.shape[1:]).index_add_(0, self.rows_of_entries(), terms)

    def _transposed_structure(self) -> tuple[Tensor, Tensor, Tensor]:
        if self._transpose is None:
            # transposing a matrix that carries positions instead of values gives the permutation
            structure = self.col.cpu().numpy(), self.crow.cpu().numpy()
            positions = sp.csr_array((np.arange(self.nnz), *structure), shape=self.shape)
            turned = sp.csr_array(positions.T)
            self._transpose = (
                torch.from_numpy(turned.indptr.astype(np.int64)).to(self.device),
                torch.from_numpy(turned.indices.astype(np.int64)).to(self.device),
                torch.from_numpy(turned.data.astype(np.int64)).to(self.device),
            )
        return self._transpose

    def __matmul__(self, dense: Tensor) -> Tensor:
        return spmm(self, dense)


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, matrix: SparseMatrix, dense: Tensor) -> Tensor:
        ctx.matrix = matrix
        return matrix.times(dense)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, Tensor]:
        return None, spmm_transposed(ctx.matrix, grads[0])


class _TransposedProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, matrix: SparseMatrix, dense: Tensor) -> Tensor:
        ctx.matrix = matrix
        return matrix.transposed().times(dense)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, Tensor]:
        return None, spmm(ctx.matrix, grads[0])


def spmm(matrix: SparseMatrix, dense: Tensor) -> Tensor:
    """``matrix @ dense``; differentiable (any number of times) in ``dense`` only.  # [R, C] @ [C, h] -> [R, h]"""
    return _Product.apply(matrix, dense)


def spmm_transposed(matrix: SparseMatrix, dense: Tensor) -> Tensor:
    """``matrixᵀ @ dense``, as :func:`spmm`."""
    return _TransposedProduct.apply(matrix, dense)


def _csr_tensor(crow: Tensor, col: Tensor, values: Tensor, shape: tuple[int, int]) -> Tensor:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*[Ss]parse CSR tensor support is in beta.*")
        return torch.sparse_csr_tensor(crow, col, values, size=shape, check_invariants=False)
