"""Partition of the nodes into parts of equal size with few edges between them."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
import scipy.sparse as sp

from graphsde.base.errors import BadUsage, MissingExtra
from graphsde.base.seeds import derive, numpy_stream
from graphsde.graph.adjacency import Adjacency

Method = Literal["auto", "metis", "stream"]
METHODS: tuple[Method, ...] = ("auto", "metis", "stream")
SLACK = 0.05
"""Allowed deviation of a part's size from an equal share."""
MOST_ENTRIES = 2**31 - 1  # of METIS, as its wheels are built
PASSES = 20
BLOCKS = 16  # of a pass; more of them cost time without cutting fewer edges
BLOCK_ENTRIES = 1 << 22  # neighbours counted at once
SETTLED = 0.002  # stop after a pass in which fewer than this share of nodes move


def partition(adjacency: Adjacency, parts: int, *, method: Method = "auto", seed: int = 0) -> np.ndarray:
    """The part of every node.  # [N] int32

    Every part gets N / ``parts`` nodes, within 5 % (or one node, if that is more). The direction and the
    weights of edges do not matter.

    Args:
        parts: at most one for each node.
        method: ``metis`` (Karypis and Kumar, 1998; the extra ``scale``), ``stream`` (linear deterministic greedy,
            Stanton and Kliot, 2012, restreamed as by Nishimura and Ugander, 2013), which needs nothing else and cuts
            more edges; ``auto`` uses METIS if it is installed.
        seed: the same seed gives the same parts.

    Example:
        >>> ring = sp.csr_array(np.roll(np.eye(8), 1, axis=1) + np.roll(np.eye(8), -1, axis=1))
        >>> np.bincount(partition(Adjacency(ring), 2, method="stream")).tolist()
        [4, 4]
    """
    _check(adjacency.num_nodes, parts, method)
    if parts == 1:
        return np.zeros(adjacency.num_nodes, dtype=np.int32)
    pattern = _pattern(adjacency)
    countable = pattern.nnz <= MOST_ENTRIES
    if method == "metis" and not countable:
        raise BadUsage(
            f"METIS counts up to {MOST_ENTRIES:,} entries", code="E-PARTS", found=pattern.nnz, fix="use method='stream'"
        )
    metis = None if method == "stream" or not countable else _pymetis(required=method == "metis")
    found = _streamed(pattern, parts, seed) if metis is None else _metis(metis, pattern, parts, seed)
    return _balanced(pattern, found, parts)


class HaloSize(NamedTuple):
    """What one part has, and what it needs from the others for a sparse product."""

    own: int
    """Nodes."""
    halo: int
    """Neighbours in other parts: rows sent to it for every product."""
    cut: int
    """Entries of the adjacency matrix that lead into it from other parts."""


def halo_sizes(adjacency: Adjacency, parts: np.ndarray) -> list[HaloSize]:
    """The sizes of each part, given the part of every node.

    Example:
        >>> path = Adjacency(sp.csr_array(np.eye(4, k=1) + np.eye(4, k=-1)))
        >>> halo_sizes(path, np.array([0, 0, 1, 1]))
        [HaloSize(own=2, halo=1, cut=1), HaloSize(own=2, halo=1, cut=1)]
    """
    incoming = adjacency.incoming
    count = int(parts.max()) + 1 if len(parts) else 0
    own = np.bincount(parts, minlength=count)
    receiver = np.repeat(parts, np.diff(incoming.indptr))
    crossing = receiver != parts[incoming.indices]
    receiver, sender = receiver[crossing].astype(np.int64), incoming.indices[crossing]
    cut = np.bincount(receiver, minlength=count)
    distinct = np.unique(receiver * adjacency.num_nodes + sender) // max(1, adjacency.num_nodes)
    halo = np.bincount(distinct, minlength=count)
    return [HaloSize(int(own[part]), int(halo[part]), int(cut[part])) for part in range(count)]


def _check(nodes: int, parts: int, method: str) -> None:
    if isinstance(parts, bool) or not isinstance(parts, int | np.integer) or not 1 <= parts <= max(1, nodes):
        raise BadUsage(
            f"a graph of {nodes:,} nodes can't have {parts!r} parts",
            code="E-PARTS", found=parts, expected=f"an integer from 1 to {max(1, nodes)}",
        )  # fmt: skip
    if method not in METHODS:
        raise BadUsage(f"unknown partitioning method {method!r}", code="E-PARTS", expected=", ".join(METHODS))


def _pattern(adjacency: Adjacency) -> sp.csr_array:
    """Pairs connected in either direction."""
    if not adjacency.directed:
        return adjacency.matrix
    either = sp.csr_array(adjacency.matrix + adjacency.incoming)
    either.sort_indices()
    return either


