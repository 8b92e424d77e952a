"""Artificial distribution shift: the same graph with other features or other edges."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from graphsde.base.errors import BadUsage
from graphsde.base.memory import require_memory
from graphsde.base.registry import Registry
from graphsde.base.scratch import scratch_array
from graphsde.base.seeds import numpy_stream
from graphsde.graph.adjacency import Adjacency
from graphsde.graph.graph import Graph
from graphsde.graph.masks import mask_of

ROWS_AT_ONCE = 50_000
"""Rows of features mixed at a time; rows are independent."""


def count_pairs(n: int, *, directed: bool) -> int:
    return n * (n - 1) if directed else n * (n - 1) // 2


def encode(first: np.ndarray, second: np.ndarray, n: int, *, directed: bool) -> np.ndarray:
    """The number of each pair of different nodes; undirected pairs come with ``first < second``."""
    if directed:
        return first * (n - 1) + second - (second > first)
    return first * (2 * n - first - 1) // 2 + second - first - 1


def decode(numbers: np.ndarray, n: int, *, directed: bool) -> tuple[np.ndarray, np.ndarray]:
    """The pairs that :func:`encode` numbered."""
    if directed:
        first, second = np.divmod(numbers, n - 1)
        return first, second + (second >= first)
    # counted from the last pair, row r holds r + 1 pairs: the root of a small number is exact enough at any n
    last = count_pairs(n, directed=False) - 1 - numbers
    row = ((np.sqrt(8.0 * last + 1.0) - 1.0) / 2.0).astype(np.int64)
    row -= row * (row + 1) // 2 > last  # rounding can be off by at most one row
    return n - 2 - row, n - 1 - (last - row * (row + 1) // 2)


def draw_new_pairs(
    taken: np.ndarray, count: int, n: int, rng: np.random.Generator, *, directed: bool
) -> tuple[np.ndarray, np.ndarray]:
    """``count`` distinct pairs that are not in ``taken`` (sorted numbers), all equally likely.

    Draws ranks among the free pairs and shifts each by the taken ones before it: exact, with no rejection.
    """
    ranks = rng.choice(count_pairs(n, directed=directed) - taken.size, size=count, replace=False, shuffle=False)
    return decode(ranks + np.searchsorted(taken - np.arange(taken.size), ranks, side="right"), n, directed=directed)


SHIFTS: Registry[Any] = Registry("shift")
"""Makers of shifted graphs: ``maker(graph, *, seed=0, **options) -> Graph``."""

ROWS_AT_ONCE = 4096


@SHIFTS.register("interpolate-features", summary="every node's features become a random mixture of two other nodes'")
def interpolate_features(graph: Graph, seed: int = 0) -> Graph:
    """The "feature" shift of GNNSafe (Wu et al., 2023): x'_i = w x_a + (1 - w) x_b.

    a and b are uniform nodes and w ~ U(0, 1), drawn for every node; edges stay. Sparse features stay sparse. Text
    columns can't be mixed: they are taken from a.

    Example:
        >>> from graphsde.datasets.synthetic import synthetic
        >>> interpolate_features(synthetic(100), seed=1).num_edges
        1000
    """
    rng = numpy_stream(seed, "shift", "interpolate-features")
    n = graph.num_nodes
    first, second = rng.integers(n, size=(2, n))
    return mixed_features(graph, first, second, rng.random(n, dtype=np.float32))


def mixed_features(graph: Graph, first: np.ndarray, second: np.ndarray, weight: np.ndarray) -> Graph:
    """``graph`` with x'_i = w_i x_a(i) + (1 − w_i) x_b(i); text columns are those of a.  # [N] int64, [N] int64, [N]"""
    n = graph.num_nodes
    rows = np.arange(n)
    mixture = sp.csr_array(
        (np.concatenate([weight, 1 - weight]), (np.concatenate([rows, rows]), np.concatenate([first, second]))),
        shape=(n, n),
    )
    if graph.is_sparse:
        mixed: Any = mixture @ graph.features
    else:
        mixed = scratch_array(graph.features.shape, np.float32)
        for start in range(0, n, ROWS_AT_ONCE):
            mixed[start : start + ROWS_AT_ONCE] = mixture[start : start + ROWS_AT_ONCE] @ graph.features
    texts = {name: column[first] for name, column in graph.categorical.items()}
    mixed = sp.csr_array(mixed) if graph.is_sparse else mixed
    return dataclasses.replace(graph, features=mixed, categorical=MappingProxyType(texts))


