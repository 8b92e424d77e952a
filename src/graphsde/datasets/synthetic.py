"""Graphs of any size with known properties: a degree-corrected stochastic block model with attributes."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from graphsde.base.errors import BadUsage
from graphsde.base.memory import memory_limit, require_memory
from graphsde.base.scratch import scratch_array
from graphsde.base.seeds import numpy_stream
from graphsde.graph.build import assemble
from graphsde.graph.graph import Graph
from graphsde.graph.raw import RawGraph
from graphsde.graph.target import RegressionTarget

MAX_ROUNDS = 50
ROWS_AT_ONCE = 50_000


def synthetic(
    n: int,
    *,
    classes: int = 5,
    features: int = 64,
    degree: float = 10.0,
    homophily: float = 0.8,
    power: float = 2.5,
    signal: float = 1.0,
    seed: int = 0,
) -> Graph:
    """A random attributed graph (degree-corrected stochastic block model, Karrer and Newman, 2011).

    Classes are of equal size. Each edge picks its first end in proportion to node weights with a power-law tail, stays
    in that class with probability ``homophily``, and picks its second end by the same weights. Features are
    x = signal · m_class + N(0, I) with orthonormal centres m, so centres are √2 · signal noise widths apart.
    Memory and time grow with the number of edges.

    Args:
        n: nodes.
        classes: classes, at most ``features``.
        features: columns.
        degree: mean number of neighbours.
        homophily: share of edges inside a class.
        power: exponent of the degree distribution's tail, above 2; smaller means larger hubs.
        signal: how far the classes' centres are from the origin.
        seed: the same seed gives the same graph.

    Example:
        >>> synthetic(100, classes=3, degree=4.0)
        Graph('synthetic', nodes=100, edges=400, features=64, classes=3)
    """
    _check(n, classes, features, degree, homophily, power)
    kept = 4 * features if memory_limit() is None else 0  # under a limit they may be in a file
    require_memory(int(n * (kept + 65 * degree + 150)), f"a graph of {n:,} nodes", "use fewer nodes")
    rng = numpy_stream(seed, "synthetic")
    labels = rng.permutation(np.arange(n) % classes)
    sources, targets = _edges(labels, _weights(n, degree, power, rng), round(n * degree / 2), homophily, rng)
    centres = np.linalg.qr(rng.standard_normal((features, classes)))[0].T  # [C, d], orthonormal rows
    values = scratch_array((n, features), np.float32)
    rng.standard_normal(dtype=np.float32, out=np.asarray(values))
    centres = (signal * centres).astype(np.float32)
    for start in range(0, n, ROWS_AT_ONCE):
        values[start : start + ROWS_AT_ONCE] += centres[labels[start : start + ROWS_AT_ONCE]]
    raw = RawGraph(
        num_nodes=n,
        numeric=values,
        owned=True,
        labels=labels,
        sources=sources,
        targets=targets,
        edges_by_id=False,
        class_names=[str(position) for position in range(classes)],
        name="synthetic",
    )
    del values, sources, targets  # free the edges once they are a matrix
    return assemble(raw)


def synthetic_regression(n: int, *, noise: float = 0.3, seed: int = 0, **settings: Any) -> Graph:
    """A :func:`synthetic` graph whose nodes have numbers instead of classes.

    A node's value depends on its neighbourhood's features, plus noise: y = a tanh(Â² X w) + e. The weights w are
    drawn once, and scaled so that the argument has unit variance over the nodes; a gives the signal unit variance too;
    e ~ N(0, noise² s²) with s = 3/2 in the half of the nodes with the higher first feature, averaged in the same way,
    and 1/2 in the other. So even the best possible model is more uncertain about some nodes.

    Args:
        n: nodes.
        noise: mean standard deviation of e; the signal has 1.
        seed: the same seed gives the same graph.
        settings: those of :func:`synthetic`.

    Example:
        >>> synthetic_regression(100, degree=4.0)
        Graph('synthetic-regression', nodes=100, edges=400, features=64, target='regression')
    """
    if not noise >= 0:
        raise BadUsage(f"invalid noise = {noise} for a synthetic graph", found=noise, expected="0 or more")
    graph = synthetic(n, seed=seed, **settings)
    rng = numpy_stream(seed, "synthetic values")
    averaged = np.asarray(graph.features, dtype=np.float64)
    for _ in range(2):
        averaged = graph.adjacency.normalized @ averaged
    signal = averaged @ rng.standard_normal(averaged.shape[1])
    signal = np.tanh((signal - signal.mean()) / signal.std())  # bounded, since isolated nodes are not averaged
    signal = (signal - signal.mean()) / signal.std()
    first = averaged[:, 0]
    scale = np.where(first > np.median(first), 1.5, 0.5)
    values = signal + noise * scale * rng.standard_normal(n)
    return dataclasses.replace(graph, target=RegressionTarget(values), name="synthetic-regression", notes=())


def _weights(n: int, degree: float, power: float, rng: np.random.Generator) -> np.ndarray:
    weights = (1.0 - rng.random(n)) ** (-1.0 / (power - 1.0))
    # above the structural cutoff two hubs would need more than one edge between them
    return np.minimum(weights, max(weights.mean() * np.sqrt(n / degree), 1.0))


def _edges(
    labels: np.ndarray, weights: np.ndarray, wanted: int, homophily: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Distinct pairs, in both directions; collisions are redrawn, for a bounded number of rounds."""
    n = labels.size
    order = np.argsort(labels, kind="stable")
    upto = np.concatenate([[0.0], np.cumsum(weights[order])])
    ends = np.searchsorted(labels[order], np.arange(labels.max() + 2))
    low, high = upto[ends[:-1]], upto[ends[1:]]  # each class owns one interval of the total weight
    total = upto[-1]

    def pick(points: np.ndarray) -> np.ndarray:
        return order[np.minimum(np.searchsorted(upto, points, side="right") - 1, n - 1)]

    pairs = np.zeros(0, dtype=np.int64)
    for _ in range(MAX_ROUNDS):
        missing = wanted - pairs.size
        if missing <= 0:
            break
        first = pick(rng.random(missing) * total)
        mine = labels[first]
        width = (high - low)[mine]
        inside = low[mine] + rng.random(missing) * width
        outside = rng.random(missing) * (total - width)
        outside += np.where(outside >= low[mine], width, 0.0)  # skip its own class
        second = pick(np.where((rng.random(missing) < homophily) | (width >= total), inside, outside))
        found = np.minimum(first, second) * n + np.maximum(first, second)
        pairs = np.sort(np.concatenate([pairs, found[first != second]]))
        pairs = pairs[np.diff(pairs, prepend=-1) > 0]  # several times faster than np.unique on integers
    kind = np.int32 if n <= np.iinfo(np.int32).max else np.int64
    first, second = (ends.astype(kind) for ends in np.divmod(pairs, n))
    del pairs
    return np.concatenate([first, second]), np.concatenate([second, first])


def _check(n: int, classes: int, features: int, degree: float, homophily: float, power: float) -> None:
    rules = (
        (isinstance(n, int | np.integer) and n >= 2, "n", n, "an integer of at least 2"),
        (1 <= classes <= min(n, features), "classes", classes, "from 1 to the smaller of n and features"),
        (0 < degree <= (n - 1) / 2, "degree", degree, "above 0 and at most half of the other nodes"),
        (0 <= homophily <= 1, "homophily", homophily, "a share from 0 to 1"),
        (power > 2, "power", power, "above 2, where the mean degree exists"),
    )
    for good, name, found, expected in rules:
        if not good:
            raise BadUsage(f"invalid {name} = {found} for a synthetic graph", found=found, expected=expected)
