"""Which nodes to have labelled next: acquisitions by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from graphsde.base.errors import BadUsage
from graphsde.base.registry import Registry
from graphsde.base.scratch import scratch_array
from graphsde.base.seeds import numpy_stream
from graphsde.graph.graph import Graph
from graphsde.nn.encoding import FeatureEncoder
from graphsde.prediction import ClassPrediction, Prediction, require
from graphsde.uncertainty.scores import score


@dataclass(frozen=True, eq=False)
class Candidates:
    """What an acquisition may use.

    Args:
        graph: all nodes; labels outside ``known`` must not be used.
        prediction: of the current model.
        pool: positions that may be chosen.
        known: positions whose labels the model was trained on.
        progress: share of the budget already spent, from 0 to 1.
        seed: for acquisitions that draw at random.
    """

    graph: Graph
    prediction: Prediction
    pool: np.ndarray
    known: np.ndarray
    progress: float = 0.0
    seed: int = 0

    def rng(self, purpose: str) -> np.random.Generator:
        return numpy_stream(self.seed, "acquisition", purpose, len(self.known))

    @property
    def points(self) -> np.ndarray:
        """A point per node: the model's embedding, or its class probabilities if it has none.  # [N, k]"""
        embedding = self.prediction.embedding
        return np.asarray(self.prediction.mean if embedding is None else embedding, dtype=np.float64)

    @cached_property
    def propagated(self) -> np.ndarray:
        """Features averaged over two steps of the graph, in at most 64 dimensions.  # [N, k]"""
        return propagated_features(self.graph)

    def top(self, values: np.ndarray, budget: int) -> np.ndarray:
        """The pool's nodes with the highest values; ties in the order of the graph.  # values [N]"""
        return self.pool[np.argsort(-values[self.pool], kind="stable")[:budget]]


Acquisition = Callable[[Candidates, int], np.ndarray]
COLUMNS_AT_ONCE, ROWS_AT_ONCE = 8, 100_000
ACQUISITIONS: Registry[Acquisition] = Registry("acquisition")
"""Every acquisition: ``choose(candidates, budget) -> positions``, distinct and from the pool.

Facts that :func:`graphsde.acting.ask.ask` reads: ``score``, the name of the score that it ranks by, and
``whole_batch``, which says that it makes a batch diverse itself.
"""


def acquire(name: str, candidates: Candidates, budget: int) -> np.ndarray:
    """Positions of the nodes to label next, best first.

    Args:
        name: one of ``ACQUISITIONS``.
        candidates: what may be used.
        budget: how many; fewer if the pool is smaller.
    """
    choose = ACQUISITIONS.get(name)
    if budget < 1:
        raise BadUsage(f"the budget is {budget} labels", found=budget, expected="at least 1")
    if len(candidates.pool) == 0:
        raise BadUsage("no node is left to label", code="E-EMPTY")
    return np.asarray(choose(candidates, min(budget, len(candidates.pool))), dtype=np.int64)


def propagated_features(graph: Graph, steps: int = 2, dimensions: int = 64) -> np.ndarray:
    """``Â^steps X`` in its leading singular directions: distances between nodes without an N × N matrix.

    Text columns count as indicators of their values, next to numeric columns of unit variance.
    """
    import scipy.sparse as sp
    from scipy.sparse.linalg import svds

    operator = graph.adjacency.normalized.astype(np.float64)
    known = FeatureEncoder.fit(graph, "standard").transform(graph) if graph.categorical else graph.features
    features: Any = sp.csr_array(known, dtype=np.float64) if sp.issparse(known) else known
    if features.shape[1] == 0:
        raise BadUsage(
            f"this acquisition needs features, and {graph.name} has none",
            code="E-NO-FEATURES",
            fix="ask by entropy, margin or random",
        )
    width = min(dimensions, min(features.shape) - 1)
    if width < 1 or features.shape[1] <= dimensions:
        reduced = features
    else:
        start = numpy_stream(0, "propagated features").standard_normal(min(features.shape))
        u, s, _ = svds(features if sp.issparse(features) else np.asarray(features, float), k=width, v0=start)
        reduced = u * s
    result = scratch_array(reduced.shape, np.float64)
    for first in range(0, reduced.shape[1], COLUMNS_AT_ONCE):  # columns don't mix
        some = reduced[:, first : first + COLUMNS_AT_ONCE]
        some = np.ascontiguousarray(some.toarray() if sp.issparse(some) else some, dtype=np.float64)
        for _ in range(steps):
            some = operator @ some
        result[:, first : first + COLUMNS_AT_ONCE] = some
    return result


def nearest_to_centres(points: np.ndarray, count: int, seed: int, weights: np.ndarray | None = None) -> np.ndarray:
    """k-means, then the point nearest to each centre: medoids without all pairwise distances.  # [n, k] -> [count]"""
    from sklearn.cluster import KMeans

    if count >= len(points):
        return np.arange(len(points))
    means = KMeans(count, n_init=1, random_state=seed % 2**32).fit(points, sample_weight=weights)
    sizes = np.bincount(means.labels_, minlength=count)
    return _nearest(points, means.cluster_centers_[np.argsort(-sizes, kind="stable")])