def _pymetis(*, required: bool) -> Any:
    try:
        import pymetis
    except ImportError:
        if required:
            raise MissingExtra("pymetis", "scale") from None
        return None
    return pymetis


def _metis(pymetis: Any, pattern: sp.csr_array, parts: int, seed: int) -> np.ndarray:
    csr = pymetis.CSRAdjacency(pattern.indptr.astype(np.int32), pattern.indices.astype(np.int32))
    options = pymetis.Options(seed=derive(seed, "metis") % 2**31)  # METIS has integers of 32 bits
    return np.asarray(pymetis.part_graph(parts, adjacency=csr, options=options).vertex_part, dtype=np.int32)


def _streamed(pattern: sp.csr_array, parts: int, seed: int) -> np.ndarray:
    """Blocks of nodes are streamed several times; each node moves to most of its neighbours, less so to full parts.

    The start is a breadth-first order (Cuthill and McKee, 1969) cut into equal pieces: a first pass over an empty
    partition would have to go node by node.
    """
    from scipy.sparse.csgraph import reverse_cuthill_mckee

    nodes = pattern.shape[0]
    part = np.empty(nodes, dtype=np.int32)
    part[reverse_cuthill_mckee(pattern, symmetric_mode=True)] = np.arange(nodes) * parts // nodes
    largest = _limits(nodes, parts)[1]
    rng = numpy_stream(seed, "partition")
    blocks = max(BLOCKS, nodes * parts // BLOCK_ENTRIES)
    for _ in range(PASSES):
        moved = sum(
            _move(pattern, part, np.sort(block), parts, largest)
            for block in np.array_split(rng.permutation(nodes), min(blocks, nodes))
        )
        if moved <= SETTLED * nodes:
            break
    return part


def _move(pattern: sp.csr_array, part: np.ndarray, nodes: np.ndarray, parts: int, largest: int) -> int:
    """Move those of ``nodes`` that fit better elsewhere, in place; returns how many moved."""
    size = np.bincount(part, minlength=parts)
    score = _neighbours(pattern, part, nodes, parts) * (1.0 - size / largest)
    here, there, row = part[nodes], score.argmax(axis=1), np.arange(len(nodes))
    gain = score[row, there] - score[row, here]
    movers = np.flatnonzero(gain > 0)
    movers = movers[np.lexsort((-gain[movers], there[movers]))]  # by destination, largest gain first
    goal = there[movers]
    rank = np.arange(len(movers)) - np.searchsorted(goal, goal)
    movers = movers[rank < largest - size[goal]]
    part[nodes[movers]] = there[movers]
    return len(movers)


def _neighbours(pattern: sp.csr_array, part: np.ndarray, nodes: np.ndarray, parts: int) -> np.ndarray:
    """How many neighbours each of ``nodes`` has in each part.  # [n, parts]"""
    begin = pattern.indptr[nodes].astype(np.int64)
    degree = pattern.indptr[nodes + 1] - begin
    ends = np.cumsum(degree)
    entries = np.arange(degree.sum()) + np.repeat(begin - ends + degree, degree)
    cell = np.repeat(np.arange(len(nodes)) * parts, degree) + part[pattern.indices[entries]]
    return np.bincount(cell, minlength=len(nodes) * parts).reshape(len(nodes), parts)


def _limits(nodes: int, parts: int) -> tuple[int, int]:
    """The smallest and largest allowed size of a part."""
    share = nodes / parts
    return min(nodes // parts, int(np.ceil((1 - SLACK) * share))), max(-(-nodes // parts), int((1 + SLACK) * share))


def _balanced(pattern: sp.csr_array, part: np.ndarray, parts: int) -> np.ndarray:
    """The same parts with the sizes of :func:`partition`; nodes with the least to lose are moved."""
    smallest, largest = _limits(len(part), parts)
    size = np.bincount(part, minlength=parts)
    for full in np.flatnonzero(size > largest):
        nodes = np.flatnonzero(part == full)
        near = _neighbours(pattern, part, nodes, parts)
        gain = near - near[:, [full]]
        gain[:, full] = np.iinfo(gain.dtype).min
        for row in np.argsort(-gain.max(axis=1), kind="stable")[: size[full] - largest]:
            goal = int(np.where(size < largest, gain[row], np.iinfo(gain.dtype).min).argmax())
            part[nodes[row]] = goal
            size[full] -= 1
            size[goal] += 1
    for poor in np.flatnonzero(size < smallest):
        nodes = np.flatnonzero(size[part] > smallest)
        near = _neighbours(pattern, part, nodes, parts)
        gain = near[:, poor] - near[np.arange(len(nodes)), part[nodes]]
        for row in np.argsort(-gain, kind="stable"):
            if size[poor] == smallest:
                break
            if size[part[nodes[row]]] > smallest:
                size[part[nodes[row]]] -= 1
                size[poor] += 1
                part[nodes[row]] = poor
    return part
