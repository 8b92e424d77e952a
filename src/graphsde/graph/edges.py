"""From a raw list of edges to a clean adjacency: one entry per pair of nodes, symmetric unless directed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from graphsde.base.errors import BadInput, shorten
from graphsde.base.memory import require_memory
from graphsde.graph.adjacency import Adjacency
from graphsde.graph.features import check_structure
from graphsde.graph.ids import CodedTexts
from graphsde.graph.raw import NO_EDGES, Finding, ReadOptions

SHOWN = 5
_KEYS_AT_ONCE = 1_000_000


@dataclass
class Merged:
    """Edges without duplicates.

    Args:
        matrix: the weights, from row to column.  # [N, N] float32
        repeated: how many entries repeated an ordered pair.
        listed: how many ordered pairs there were before the other direction was added.
    """

    matrix: sp.csr_array
    repeated: int
    listed: int


def _pair_keys(sources: np.ndarray, targets: np.ndarray, num_nodes: int) -> np.ndarray:
    """``source · N + target``.  # [E] int64"""
    keys = sources.astype(np.int64)
    keys *= num_nodes
    keys += targets
    return keys


def merge_plain(keys: np.ndarray, num_nodes: int, *, directed: bool) -> Merged:
    """Edges without weights: a set of pairs, by their keys."""
    given = len(keys)
    keys = _distinct(keys)
    listed = len(keys)
    matrix = _of_sorted_keys(keys, num_nodes)
    del keys
    if not directed:
        # rows and columns stay in order in a transpose and in a sum: nothing is sorted twice
        matrix = sp.csr_array(matrix + sp.csr_array(matrix.T))
    ones = np.ones(matrix.nnz, dtype=np.float32)
    plain = sp.csr_array((ones, matrix.indices[: len(ones)], matrix.indptr), shape=matrix.shape)
    return Merged(plain, given - listed, listed)


def _of_sorted_keys(keys: np.ndarray, num_nodes: int) -> sp.csr_array:
    """A matrix of ones at ``row · N + column``, for keys in order and without repetition.  # [N, N] int8"""
    kind = sp.get_index_dtype(maxval=max(2 * len(keys), num_nodes))  # of both directions
    bounds = np.arange(num_nodes + 1, dtype=np.int64) * num_nodes
    starts = np.searchsorted(keys, bounds).astype(kind)
    columns = np.empty(len(keys), dtype=kind)
    for first in range(0, len(keys), _KEYS_AT_ONCE):
        part = slice(first, first + _KEYS_AT_ONCE)
        columns[part] = keys[part] % num_nodes
    matrix = sp.csr_array((np.ones(len(keys), dtype=np.int8), columns, starts), shape=(num_nodes, num_nodes))
    matrix.has_canonical_format = True
    return matrix


def _distinct(keys: np.ndarray) -> np.ndarray:
    """Like ``np.unique``, whose hashing is several times slower on millions of keys; in place."""
    keys.sort()
    kept, last = 0, -1
    for first in range(0, len(keys), _KEYS_AT_ONCE):
        part = keys[first : first + _KEYS_AT_ONCE]
        new = part[np.concatenate([part[:1] != last, part[1:] != part[:-1]])]
        last = part[-1]
        keys[kept : kept + len(new)] = new
        kept += len(new)
    return keys[:kept]


