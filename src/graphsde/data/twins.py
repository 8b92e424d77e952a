"""Nodes that a model can't tell apart: the same features, or the same features and the same neighbours."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from graphsde.data.adjacency import Adjacency
from graphsde.data.graph import Graph

BLOCK = 1 << 22  # entries hashed at a time, so that a wide matrix needs no copy of itself


def feature_groups(graph: Graph) -> np.ndarray:
    """A number per node, equal exactly where all feature columns are equal.  # [N]

    Rows are compared by a 64-bit sum over their nonzero entries, so that sparse features stay sparse; two different
    rows fall together with a chance of about one in 10^19.
    """
    hashes = _row_hashes(graph.features)
    for position, column in enumerate(graph.categorical.values()):
        hashes += _scramble(_codes(column) + np.uint64(1)) * _keys(len(graph.categorical), seed=1)[position]
    return np.unique(hashes, return_inverse=True)[1]


def twin_of_training_node(graph: Graph, groups: np.ndarray) -> np.ndarray:
    """For every node outside the train split, a training node with equal features and neighbours; -1 if none.  # [N]

    Two nodes that are neighbours of each other count as having the same neighbours when all others are shared: a
    propagation with self loops makes them the same.
    """
    twin = np.full(graph.num_nodes, -1, dtype=np.int64)
    train = graph.train_mask
    if train is None or not train.any():
        return twin
    keys = _keys(graph.num_nodes, seed=2)
    around = _neighbour_hashes(graph.adjacency, keys)
    own = keys * _weight_keys(np.ones(1)) if graph.adjacency.is_weighted else keys  # the unit self loop
    for neighbours in (around, around + own):
        both = _scramble(groups.astype(np.uint64) + np.uint64(1)) + neighbours
        trained = np.flatnonzero(train)
        ranked = trained[np.argsort(both[trained], kind="stable")]
        slot = np.minimum(np.searchsorted(both[ranked], both), len(ranked) - 1)
        found = (both[ranked][slot] == both) & ~train & (twin < 0)
        twin[found] = ranked[slot][found]
    return twin


def _row_hashes(features: Any) -> np.ndarray:
    keys = _keys(features.shape[1], seed=0)
    if sp.issparse(features):
        terms = _scramble(_bits(features.data)) * keys[features.indices]
        return _row_sums(terms, features.indptr)
    hashes = np.zeros(len(features), dtype=np.uint64)
    step = max(1, BLOCK // max(1, features.shape[1]))
    for start in range(0, len(features), step):
        block = features[start : start + step]
        hashes[start : start + step] = (_scramble(_bits(block)) * keys).sum(axis=1, dtype=np.uint64)
    return hashes


def _neighbour_hashes(adjacency: Adjacency, keys: np.ndarray) -> np.ndarray:
    incoming = adjacency.incoming
    terms = keys[incoming.indices]
    if adjacency.is_weighted:
        terms = terms * _weight_keys(incoming.data)
    return _row_sums(terms, incoming.indptr)


def _weight_keys(weights: np.ndarray) -> np.ndarray:
    return _scramble(_bits(weights)) | np.uint64(1)


def _row_sums(terms: np.ndarray, indptr: np.ndarray) -> np.ndarray:
    running = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(terms, dtype=np.uint64)])
    return running[indptr[1:]] - running[indptr[:-1]]  # differences are right also where the sum wrapped around


def _bits(values: np.ndarray) -> np.ndarray:
    plain = np.ascontiguousarray(values, dtype=np.float32) + np.float32(0)  # -0 becomes 0
    return plain.view(np.uint32).astype(np.uint64)


def _codes(column: np.ndarray) -> np.ndarray:
    seen: dict[object, int] = {}
    return np.fromiter((seen.setdefault(value, len(seen)) for value in column), dtype=np.uint64, count=len(column))


def _keys(count: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 2**64, size=count, dtype=np.uint64) | np.uint64(1)


def _scramble(bits: np.ndarray) -> np.ndarray:
    """A bijection of 64-bit words that leaves 0 at 0 and spreads every other input over all bits."""
    bits = bits * np.uint64(0x9E3779B97F4A7C15)
    bits ^= bits >> np.uint64(29)
    bits *= np.uint64(0xBF58476D1CE4E5B9)
    bits ^= bits >> np.uint64(32)
    return bits
