"""Covariates of a node's noise: how unusual it looks, its degree, and its distance to training nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor

from graphsde.graph.graph import Graph
from graphsde.uncertainty.evidence import evidence_of, validation_nodes

COVARIATES = ("evidence", "degree", "hops")
MOST_HOPS = 5
FARTHEST = 5.0
"""Standardised covariates are clipped here: a hub of another graph must not get noise outside the validation range."""

TailShare = Callable[[Graph], np.ndarray]
"""Share of validation nodes that look at least as unusual as each node, in (0, 1].  # [N]"""


def evidence_tail(graph: Graph) -> np.ndarray:
    """Tail shares by the training-free evidence of ``graph``, with its training and validation nodes.  # [N]"""
    return evidence_of(graph).tail_share()


def hops_to(graph: Graph, sources: np.ndarray, most: int = MOST_HOPS) -> np.ndarray:
    """Steps along edges from the nearest of ``sources``, at most ``most``, also if unreachable.  # [N]

    Example:
        >>> import numpy as np
        >>> from graphsde.graph.build import from_arrays
        >>> path = from_arrays(np.ones((4, 1)), np.array([[0, 1, 2], [1, 2, 3]]))
        >>> hops_to(path, np.array([True, False, False, False]), most=2).tolist()
        [0.0, 1.0, 2.0, 2.0]
    """
    incoming = graph.adjacency.incoming
    distance = np.full(graph.num_nodes, float(most))
    reached = np.asarray(sources, dtype=bool).copy()
    distance[reached] = 0.0
    latest = reached.copy()
    for hop in range(1, most):
        latest = ((incoming @ latest.astype(np.float32)) > 0) & ~reached
        distance[latest] = hop
        reached |= latest
    return distance


@dataclass(frozen=True)
class FittedNodes:
    """The nodes that a model was trained and a calibrator fitted on, by id, so that they can be found in any graph
    that holds them.

    Args:
        trained, trained_classes: ids of training nodes and their classes, -1 if unknown.
        validated, validated_classes: the same of the nodes that the calibrator was fitted on.
    """

    trained: tuple[Any, ...] = ()
    trained_classes: tuple[int, ...] = ()
    validated: tuple[Any, ...] = ()
    validated_classes: tuple[int, ...] = ()

    @classmethod
    def of(cls, graph: Graph, validated: np.ndarray) -> FittedNodes:
        """The training nodes of ``graph``, and those at the positions ``validated``.  # [n]"""
        labels = np.full(graph.num_nodes, -1) if graph.labels is None else graph.labels
        trained = np.flatnonzero(graph.role("train"))
        return cls(
            tuple(graph.node_ids[trained].tolist()),
            tuple(labels[trained].tolist()),
            tuple(graph.node_ids[validated].tolist()),
            tuple(labels[validated].tolist()),
        )

    def seen_in(self, graph: Graph) -> Graph:
        """``graph`` with these roles and classes, and no others."""
        labels = np.full(graph.num_nodes, -1, dtype=np.int64)
        masks: dict[str, Any] = {}
        for role, ids, classes in (
            ("val", self.validated, self.validated_classes),
            ("train", self.trained, self.trained_classes),
        ):
            rows = _positions(graph, ids)
            there = rows >= 0
            labels[rows[there]] = np.asarray(classes, dtype=np.int64)[there]
            masks[role] = np.zeros(graph.num_nodes, dtype=bool)
            masks[role][rows[there]] = True
        names = tuple(str(one) for one in range(max((*self.trained_classes, *self.validated_classes, 0)) + 1))
        return graph.with_labels(labels, names).with_masks(**masks)


def _positions(graph: Graph, ids: Sequence[Any]) -> np.ndarray:
    return np.array([graph.position.get(one, -1) for one in ids], dtype=np.int64)


_KEPT: WeakKeyDictionary[Graph, dict[FittedNodes, Tensor]] = WeakKeyDictionary()


def raw_covariates(graph: Graph, nodes: FittedNodes, tail: TailShare | None = None) -> Tensor:
    """t − 1, log(1 + degree) and hops to the nearest training node, t = −log of the tail share.  # [N, 3] float64

    A tail share of known nodes is uniform, so that t has the mean one. On a graph without a single training node of
    the model, t − 1 is 0 everywhere.

    Args:
        graph: of the nodes; the evidence is fitted to it, with ``nodes`` as training and validation nodes.
        nodes: of the fit.
        tail: source of tail shares, default :func:`evidence_tail`.
    """
    if tail is not None:
        return _raw(graph, nodes, tail)
    kept = _KEPT.setdefault(graph, {})
    if nodes not in kept:
        kept.clear()
        kept[nodes] = _raw(graph, nodes, evidence_tail)
    return kept[nodes]


def _raw(graph: Graph, nodes: FittedNodes, tail: TailShare) -> Tensor:
    # on the graph fitted on, the evidence is the one that training and scores use
    same = nodes == FittedNodes.of(graph, validation_nodes(graph))
    seen = graph if same else nodes.seen_in(graph)
    trained = seen.role("train")
    surprise = np.zeros(graph.num_nodes)
    if (trained & seen.labelled).any():
        surprise = -np.log(np.asarray(tail(seen), dtype=np.float64)) - 1.0
    degree = np.log1p(graph.adjacency.degree.astype(np.float64))
    return torch.from_numpy(np.stack([surprise, degree, hops_to(graph, trained)], axis=1))


def scale_of(raw: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of degree and hops, 1 if a column is constant.  # [N, 3] -> [2], [2]"""
    spread = raw[:, 1:].std(0, correction=0)
    return raw[:, 1:].mean(0), torch.where(spread > 1e-9, spread, torch.ones_like(spread))


def standardised(raw: Tensor, centre: Tensor, spread: Tensor) -> Tensor:
    """φ: the first column unchanged, the others standardised by the graph fitted on.  # [N, 3]"""
    return torch.cat([raw[:, :1], (raw[:, 1:] - centre) / spread], 1).clamp(-FARTHEST, FARTHEST)