@dataclass(frozen=True)
class Entries:
    """Edges with weights: equal duplicates merge, different ones need a rule.

    Args:
        sources, targets, values: the two ends and the weight of each.  # [E]
        rows: where each was listed.  # [E]
        duplicates: the rule, one of :class:`~graphsde.graph.raw.ReadOptions`.
        edge_place, node_name: how messages name them.
    """

    sources: np.ndarray
    targets: np.ndarray
    values: np.ndarray
    rows: np.ndarray
    duplicates: str
    edge_place: Callable[[int], str]
    node_name: Callable[[int], str]

    def merge(self, num_nodes: int, *, directed: bool) -> Merged:
        """In an undirected graph two opposite entries of equal weight are one edge written both ways."""
        single = self.fold(self.sources * num_nodes + self.targets, once=False)
        listed = len(single.sources)
        ends, values = (single.sources, single.targets), single.values
        if not directed:
            single = single.fold(np.minimum(*ends) * num_nodes + np.maximum(*ends), once=True)
            one, other = single.sources, single.targets
            ends, values = (np.concatenate([one, other]), np.concatenate([other, one])), np.tile(single.values, 2)
        matrix = sp.csr_array((values, ends), shape=(num_nodes, num_nodes))
        return Merged(matrix, len(self.sources) - listed, listed)

    def fold(self, key: np.ndarray, *, once: bool) -> Entries:
        """One entry per key; ``once`` counts equal weights a single time even if weights are summed."""
        if not len(key):
            return self
        # summing in the order of the values makes the sum independent of the order of the listing
        order = np.lexsort((self.values if self.duplicates == "sum" else self.rows, key))
        key, values, rows = key[order], self.values[order], self.rows[order]
        first = np.flatnonzero(np.concatenate([[True], key[1:] != key[:-1]]))
        different = np.maximum.reduceat(values, first) != np.minimum.reduceat(values, first)
        if self.duplicates == "error" and different.any():
            raise self._conflict(order, first, different)
        folded = values[first]
        if self.duplicates == "sum":
            with np.errstate(over="ignore"):
                total = np.add.reduceat(values.astype(np.float64), first).astype(np.float32)
            folded = np.where(different, total, folded) if once else total
        kept, listed = order[first], np.minimum.reduceat(rows, first)
        return replace(self, sources=self.sources[kept], targets=self.targets[kept], values=folded, rows=listed)

    def _conflict(self, order: np.ndarray, first: np.ndarray, different: np.ndarray) -> BadInput:
        group, count = int(different.argmax()), int(different.sum())
        stop = first[group + 1] if group + 1 < len(first) else len(order)
        members = order[first[group] : stop]
        seen = ", ".join(f"{value:g}" for value in self.values[members[:SHOWN]])
        ends = " – ".join(self.node_name(int(end[members[0]])) for end in (self.sources, self.targets))
        plural = "edges come" if count > 1 else "edge comes"
        return BadInput(
            f"{count:,} {plural} with different weights; the first, {ends}, with {seen}",
            code="E-DUP-WEIGHT",
            place=" and ".join(self.edge_place(int(row)) for row in self.rows[members[:2]]),
            found=seen,
            expected="one weight per edge",
            fix="--read duplicates=sum adds them up, duplicates=first keeps the first; --read directed=true if the two "
            "directions differ",
        )


_LOOPS = "dropped: the propagation adds its own"
# at the peak of clean_edges: keys, order, both directions, weights; measured 95 to 151, without weights 30 to 60
BYTES_PER_EDGE, BYTES_PER_PLAIN_EDGE = 160, 60

Ends = tuple[Sequence[Any] | np.ndarray | CodedTexts, Sequence[Any] | np.ndarray | CodedTexts]


