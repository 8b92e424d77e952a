"""A large graph whose arrays are memory-mapped files, which the system can drop and read again."""

from __future__ import annotations

import dataclasses
import functools
import os
import secrets
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from graphsde.base.memory import memory_limit
from graphsde.base.storage import io_error
from graphsde.graph.adjacency import Adjacency
from graphsde.graph.graph import Graph

if TYPE_CHECKING:
    from graphsde.graph.sparse import SparseMatrix

SHARE_OF_LIMIT = 8
BLOCK_ENTRIES = 1 << 20
"""Entries of a sparse matrix processed at once."""


def settled_within_limit(graph: Graph) -> Graph:
    """``graph`` itself, or :func:`settled` if there is a memory limit and the graph would use much of it."""
    limit = memory_limit()
    return graph if limit is None or _bytes(graph) * SHARE_OF_LIMIT <= limit else settled(graph)


def settled(graph: Graph, folder: Path | None = None) -> Graph:
    """The same graph with its features and edges in files of ``folder``, read as memory maps.

    Operators derived from the edges (the normalised one, …) go there as well. Every value is the same to the
    bit; labels, ids and masks, which are small, stay in memory, and existing maps are kept.

    Args:
        graph: any graph.
        folder: created if missing; files of an earlier call in it are replaced. It must exist as long as the
            graph is used. Default: a temporary folder that is removed with the graph.

    Example:
        >>> import tempfile
        >>> import graphsde as gs
        >>> graph = gs.load("digits")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     settled(graph, Path(folder)).fingerprint == graph.fingerprint
        True
    """
    store = ArrayFolder(folder)
    adjacency = SettledAdjacency(graph.adjacency, store)
    features = store.keep_matrix("features", graph.features)
    other = dataclasses.replace(graph, adjacency=adjacency, features=features)
    for name in ("fingerprint", "labelled", "familiar", "ood_nodes"):  # already known, and small
        if name in graph.__dict__:
            other.__dict__[name] = graph.__dict__[name]
    return other


class ArrayFolder:
    """Arrays in a folder, one ``.npy`` file each.

    Args:
        folder: default: a temporary one that is removed with this object. Its files are unlinked as soon as they
            are mapped, if the system allows it, so that a killed process leaves nothing behind.
    """

    def __init__(self, folder: Path | None) -> None:
        self.temporary = folder is None
        if folder is None:
            folder = Path(tempfile.mkdtemp(prefix="graphsde-"))
            weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self.folder = Path(folder)
        self.maps: dict[str, np.ndarray] = {}
        """Written arrays by name, as writable maps, so that torch does not warn."""

    def keep(self, name: str, values: np.ndarray) -> np.ndarray:
        """``values`` in a file, as a map; existing maps are returned unchanged."""
        if _is_map(values):
            return values
        return self.fill(name, values.shape, values.dtype, lambda new: np.copyto(new, values))

    def fill(self, name: str, shape: tuple[int, ...], dtype: Any, write: Callable[[np.ndarray], object]) -> np.ndarray:
        """A new array that ``write`` fills, as a map: private to this process and read-only.

        Readers that still have the old file open keep its content.
        """
        path = self.folder / f"{name}.npy"
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            new = np.lib.format.open_memmap(temporary, mode="w+", dtype=np.dtype(dtype), shape=shape)
            write(new)
            new.flush()
            del new
            os.replace(temporary, path)
            # "c": torch requires writable memory; nothing writes to it, so no page is ever copied
            self.maps[name] = np.load(path, mmap_mode="c", allow_pickle=False)
            if self.temporary and os.name == "posix":
                path.unlink()
        except OSError as error:
            raise io_error("write", path, error) from error
        finally:
            temporary.unlink(missing_ok=True)
        frozen = self.maps[name].view()
        frozen.setflags(write=False)
        return frozen

    def keep_matrix(self, name: str, matrix: Any) -> Any:
        """A dense or sparse matrix in files, read-only."""
        if not sp.issparse(matrix):
            return self.keep(name, np.asarray(matrix))
        parts = {part: self.keep(f"{name}.{part}", getattr(matrix, part)) for part in ("data", "indices", "indptr")}
        return self.as_csr(parts, matrix.shape, sorted_rows=bool(matrix.has_sorted_indices))

    def as_csr(self, parts: dict[str, np.ndarray], shape: tuple[int, ...], *, sorted_rows: bool = True) -> sp.csr_array:
        """A sparse matrix of maps, without checks, so that no page is read early."""
        made = sp.csr_array(shape, dtype=parts["data"].dtype)
        made.data, made.indices, made.indptr = parts["data"], parts["indices"], parts["indptr"]
        made.has_sorted_indices = sorted_rows
        made.has_canonical_format = sorted_rows
        return made