@SHIFTS.register("rewire-sbm", summary="edges redrawn from a block model unrelated to the classes")
def rewire_sbm(graph: Graph, seed: int = 0) -> Graph:
    """The "structure" shift of GNNSafe: features stay, edges come from a stochastic block model.

    As many equal blocks as there are classes, nodes assigned to them at random; with d the share of all pairs
    that are edges, pairs are joined with probability 1.5 d inside a block and 0.5 d across.
    """
    rng = numpy_stream(seed, "shift", "rewire-sbm")
    n, blocks = graph.num_nodes, max(graph.num_classes, 1)
    density = graph.num_edges / (n * (n - 1))
    inside, across = min(1.5 * density, 1.0), 0.5 * density
    block = rng.permutation(np.arange(n) % blocks)
    total = count_pairs(n, directed=False)
    # draw every pair with the larger probability, then thin the pairs across blocks: never lists all pairs
    drawn = rng.choice(total, size=rng.binomial(total, inside), replace=False, shuffle=False)
    first, second = decode(drawn, n, directed=False)
    kept = (block[first] == block[second]) | (rng.random(drawn.size) < across / max(inside, 1e-300))
    ones = np.ones(int(kept.sum()), dtype=np.float32)
    return graph.with_adjacency(_both_ways(first[kept], second[kept], ones, graph))


@SHIFTS.register("gaussian-noise", summary="Gaussian noise on the features, in proportion to their spread")
def gaussian_noise(graph: Graph, severity: float = 0.5, rows: Literal["all", "test"] = "all", seed: int = 0) -> Graph:
    """X' = X + severity · ε, ε ~ N(0, σ²), σ the standard deviation of all entries of the test rows.

    The noise is the same for every severity and every model under one seed. The result is dense.

    Args:
        severity: multiple of σ.
        rows: which nodes get noise: all, or the test nodes only.

    Raises:
        NotEnoughMemory: if the dense matrix does not fit.
    """
    _require(0 <= severity < np.inf, "severity", severity, "0 or more")
    test = graph.test_mask
    if rows not in ("all", "test") or (rows == "test" and test is None):
        raise BadUsage("invalid value for rows", found=rows, expected="'all', or 'test' on a graph with a test mask")
    n, columns = graph.features.shape
    require_memory(
        n * columns * 4,
        f"noise on {n:,} × {columns:,} features, which makes them dense,",
        "use a smaller graph or fewer features",
    )
    sigma = _spread(graph.features if test is None else graph.features[test])
    features: Any = graph.features
    noisy = features.toarray() if graph.is_sparse else features.copy()
    rng = numpy_stream(seed, "shift", "gaussian-noise")
    for start in range(0, n, ROWS_AT_ONCE):
        part = slice(start, start + ROWS_AT_ONCE)
        noise = rng.standard_normal(noisy[part].shape, dtype=np.float32) * np.float32(severity * sigma)
        if rows == "test" and test is not None:
            noise *= test[part, None]
        noisy[part] += noise
    return graph.with_features(noisy)


@SHIFTS.register("bernoulli-features", summary="a share of the nodes gets Bernoulli(0.5) features")
def bernoulli_features(graph: Graph, share: float = 0.1, seed: int = 0) -> Graph:
    """Features ~ Bernoulli(0.5), divided by their sum, on a share of all nodes (Stadler et al., 2021).

    The changed test nodes become the ``ood`` mask and leave the ``test`` mask.
    """
    rng = numpy_stream(seed, "shift", "bernoulli-features")
    columns = graph.features.shape[1]

    def draw(count: int) -> np.ndarray:
        tosses = rng.integers(2, size=(count, columns), dtype=np.uint8).astype(np.float32)
        return tosses / np.maximum(tosses.sum(axis=1, keepdims=True), 1)

    return _replace_rows(graph, share, rng, draw)


@SHIFTS.register("normal-features", summary="a share of the nodes gets standard normal features")
def normal_features(graph: Graph, share: float = 0.1, seed: int = 0) -> Graph:
    """Features ~ N(0, 1) on a share of all nodes (Stadler et al., 2021); masks as for :func:`bernoulli_features`."""
    rng = numpy_stream(seed, "shift", "normal-features")
    columns = graph.features.shape[1]
    return _replace_rows(graph, share, rng, lambda count: rng.standard_normal((count, columns), dtype=np.float32))


