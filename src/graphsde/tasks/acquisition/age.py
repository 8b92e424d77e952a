"""Entropy, density and centrality, mixed; centrality counts at first, entropy later."""

from __future__ import annotations

import numpy as np

from graphsde.scores import score
from graphsde.tasks.acquisition.centrality import pagerank
from graphsde.tasks.acquisition.registry import ACQUISITIONS, Candidates


@ACQUISITIONS.register(
    "age",
    summary="a mixture of ranks of entropy, embedding density and PageRank that shifts towards entropy",
    paper="Cai et al., Active learning for graph embedding",
    year=2017,
)
def mixture(candidates: Candidates, budget: int) -> np.ndarray:
    """Percentile ranks within the pool; the weight of centrality is drawn from Beta(1, b) with b growing."""
    from sklearn.cluster import KMeans

    pool, prediction = candidates.pool, candidates.prediction
    points = np.asarray(prediction.mean if prediction.embedding is None else prediction.embedding, dtype=np.float64)
    clusters = min(prediction.num_classes, len(pool))
    means = KMeans(clusters, n_init=1, random_state=candidates.seed % 2**32).fit(points)
    density = 1.0 / (1.0 + means.transform(points[pool]).min(axis=1))
    central = float(candidates.rng("age").beta(1.0, 1.005 + 20.0 * candidates.progress))
    central = min(central, 1.0)
    doubt = _percentile(score("entropy", prediction)[pool])
    mixed = central * _percentile(pagerank(candidates.graph)[pool])
    mixed += (1 - central) / 2 * (doubt + _percentile(density))
    return pool[np.argsort(-mixed, kind="stable")[:budget]]


def _percentile(values: np.ndarray) -> np.ndarray:
    from scipy.stats import rankdata  # slow to import, and every worker process imports this module

    return rankdata(values) / len(values)
