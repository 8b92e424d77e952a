"""Nodes in the middle of clusters inside the communities of the graph."""

from __future__ import annotations

import numpy as np

from graphsde.tasks.acquisition.registry import ACQUISITIONS, Candidates, nearest_to_centres


@ACQUISITIONS.register(
    "graphpart",
    summary="communities first, then medoids of propagated features in those with the fewest labels",
    paper="Ma et al., Partition-based active learning for graph neural networks",
    year=2023,
    whole_batch=True,
)
def by_community(candidates: Candidates, budget: int) -> np.ndarray:
    """Labels are shared out so that communities end up with labels in proportion to their size."""
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
    """Louvain's communities; those smaller than one in fifty of the nodes are thrown together.  # [N]"""
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
