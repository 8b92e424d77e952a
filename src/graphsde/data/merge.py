"""One entry per pair of nodes: duplicates merged, both directions made equal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from graphsde.errors import BadInput

SHOWN = 5


@dataclass
class Merged:
    """Edges without duplicates.

    Args:
        sources, targets: the two ends.  # [E]
        values: the weights.  # [E] float32
        repeated: how many entries repeated an ordered pair.
        listed: how many ordered pairs there were before the other direction was added.
    """

    sources: np.ndarray
    targets: np.ndarray
    values: np.ndarray
    repeated: int
    listed: int


def merge_plain(sources: np.ndarray, targets: np.ndarray, num_nodes: int, *, directed: bool) -> Merged:
    """Edges without weights: a set of pairs."""
    keys = _distinct(sources * num_nodes + targets)
    repeated, listed = len(sources) - len(keys), len(keys)
    if not directed:
        keys = _distinct(np.concatenate([keys, (keys % num_nodes) * num_nodes + keys // num_nodes]))
    return Merged(keys // num_nodes, keys % num_nodes, np.ones(len(keys), dtype=np.float32), repeated, listed)


def _distinct(keys: np.ndarray) -> np.ndarray:
    """As ``np.unique``, whose hashing is several times slower on millions of keys."""
    keys.sort()
    return keys[np.concatenate([[True], keys[1:] != keys[:-1]])] if len(keys) else keys


def merge_weighted(
    sources: np.ndarray,
    targets: np.ndarray,
    values: np.ndarray,
    rows: np.ndarray,
    num_nodes: int,
    *,
    directed: bool,
    duplicates: str,
    edge_place: Callable[[int], str],
    node_name: Callable[[int], str],
) -> Merged:
    """Edges with weights: equal duplicates merge, different ones need a rule.

    In an undirected graph two opposite entries of equal weight are one edge written both ways, whatever the rule.
    """
    entries = _Entries(sources, targets, values, rows, duplicates, edge_place, node_name)
    entries = entries.fold(sources * num_nodes + targets, once=False)
    repeated, listed = len(sources) - len(entries.sources), len(entries.sources)
    if not directed:
        low, high = np.minimum(entries.sources, entries.targets), np.maximum(entries.sources, entries.targets)
        entries = entries.fold(low * num_nodes + high, once=True)
        both = np.concatenate([entries.sources, entries.targets]), np.concatenate([entries.targets, entries.sources])
        return Merged(*both, np.tile(entries.values, 2), repeated, listed)
    return Merged(entries.sources, entries.targets, entries.values, repeated, listed)


@dataclass
class _Entries:
    sources: np.ndarray
    targets: np.ndarray
    values: np.ndarray
    rows: np.ndarray
    duplicates: str
    edge_place: Callable[[int], str]
    node_name: Callable[[int], str]

    def fold(self, key: np.ndarray, *, once: bool) -> _Entries:
        """One entry per key; ``once`` counts equal weights a single time even where weights are summed."""
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
        kept = order[first]
        listed_first = np.minimum.reduceat(rows, first)
        return _Entries(
            self.sources[kept],
            self.targets[kept],
            folded,
            listed_first,
            self.duplicates,
            self.edge_place,
            self.node_name,
        )

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
            fix="read with duplicates=sum or duplicates=first, or with directed=true if the two directions differ",
        )
