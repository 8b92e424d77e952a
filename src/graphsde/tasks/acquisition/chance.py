"""Nodes at random: what every acquisition has to beat."""

from __future__ import annotations

import numpy as np

from graphsde.tasks.acquisition.registry import ACQUISITIONS, Candidates


@ACQUISITIONS.register("random", summary="nodes at random", whole_batch=True)
def at_random(candidates: Candidates, budget: int) -> np.ndarray:
    return candidates.rng("random").permutation(candidates.pool)[:budget]


@ACQUISITIONS.register(
    "stratified-random", summary="nodes at random, as many of every predicted class as can be", whole_batch=True
)
def stratified(candidates: Candidates, budget: int) -> np.ndarray:
    rng = candidates.rng("stratified")
    order = rng.permutation(candidates.pool)
    classes = candidates.prediction.index[order]
    # the k-th node of its class comes before the (k+1)-th of any
    turn = np.zeros(len(order), dtype=np.int64)
    for position in np.unique(classes):
        turn[classes == position] = np.arange(int((classes == position).sum()))
    return order[np.argsort(turn, kind="stable")][:budget]