class SettledAdjacency(Adjacency):
    """Edges in files; derived operators are written there on first use, block by block.

    Args:
        adjacency: as it was built.
        store: where the files go.
    """

    def __init__(self, adjacency: Adjacency, store: ArrayFolder) -> None:
        super().__init__(store.keep_matrix("edges", adjacency.matrix), directed=adjacency.directed)
        self.store = store
        for name in ("fingerprint", "is_weighted", "components"):  # already known, and small
            if name in adjacency.__dict__:
                self.__dict__[name] = adjacency.__dict__[name]

    @cached_property
    def incoming(self) -> sp.csr_array:
        return self.store.keep_matrix("incoming", super().incoming) if self.directed else self.matrix

    @cached_property
    def normalized(self) -> sp.csr_array:
        incoming, nodes = self.incoming, self.num_nodes
        sums = np.empty(nodes, dtype=np.float64)
        for rows, looped in self._looped():
            sums[rows.start : rows.stop] = looped.sum(axis=1, dtype=np.float64)
        scale = 1.0 / np.sqrt(sums)
        indptr = incoming.indptr + np.arange(nodes + 1, dtype=incoming.indptr.dtype)

        def write(data: np.ndarray, indices: np.ndarray) -> None:
            for rows, looped in self._looped():
                begin, end = indptr[rows.start], indptr[rows.stop]
                looped.sort_indices()
                each = np.repeat(scale[rows.start : rows.stop], np.diff(looped.indptr))
                data[begin:end] = looped.data * each * scale[looped.indices]
                indices[begin:end] = looped.indices

        return self._written("normalized", indptr, incoming.indices.dtype, write)

    @cached_property
    def random_walk(self) -> sp.csr_array:
        incoming = self.incoming

        def write(data: np.ndarray) -> None:
            for rows in self._row_blocks():
                part = _rows(incoming, rows)
                total = part.sum(axis=1, dtype=np.float64)
                scale = np.divide(1.0, total, out=np.zeros_like(total), where=total > 0)
                begin, end = incoming.indptr[rows.start], incoming.indptr[rows.stop]
                data[begin:end] = part.data * np.repeat(scale, np.diff(part.indptr))

        parts = {
            "data": self.store.fill("random_walk.data", incoming.data.shape, np.float32, write),
            "indices": incoming.indices,
            "indptr": incoming.indptr,
        }
        return self.store.as_csr(parts, incoming.shape)

    @cached_property
    def operator(self) -> SparseMatrix:
        """Like that of any graph, with its positions and values in files."""
        import torch

        from graphsde.graph.sparse import SparseMatrix

        made = self.normalized

        for name in ("indptr", "indices"):
            values = getattr(made, name)
            self.store.fill(f"operator.{name}", values.shape, np.int64, functools.partial(_copy, values=values))
        maps = [self.store.maps[name] for name in ("operator.indptr", "operator.indices", "normalized.data")]
        crow, col, values = (torch.from_numpy(one) for one in maps)
        return SparseMatrix(crow, col, values, (self.num_nodes, self.num_nodes), symmetric=not self.directed)

    def _looped(self) -> Iterator[tuple[range, sp.csr_array]]:
        """Blocks of the rows of A + I."""
        for rows in self._row_blocks():
            loops = sp.eye_array(len(rows), self.num_nodes, k=rows.start, dtype=np.float32, format="csr")
            yield rows, sp.csr_array(_rows(self.incoming, rows) + loops)

    def _row_blocks(self) -> Iterator[range]:
        """Consecutive rows with at most :data:`BLOCK_ENTRIES` entries, or one row that has more."""
        indptr, first = self.incoming.indptr, 0
        while first < self.num_nodes:
            last = int(np.searchsorted(indptr, indptr[first] + BLOCK_ENTRIES, side="right")) - 1
            last = min(max(last, first + 1), first + BLOCK_ENTRIES, self.num_nodes)
            yield range(first, last)
            first = last

    def _written(
        self, name: str, indptr: np.ndarray, positions: Any, write: Callable[[np.ndarray, np.ndarray], None]
    ) -> sp.csr_array:
        """A sparse matrix over the nodes whose values and positions are written in one go."""
        count = (int(indptr[-1]),)
        parts: dict[str, np.ndarray] = {"indptr": self.store.keep(f"{name}.indptr", indptr)}

        def fill_both(data: np.ndarray) -> None:
            parts["indices"] = self.store.fill(f"{name}.indices", count, positions, lambda new: write(data, new))

        parts["data"] = self.store.fill(f"{name}.data", count, np.float32, fill_both)
        return self.store.as_csr(parts, self.matrix.shape)


def _is_map(values: Any) -> bool:
    """Whether an array is backed by a mapped file."""
    while values is not None and not isinstance(values, np.memmap):
        values = getattr(values, "base", None)
    return values is not None


def _bytes(graph: Graph) -> int:
    features: Any = graph.features
    numbers = features.nnz * 2 if sp.issparse(features) else features.size
    return 4 * int(numbers) + 24 * (graph.num_edges + graph.num_nodes)  # with the operator


def _rows(matrix: sp.csr_array, rows: range) -> sp.csr_array:
    """Consecutive rows of a matrix, which share its memory."""
    begin, end = matrix.indptr[rows.start], matrix.indptr[rows.stop]
    made = sp.csr_array((len(rows), matrix.shape[1]), dtype=matrix.dtype)
    made.data, made.indices = matrix.data[begin:end], matrix.indices[begin:end]
    made.indptr = matrix.indptr[rows.start : rows.stop + 1] - begin
    made.has_sorted_indices = made.has_canonical_format = True
    return made


def _copy(new: np.ndarray, values: np.ndarray) -> None:
    """Into another type without a copy in between."""
    for first in range(0, len(values), BLOCK_ENTRIES):
        new[first : first + BLOCK_ENTRIES] = values[first : first + BLOCK_ENTRIES]
