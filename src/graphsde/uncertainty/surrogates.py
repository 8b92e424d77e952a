"""Surrogate OOD nodes made of validation nodes, to tune a score without real OOD nodes."""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np

from graphsde.base.seeds import numpy_stream
from graphsde.datasets.shifts import mixed_features
from graphsde.graph.graph import Graph
from graphsde.uncertainty.evidence import evidence_of, in_order_of_ids, reference_nodes
from graphsde.uncertainty.mismatch import feature_mismatch


@dataclass(frozen=True, eq=False)
class Surrogates:
    """What validation nodes would look like if they were OOD, as values over the whole graph.

    Args:
        mixed_evidence, mixed_mismatch: with the features of every node replaced by a mixture of two known nodes'.
            # [N], [N]
        unknown_evidence: as if the most similar class had never been trained on; ``None`` with one class.  # [N]
    """

    mixed_evidence: np.ndarray
    mixed_mismatch: np.ndarray
    unknown_evidence: np.ndarray | None


_MADE: WeakKeyDictionary[Graph, dict[bool, Surrogates]] = WeakKeyDictionary()


def surrogates_of(graph: Graph, *, alone: bool = False) -> Surrogates:
    """The surrogates of a graph, cached per graph; no test node, OOD node or label of these is used."""
    kept = _MADE.setdefault(graph, {})
    if alone not in kept:
        evidence = evidence_of(graph, alone=alone)
        mixed = mix_features(graph, reference_nodes(graph))
        kept[alone] = Surrogates(
            evidence.of(mixed), feature_mismatch(mixed, evidence.encoder), evidence.without_nearest
        )
    return kept[alone]


def remember_surrogates(graph: Graph, surrogates: Surrogates) -> None:
    """Let :func:`surrogates_of` find what was made of ``graph`` before."""
    _MADE.setdefault(graph, {})[False] = surrogates


def mix_features(graph: Graph, nodes: np.ndarray) -> Graph:
    """A copy in which ``x_i ← w x_a + (1 − w) x_b`` at every node; a, b are training nodes or ``nodes``, w ~ U(0, 1).

    As the shift ``interpolate-features``, from known nodes alone: no feature of another node is left. Text columns are
    taken from a.
    """
    rng = numpy_stream(0, "surrogates", "mixed features")
    total = graph.num_nodes
    known = in_order_of_ids(graph, np.union1d(np.flatnonzero(graph.role("train")), nodes))
    places = in_order_of_ids(graph, np.arange(total))
    first, second = (np.empty(total, dtype=np.int64) for _ in range(2))
    weight = np.empty(total, dtype=np.float32)
    first[places], second[places] = rng.choice(known, size=(2, total))
    weight[places] = rng.random(total, dtype=np.float32)
    return mixed_features(graph, first, second, weight)