def _nearest(points: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """The nearest point to one centre after another, each point once.  # [n, k], [c, k] -> [c]"""
    chosen: list[int] = []
    distance = np.empty(len(points))
    for centre in centres:
        for first in range(0, len(points), ROWS_AT_ONCE):
            part = slice(first, first + ROWS_AT_ONCE)
            distance[part] = np.square(points[part] - centre).sum(axis=1)
        distance[chosen] = np.inf
        chosen.append(int(distance.argmin()))
    return np.array(chosen)


@ACQUISITIONS.register(
    "pagerank", summary="most central nodes", paper="Cai et al., Active learning for graph embedding", year=2017
)
def most_central(candidates: Candidates, budget: int) -> np.ndarray:
    return candidates.top(pagerank(candidates.graph), budget)


@ACQUISITIONS.register(
    "density",
    summary="nodes with many similar ones around them in propagated features, one per neighbourhood",
    whole_batch=True,
)
def densest(candidates: Candidates, budget: int) -> np.ndarray:
    """The nodes nearest to the centres of ``budget`` clusters of the pool, largest cluster first; clusters
    that hold labelled nodes already come last."""
    from sklearn.cluster import KMeans

    points = candidates.propagated
    count = min(budget + len(candidates.known), len(candidates.pool))
    means = KMeans(count, n_init=1, random_state=candidates.seed % 2**32).fit(points[candidates.pool])
    taken = set(means.predict(points[candidates.known]).tolist()) if len(candidates.known) else set()
    sizes = np.bincount(means.labels_, minlength=count)
    order = sorted(range(count), key=lambda cluster: (cluster in taken, -sizes[cluster], cluster))
    return candidates.pool[_nearest(points[candidates.pool], means.cluster_centers_[order[:budget]])]


def pagerank(graph: Graph, damping: float = 0.85, rounds: int = 60) -> np.ndarray:
    """Stationary share of a random surfer; nodes without edges get only the jumps.  # [N]"""
    incoming = graph.adjacency.incoming.astype(np.float64)
    out = np.asarray(incoming.sum(axis=0)).ravel()
    share = np.divide(1.0, out, out=np.zeros_like(out), where=out > 0)
    n = graph.num_nodes
    rank = np.full(n, 1.0 / n)
    for _ in range(rounds):
        lost = rank[out == 0].sum()
        rank = damping * (incoming @ (rank * share) + lost / n) + (1 - damping) / n
    return rank


@ACQUISITIONS.register(
    "age",
    summary="a mixture of ranks of entropy, embedding density and PageRank that shifts towards entropy",
    paper="Cai et al., Active learning for graph embedding",
    year=2017,
)
def mixture(candidates: Candidates, budget: int) -> np.ndarray:
    """Percentile ranks within the pool; the weight of centrality is drawn from Beta(1, b) with b growing."""
    from sklearn.cluster import KMeans

    pool, prediction = candidates.pool, require(candidates.prediction, ClassPrediction, "the acquisition 'age'")
    points = candidates.points
    clusters = min(prediction.num_classes, len(pool))
    means = KMeans(clusters, n_init=1, random_state=candidates.seed % 2**32).fit(points)
    density = 1.0 / (1.0 + means.transform(points[pool]).min(axis=1))
    central = min(float(candidates.rng("age").beta(1.0, 1.005 + 20.0 * candidates.progress)), 1.0)
    doubt = _percentile(score("entropy", prediction)[pool])
    mixed = central * _percentile(pagerank(candidates.graph)[pool])
    mixed += (1 - central) / 2 * (doubt + _percentile(density))
    return pool[np.argsort(-mixed, kind="stable")[:budget]]


def _percentile(values: np.ndarray) -> np.ndarray:
    from scipy.stats import rankdata  # slow to import, and every worker process imports this module

    return rankdata(values) / len(values)


@ACQUISITIONS.register("random", summary="nodes at random", whole_batch=True)
def at_random(candidates: Candidates, budget: int) -> np.ndarray:
    return candidates.rng("random").permutation(candidates.pool)[:budget]


@ACQUISITIONS.register(
    "stratified-random", summary="nodes at random, balanced over predicted classes", whole_batch=True
)
def stratified(candidates: Candidates, budget: int) -> np.ndarray:
    order = candidates.rng("stratified").permutation(candidates.pool)
    classes = require(candidates.prediction, ClassPrediction, "stratified drawing").index[order]
    # the k-th node of its class comes before the (k+1)-th of any
    turn = np.zeros(len(order), dtype=np.int64)
    for position in np.unique(classes):
        turn[classes == position] = np.arange(int((classes == position).sum()))
    return order[np.argsort(turn, kind="stable")][:budget]


@ACQUISITIONS.register(
    "coreset",
    summary="nodes farthest from all labelled ones in the model's embedding, one after another",
    paper="Sener and Savarese, Active learning for convolutional neural networks: a core-set approach",
    year=2018,
    whole_batch=True,
)
def farthest_first(candidates: Candidates, budget: int) -> np.ndarray:
    """Class probabilities replace the embedding of a model that has none."""
    points = candidates.points
    pool = points[candidates.pool]
    if len(candidates.known):
        distance = np.full(len(pool), np.inf)
        for node in candidates.known:
            np.minimum(distance, np.square(pool - points[node]).sum(axis=1), out=distance)
    else:
        distance = np.square(pool - pool.mean(axis=0)).sum(axis=1)
    chosen = []
    for _ in range(budget):
        best = int(distance.argmax())
        chosen.append(best)
        np.minimum(distance, np.square(pool - pool[best]).sum(axis=1), out=distance)
        distance[chosen] = -np.inf
    return candidates.pool[chosen]


@ACQUISITIONS.register(
    "featprop",
    summary="medoids of clusters of propagated features, those far from labelled nodes first",
    paper="Wu et al., Active learning for graph neural networks via node feature propagation",
    year=2019,
    whole_batch=True,
)
def medoids(candidates: Candidates, budget: int) -> np.ndarray:
    """As many clusters as there will be labels; a cluster with a labelled node is covered. k-means and the node
    nearest to each centre replace the paper's k-medoids, which needs all pairwise distances."""
    points, pool, known = candidates.propagated, candidates.pool, candidates.known
    nodes = np.concatenate([pool, known])
    centres = nearest_to_centres(points[nodes], min(len(nodes), budget + len(known)), candidates.seed)
    free = [nodes[c] for c in centres if c < len(pool)]
    if len(known) and free:
        gaps = [np.square(points[known] - points[node]).sum(axis=1).min() for node in free]
        free = [free[i] for i in np.argsort(-np.array(gaps), kind="stable")]
    chosen = free[:budget]
    rest = np.setdiff1d(pool, chosen, assume_unique=False)
    missing = budget - len(chosen)  # more centres fell on labelled nodes than expected
    return np.array([*chosen, *candidates.rng("featprop").permutation(rest)[:missing]], dtype=np.int64)


@ACQUISITIONS.register(
    "graphpart",
    summary="communities first, then medoids of propagated features in those with the fewest labels",
    paper="Ma et al., Partition-based active learning for graph neural networks",
    year=2023,
    whole_batch=True,
)
def by_community(candidates: Candidates, budget: int) -> np.ndarray:
    """Labels are distributed so that communities end up with labels in proportion to their size."""
    community = communities(candidates)
    size = np.bincount(community).astype(np.float64)
    labelled = np.bincount(community[candidates.known], minlength=len(size)).astype(np.float64)
    pools = [candidates.pool[community[candidates.pool] == c] for c in range(len(size))]
    free = np.array([len(pool) for pool in pools])
    wanted = np.zeros(len(size), dtype=np.int64)
    for _ in range(budget):  # the community with the most nodes per label comes next
        need = np.where(wanted < free, size / (labelled + wanted + 1.0), -np.inf)
        wanted[int(need.argmax())] += 1
    chosen: list[int] = []
    for c in np.argsort(-wanted, kind="stable"):
        if wanted[c]:
            inside = nearest_to_centres(candidates.propagated[pools[c]], int(wanted[c]), candidates.seed)
            chosen.extend(pools[c][inside].tolist())
    return np.array(chosen[:budget], dtype=np.int64)


def communities(candidates: Candidates) -> np.ndarray:
    """Louvain communities; those with fewer than 2 % of the nodes are merged.  # [N]"""
    import networkx as nx

    graph = candidates.graph
    network = nx.from_scipy_sparse_array(graph.adjacency.incoming)
    found = nx.community.louvain_communities(network.to_undirected(), seed=candidates.seed % 2**32)
    result = np.zeros(graph.num_nodes, dtype=np.int64)
    next_free = 1
    for members in sorted(found, key=lambda group: (-len(group), min(group))):
        if len(members) * 50 >= graph.num_nodes:
            result[list(members)] = next_free
            next_free += 1
    return np.unique(result, return_inverse=True)[1]


def _by_score(name: str) -> Acquisition:
    return lambda candidates, budget: candidates.top(score(name, candidates.prediction), budget)


for _name, _score, _summary, _paper, _year in (
    ("entropy", "entropy", "highest predictive entropy", "Settles, Active learning literature survey", 2009),
    (
        "least-confidence",
        "msp",
        "lowest probability of the predicted class",
        "Lewis and Gale, A sequential algorithm for training text classifiers",
        1994,
    ),
    (
        "margin",
        "margin",
        "smallest gap between the two most probable classes",
        "Scheffer et al., Active hidden Markov models for information extraction",
        2001,
    ),
    (
        "bald",
        "mutual-information",
        "highest mutual information between class and sample; for models with samples",
        "Houlsby et al., Bayesian active learning for classification and preference learning",
        2011,
    ),
):
    ACQUISITIONS.add(_name, _by_score(_score), summary=_summary, paper=_paper, year=_year, score=_score)
