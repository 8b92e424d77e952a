"""Places for the nodes of a graph: neighbours attract, random others repel."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from graphsde.seeds import numpy_stream

ROUNDS = 300
REPELLING = 8


def spring_layout(adjacency: sp.csr_array, *, rounds: int = ROUNDS, seed: int = 0) -> np.ndarray:
    """Positions around the origin, the same for the same graph and seed.  # [N, 2]

    After Fruchterman and Reingold (1991): edges pull with d²/k, all nodes push with k²/d. Pushing is estimated from a
    few random others per round, so that a round costs edges plus nodes instead of nodes squared.

    Args:
        adjacency: symmetric.  # [N, N]
        rounds: of cooling down.
        seed: of the start and of the random others.
    """
    nodes = adjacency.shape[0]
    stream = numpy_stream(seed, "layout", nodes)
    place = stream.normal(size=(nodes, 2)) * np.sqrt(nodes)
    edges = sp.coo_array(sp.triu(adjacency, k=1))
    first, second = edges.coords
    degree = np.maximum(np.bincount(np.concatenate([first, second]), minlength=nodes), 1)[:, None]
    for turn in range(rounds):
        heat = np.sqrt(nodes) * 0.2 * (1.0 - turn / rounds) + 0.01
        apart = place[first] - place[second]
        length = np.linalg.norm(apart, axis=1, keepdims=True) + 1e-9
        pull = apart * length
        force = np.zeros_like(place)
        np.add.at(force, first, -pull)
        np.add.at(force, second, pull)
        force /= np.sqrt(degree)  # hubs would swing otherwise
        others = stream.integers(nodes, size=(nodes, min(REPELLING, nodes)))
        gap = place[:, None, :] - place[others]
        square = (gap**2).sum(-1, keepdims=True) + 0.05
        force += (gap / square).sum(1) * (nodes / REPELLING) * 0.35
        force -= 0.02 * place * np.sqrt(nodes) / 10  # parts without an edge between them must not drift off
        size = np.linalg.norm(force, axis=1, keepdims=True) + 1e-9
        place = place + force / size * np.minimum(size, heat)
    return place - place.mean(0)
