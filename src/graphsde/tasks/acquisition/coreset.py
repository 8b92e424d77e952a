"""Nodes that cover the others: greedy k-centre."""

from __future__ import annotations

import numpy as np

from graphsde.tasks.acquisition.registry import ACQUISITIONS, Candidates


@ACQUISITIONS.register(
    "coreset",
    summary="nodes farthest from all labelled ones in the model's embedding, one after another",
    paper="Sener and Savarese, Active learning for convolutional neural networks: a core-set approach",
    year=2018,
    whole_batch=True,
)
def farthest_first(candidates: Candidates, budget: int) -> np.ndarray:
    """A model without an embedding is judged by its class probabilities."""
    prediction = candidates.prediction
    points = np.asarray(prediction.mean if prediction.embedding is None else prediction.embedding, dtype=np.float64)
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
