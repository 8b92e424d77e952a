"""Acquisitions by name: one call for every way of choosing nodes to label."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from graphsde.data.encoding import FeatureEncoder
from graphsde.data.graph import Graph
from graphsde.errors import BadUsage
from graphsde.prediction import Prediction
from graphsde.registry import Registry
from graphsde.seeds import numpy_stream


@dataclass(frozen=True, eq=False)
class Candidates:
    """What an acquisition may look at.

    Args:
        graph: all nodes; labels outside ``known`` must not be looked at.
        prediction: the present model's.
        pool: positions that may be chosen.
        known: positions whose labels the model was trained on.
        progress: share of the budget already spent, from 0 to 1.
        seed: for acquisitions that draw.
    """

    graph: Graph
    prediction: Prediction
    pool: np.ndarray
    known: np.ndarray
    progress: float = 0.0
    seed: int = 0

    def rng(self, purpose: str) -> np.random.Generator:
        return numpy_stream(self.seed, "acquisition", purpose, len(self.known))

    @cached_property
    def propagated(self) -> np.ndarray:
        """Features averaged over two steps of the graph, in at most 64 dimensions.  # [N, k]"""
        return propagated_features(self.graph)

    def top(self, values: np.ndarray, budget: int) -> np.ndarray:
        """The pool's nodes with the highest values; equal ones in the order of the graph.  # values [N]"""
        order = np.argsort(-values[self.pool], kind="stable")
        return self.pool[order[:budget]]


Acquisition = Callable[[Candidates, int], np.ndarray]
ACQUISITIONS: Registry[Acquisition] = Registry("acquisition")
"""Every acquisition: ``choose(candidates, budget) -> positions``, distinct and from the pool.

Facts that :func:`graphsde.tasks.ask.ask` reads: ``score``, the name of the score that it ranks by, and ``whole_batch``,
which says that it looks after the diversity of a batch itself.
"""


def acquire(name: str, candidates: Candidates, budget: int) -> np.ndarray:
    """Positions of the nodes to label next, best first.

    Args:
        name: one of ``ACQUISITIONS``.
        candidates: what may be looked at.
        budget: how many; fewer are returned where the pool is smaller.
    """
    choose = ACQUISITIONS.get(name)
    if budget < 1:
        raise BadUsage(f"a budget of {budget} labels", found=budget, expected="at least 1")
    if len(candidates.pool) == 0:
        raise BadUsage("there is no node left to label", code="E-EMPTY")
    return np.asarray(choose(candidates, min(budget, len(candidates.pool))), dtype=np.int64)


def propagated_features(graph: Graph, steps: int = 2, dimensions: int = 64) -> np.ndarray:
    """``Â^steps X`` in its leading singular directions: distances between nodes without an N × N matrix.

    Text columns count as indicators of their values, beside numeric columns of unit variance.
    """
    import scipy.sparse as sp
    from scipy.sparse.linalg import svds

    operator = graph.adjacency.normalized.astype(np.float64)
    known = FeatureEncoder.fit(graph, "standard").transform(graph) if graph.categorical else graph.features
    features = sp.csr_array(known, dtype=np.float64) if sp.issparse(known) else np.asarray(known, float)
    if features.shape[1] == 0:
        raise BadUsage(
            f"this acquisition looks at features, and {graph.name} has none",
            code="E-NO-FEATURES",
            fix="ask by entropy, margin or random",
        )
    width = min(dimensions, min(features.shape) - 1)
    if width < 1 or features.shape[1] <= dimensions:
        reduced = np.asarray(features.toarray() if sp.issparse(features) else features)  # type: ignore[union-attr]
    else:
        start = numpy_stream(0, "propagated features").standard_normal(min(features.shape))
        u, s, _ = svds(features, k=width, v0=start)
        reduced = u * s
    for _ in range(steps):
        reduced = operator @ reduced
    return np.asarray(reduced)


def nearest_to_centres(points: np.ndarray, count: int, seed: int, weights: np.ndarray | None = None) -> np.ndarray:
    """k-means, then the point nearest to each centre: medoids without all pairwise distances.  # [n, k] -> [count]"""
    from sklearn.cluster import KMeans

    if count >= len(points):
        return np.arange(len(points))
    means = KMeans(count, n_init=1, random_state=seed % 2**32).fit(points, sample_weight=weights)
    chosen: list[int] = []
    sizes = np.bincount(means.labels_, minlength=count)
    for cluster in np.argsort(-sizes, kind="stable"):
        distance = np.square(points - means.cluster_centers_[cluster]).sum(axis=1)
        distance[chosen] = np.inf
        chosen.append(int(distance.argmin()))
    return np.array(chosen)
