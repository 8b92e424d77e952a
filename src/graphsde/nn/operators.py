"""Operators derived from the graph's own, on the same sparsity, built once per graph."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from typing import TypeVar
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from graphsde.base.device import widened
from graphsde.base.errors import BadUsage
from graphsde.graph.sparse import SparseMatrix
from graphsde.nn.over_parts import total

T = TypeVar("T")


class Kept(WeakKeyDictionary[SparseMatrix, dict[Hashable, T]]):
    """Cached results of a pure function, a limited number per graph, for as long as the graph's operator lives."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def once(self, adjacency: SparseMatrix, key: Hashable, build: Callable[[], T]) -> T:
        kept = self.setdefault(adjacency, {})
        if key not in kept:
            if len(kept) >= self.most:
                kept.pop(next(iter(kept)))
            kept[key] = build()
        return kept[key]


_KEPT: Kept[SparseMatrix] = Kept(8)


def rows_of(adjacency: SparseMatrix) -> Tensor:
    """The row of every stored entry.  # [E]"""
    return adjacency.rows_of_entries()


def diagonal(adjacency: SparseMatrix) -> Tensor:
    """Diagonal entries, zero if not stored.  # [N]"""
    on = adjacency.on_diagonal()
    return adjacency.values.new_zeros(adjacency.shape[0]).index_add_(0, rows_of(adjacency)[on], adjacency.values[on])


def scaled_plus_identity(adjacency: SparseMatrix, scale: float, shift: float) -> SparseMatrix:
    """``scale·A + shift·I`` as one matrix, so that a linear drift costs a single product.

    Needs the diagonal to be stored, as it is if every node has a self loop.
    """

    def build() -> SparseMatrix:
        on = adjacency.on_diagonal()
        if int(on.sum()) != adjacency.shape[0]:
            raise BadUsage(
                "the operator stores no diagonal entry for some nodes",
                code="E-SELF-LOOP",
                fix="use an operator with self loops, such as graph.adjacency.operator",
            )
        values = adjacency.values * scale
        values[on] += shift
        return adjacency.like(values, symmetric=adjacency.symmetric)

    return _KEPT.once(adjacency, ("affine", scale, shift), build)


def random_walk(adjacency: SparseMatrix) -> SparseMatrix:
    r"""The random walk with self loops, D̃⁻¹Ã, that belongs to the symmetric operator Â = D̃^{-1/2} Ã D̃^{-1/2}.

    With unit self loops Â holds its own degrees: Â_ii = 1/d̃_i. Rows that already sum to one are unchanged.
    """

    def build() -> SparseMatrix:
        rows = rows_of(adjacency)
        values = widened(adjacency.values)
        if _is_stochastic(rows, values, adjacency.shape[0]):
            return adjacency.with_values(adjacency.values)
        degree = 1.0 / widened(diagonal(adjacency))
        walk = values * (degree[adjacency.col] / degree[rows]).sqrt()
        if not _is_stochastic(rows, walk, adjacency.shape[0]):
            raise BadUsage(
                "no random walk can be read from this operator",
                code="E-OPERATOR",
                expected="the symmetrically normalised adjacency with unit self loops, or rows that sum to one",
                fix="use graph.adjacency.operator",
            )
        return adjacency.with_values(walk.to(adjacency.values.dtype))

    return _KEPT.once(adjacency, "random walk", build)


def _is_stochastic(rows: Tensor, values: Tensor, count: int) -> bool:
    total = values.new_zeros(count).index_add_(0, rows, values)
    return bool((values >= 0).all()) and bool(torch.allclose(total, torch.ones_like(total), rtol=0, atol=1e-4))


def smoothing_scale(adjacency: SparseMatrix) -> float:
    """1/ρ, ρ² the mean over rows of the sum of squares: B = Â/ρ turns white noise into noise of mean variance one."""
    energy = float(total(widened(adjacency.values).square().sum())) / max(int(total(adjacency.shape[0])), 1)
    return 1.0 / math.sqrt(energy) if energy > 0 else 0.0