def clean_edges(
    sources: np.ndarray,
    targets: np.ndarray,
    weights: np.ndarray | None,
    num_nodes: int,
    options: ReadOptions,
    edge_place: Callable[[int], str],
    node_name: Callable[[int], str] = str,
    *,
    written: Ends | None = None,
) -> tuple[Adjacency, list[Finding]]:
    """Drop, merge and symmetrise edges, counting everything that is changed.

    The result does not depend on the order of the edges, except under ``duplicates="first"``.

    Args:
        sources, targets: positions of the two ends; anything outside ``0 … num_nodes - 1`` is unknown.  # [E]
        weights: one number per edge, ``None`` for an unweighted graph.  # [E]
        num_nodes: how many nodes there are.
        options: what to do with direction, duplicates and unknown ends.
        edge_place: describes where edge ``i`` is.
        node_name: the user's name of the node at a position.
        written: the two ends as the user wrote them, to name the unknown ones.

    Example:
        >>> adjacency, findings = clean_edges(
        ...     np.array([0, 1, 1]), np.array([1, 0, 1]), None, 2, ReadOptions(), str
        ... )
        >>> adjacency.num_edges, [finding.code for finding in findings]
        (2, ['W-SELF-LOOPS'])
    """
    _check_columns(sources, targets, weights)
    fix = "use a machine with more memory, or fewer edges"
    each = BYTES_PER_PLAIN_EDGE if weights is None else BYTES_PER_EDGE
    require_memory(len(sources) * each, f"cleaning {len(sources):,} edges", fix)
    values = None if weights is None else _check_weights(weights, edge_place)
    findings = []
    keep = (sources >= 0) & (sources < num_nodes) & (targets >= 0) & (targets < num_nodes)
    if not keep.all():
        findings.append(_unknown_ends(~keep, sources, targets, num_nodes, written, options, edge_place))
    useless = [("W-SELF-LOOPS", f"self loop {_LOOPS}", f"self loops {_LOOPS}", sources == targets)]
    if values is not None:
        words = "edge of weight zero dropped", "edges of weight zero dropped"
        useless.insert(0, ("W-WEIGHT-ZERO", *words, values == 0))
    for code, one, many, dropped in useless:
        dropped_rows = np.flatnonzero(dropped & keep)
        if count := len(dropped_rows):
            where = tuple(edge_place(int(row)) for row in dropped_rows[:SHOWN])
            findings.append(Finding(code, "warning", f"{count:,} {many if count > 1 else one}", count, where))
            keep[dropped_rows] = False
    if values is None:
        if not keep.all():
            sources, targets = sources[keep], targets[keep]
        keys = [_pair_keys(sources, targets, num_nodes)]
        del sources, targets, keep, useless, dropped
        merged = merge_plain(keys.pop(), num_nodes, directed=options.directed)
    else:
        rows = np.flatnonzero(keep)
        ends = sources[rows].astype(np.int64), targets[rows].astype(np.int64)
        entries = Entries(*ends, values[rows], rows, options.duplicates, edge_place, node_name)
        merged = entries.merge(num_nodes, directed=options.directed)
    findings += _tell_merged(merged.repeated, merged.listed, merged.matrix.nnz)
    if not np.isfinite(merged.matrix.data).all():
        raise BadInput(
            "a sum of duplicate weights is too large for float32",
            code="E-WEIGHT",
            fix="divide all weights by a constant",
        )
    return Adjacency(merged.matrix, directed=options.directed), findings


