"""Nodes in the middle of clusters of propagated features: no model is needed."""

from __future__ import annotations

import numpy as np

from graphsde.tasks.acquisition.registry import ACQUISITIONS, Candidates, nearest_to_centres


@ACQUISITIONS.register(
    "featprop",
    summary="medoids of clusters of propagated features, those far from labelled nodes first",
    paper="Wu et al., Active learning for graph neural networks via node feature propagation",
    year=2019,
    whole_batch=True,
)
def medoids(candidates: Candidates, budget: int) -> np.ndarray:
    """As many clusters as there would be labels; a cluster that holds a labelled node is served. k-means and the node
    nearest to each centre stand for the paper's k-medoids, which needs all pairwise distances."""
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
