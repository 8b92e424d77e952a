"""Nodes that stand for many others."""

from __future__ import annotations

import numpy as np

from graphsde.data.graph import Graph
from graphsde.tasks.acquisition.registry import ACQUISITIONS, Candidates


@ACQUISITIONS.register(
    "pagerank",
    summary="most central nodes",
    paper="Cai et al., Active learning for graph embedding",
    year=2017,
)
def most_central(candidates: Candidates, budget: int) -> np.ndarray:
    return candidates.top(pagerank(candidates.graph), budget)


@ACQUISITIONS.register(
    "density",
    summary="nodes amid many similar ones, by propagated features, one per neighbourhood",
    whole_batch=True,
)
def densest(candidates: Candidates, budget: int) -> np.ndarray:
    """Nearest to the centres of as many clusters of the pool as labels were asked for, largest cluster first; clusters
    that hold labelled nodes already come last."""
    from sklearn.cluster import KMeans

    points = candidates.propagated
    count = min(budget + len(candidates.known), len(candidates.pool))
    means = KMeans(count, n_init=1, random_state=candidates.seed % 2**32).fit(points[candidates.pool])
    taken = set(means.predict(points[candidates.known]).tolist()) if len(candidates.known) else set()
    sizes = np.bincount(means.labels_, minlength=count)
    order = sorted(range(count), key=lambda cluster: (cluster in taken, -sizes[cluster], cluster))
    chosen: list[int] = []
    for cluster in order[:budget]:
        distance = np.square(points[candidates.pool] - means.cluster_centers_[cluster]).sum(axis=1)
        distance[chosen] = np.inf
        chosen.append(int(distance.argmin()))
    return candidates.pool[chosen]


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