def edges_of_matrix(matrix: Any, num_nodes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Sources, targets and weights (``None`` if all are one) of a scipy adjacency, whose row is the source."""
    if matrix.shape != (num_nodes, num_nodes):
        shape = "×".join(str(size) for size in matrix.shape)
        raise BadInput(
            f"the adjacency is {shape} but there are {num_nodes} nodes",
            code="E-LEN",
            found=shape,
            expected=f"{num_nodes}×{num_nodes}",
        )
    check_structure(matrix)
    if matrix.dtype.kind not in "biuf":
        raise BadInput(f"the adjacency has dtype {matrix.dtype}", code="E-DTYPE", expected="numbers")
    entries = matrix.tocoo()
    data = np.asarray(entries.data)
    return entries.row, entries.col, None if bool(np.all(data == 1)) else data


def _check_columns(sources: np.ndarray, targets: np.ndarray, weights: np.ndarray | None) -> None:
    sizes = {"sources": len(sources), "targets": len(targets)}
    if weights is not None:
        sizes["weights"] = len(np.atleast_1d(weights))
    if len(set(sizes.values())) > 1:
        found = ", ".join(f"{size:,} {what}" for what, size in sizes.items())
        raise BadInput(
            f"the edge columns differ in length: {found}", code="E-LEN", found=found, expected="one entry per edge"
        )
    for ends in (sources, targets):
        if len(ends) and ends.dtype.kind not in "iu":
            raise BadInput(f"the ends of edges have dtype {ends.dtype}", code="E-DTYPE", expected="integer positions")


def _check_weights(weights: np.ndarray, edge_place: Callable[[int], str]) -> np.ndarray:
    array = np.asarray(weights)
    if array.ndim != 1 or array.dtype.kind not in "biuf":
        raise BadInput(
            f"edge weights have dtype {array.dtype} and shape {array.shape}",
            code="E-DTYPE",
            expected="one number per edge",
        )
    with np.errstate(over="ignore", under="ignore"):
        values = array.astype(np.float32)
    bad = ~np.isfinite(values) | (values < 0)
    if bad.any():
        row, count = int(bad.argmax()), int(bad.sum())
        raise BadInput(
            f"{count:,} edge {'weights are' if count > 1 else 'weight is'} negative or not finite",
            code="E-WEIGHT",
            place=edge_place(row),
            found=str(array[row]),
            expected="positive numbers below 3.4e38",
            fix="remove these edges or correct their weights",
        )
    return values


def _unknown_ends(
    unknown: np.ndarray,
    sources: np.ndarray,
    targets: np.ndarray,
    num_nodes: int,
    written: Ends | None,
    options: ReadOptions,
    edge_place: Callable[[int], str],
) -> Finding:
    count, named = int(unknown.sum()), []
    for row in np.flatnonzero(unknown)[:SHOWN].tolist():
        missing = [
            shorten(str((ends if written is None else written[side])[row]), 60)
            for side, ends in enumerate((sources, targets))
            if not 0 <= ends[row] < num_nodes
        ]
        named.append(f"{' and '.join(missing)} ({edge_place(row)})")
    message = f"{count:,} {'edges lead' if count > 1 else 'edge leads'} to an unknown node"
    if options.unknown_edges == "drop":
        return Finding("W-EDGE-DROPPED", "warning", f"{message}: dropped", count, tuple(named))
    raise BadInput(
        f"{message}: {', '.join(named)}{', …' if count > SHOWN else ''}",
        code="E-EDGE-UNKNOWN",
        place=edge_place(int(unknown.argmax())),
        found=named[0],
        expected=f"positions 0 to {num_nodes - 1}" if written is None else "ids of listed nodes",
        fix="add the missing nodes, or drop these edges: --read unknown_edges=drop, in Python unknown_edges='drop'",
    )


def counted_from_elsewhere(sources: Any, targets: Any, node_ids: np.ndarray) -> str | None:
    """A hint if edges count nodes from 1 but nodes are numbered from 0, or vice versa."""
    ends = np.concatenate([np.asarray(sources), np.asarray(targets)])
    if ends.dtype.kind not in "iu" or node_ids.dtype.kind not in "iu":
        return None
    first, last = int(node_ids.min()), int(node_ids.max())
    if (int(ends.min()), int(ends.max())) == (first + 1, last + 1) and first == 0:
        return (
            f"the edges seem to count nodes from 1, but nodes are numbered from 0 to {last}: subtract 1 from both ends"
        )
    if (int(ends.min()), int(ends.max())) == (first - 1, last - 1) and first == 1:
        return f"the edges seem to count nodes from 0, but nodes are numbered from 1 to {last}: add 1 to both ends"
    return None


def _tell_merged(repeated: int, listed: int, entries: int) -> list[Finding]:
    findings = [] if entries else [NO_EDGES]
    if repeated:
        message = f"{repeated:,} duplicate {'edges' if repeated > 1 else 'edge'} merged"
        findings.append(Finding("W-DUP-EDGES", "warning", message, repeated))
    if entries != listed:
        message = f"symmetrised: {listed:,} → {entries:,} directed entries"
        findings.append(
            Finding(
                "W-SYMMETRISED",
                "note",
                message,
                entries - listed,
                hint="to keep directions: --read directed=true, in Python directed=True",
            )
        )
    return findings