@SHIFTS.register("drop-edges", summary="a share of the edges is removed")
def drop_edges(graph: Graph, share: float = 0.1, seed: int = 0) -> Graph:
    """Remove a share of the edges, uniformly; an undirected edge is removed in both directions."""
    _require(0 <= share <= 1, "share", share, "from 0 to 1")
    first, second, weights = _edge_list(graph)
    kept = np.sort(numpy_stream(seed, "shift", "drop-edges").permutation(first.size)[round(share * first.size) :])
    return graph.with_adjacency(_both_ways(first[kept], second[kept], weights[kept], graph))


@SHIFTS.register("add-edges", summary="edges between unconnected nodes are added, as a share of the existing ones")
def add_edges(graph: Graph, share: float = 0.1, seed: int = 0) -> Graph:
    """Join pairs that are not joined yet, uniformly; new weights are drawn from the existing ones."""
    _require(share >= 0, "share", share, "0 or more")
    first, second, weights = _edge_list(graph)
    n, directed = graph.num_nodes, graph.adjacency.directed
    taken = np.sort(encode(first, second, n, directed=directed))
    count = round(share * first.size)
    free = count_pairs(n, directed=directed) - taken.size
    _require(count <= free, "share", share, f"at most {free} new edges, all that are possible, not {count}")
    rng = numpy_stream(seed, "shift", "add-edges")
    new_first, new_second = draw_new_pairs(taken, count, n, rng, directed=directed)
    new_weights = rng.choice(weights, size=count) if count else weights[:0]
    ends = np.concatenate([first, new_first]), np.concatenate([second, new_second])
    return graph.with_adjacency(_both_ways(*ends, np.concatenate([weights, new_weights]), graph))


def _edge_list(graph: Graph) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Each edge once: an undirected one with its lower end first."""
    coo = graph.adjacency.matrix.tocoo()
    first, second = coo.row.astype(np.int64), coo.col.astype(np.int64)
    once = slice(None) if graph.adjacency.directed else first < second
    return first[once], second[once], coo.data[once]


def _both_ways(first: np.ndarray, second: np.ndarray, weights: np.ndarray, graph: Graph) -> Adjacency:
    n, directed = graph.num_nodes, graph.adjacency.directed
    one_way = sp.csr_array((weights, (first, second)), shape=(n, n))
    return Adjacency(one_way if directed else sp.csr_array(one_way + one_way.T), directed=directed)


def _replace_rows(graph: Graph, share: float, rng: np.random.Generator, draw: Callable[[int], np.ndarray]) -> Graph:
    _require(0 <= share <= 1, "share", share, "from 0 to 1")
    n, columns = graph.features.shape
    rows = np.sort(rng.permutation(n)[: round(share * n)])
    require_memory(rows.size * columns * 16, f"{rows.size:,} × {columns:,} new features", "change a smaller share")
    changed = mask_of(rows, n)
    if graph.is_sparse:
        keep = sp.dia_array((~changed[None, :] * np.float32(1), [0]), shape=(n, n))
        place = sp.csr_array((np.ones(rows.size, np.float32), (rows, np.arange(rows.size))), shape=(n, rows.size))
        features = sp.csr_array(sp.csr_array(keep @ graph.features) + place @ sp.csr_array(draw(rows.size)))
        features.eliminate_zeros()
    else:
        features = graph.features.copy()
        features[rows] = draw(rows.size)
    masks = dict(graph.masks)
    test = masks.get("test")
    masks["ood"] = changed if test is None else changed & test
    if test is not None:
        masks["test"] = test & ~changed
    return graph.with_features(features).with_masks(split=graph.split, **masks)


def _spread(features: Any) -> float:
    if not sp.issparse(features):
        return float(features.std(dtype=np.float64))
    entries = features.shape[0] * features.shape[1]
    values = features.data.astype(np.float64)
    return float(np.sqrt(max((values**2).sum() / entries - (values.sum() / entries) ** 2, 0.0)))


def _require(good: bool, name: str, found: object, expected: str) -> None:
    if not good:
        raise BadUsage(f"{name} can't be {found}", found=found, expected=expected)
