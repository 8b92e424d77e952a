"""Graphs from DGL."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphsde.base.errors import BadInput
from graphsde.graph.build import assemble, options_from
from graphsde.graph.graph import MASK_NAMES, Graph
from graphsde.graph.raw import RawGraph

FEATURES, LABELS, WEIGHTS = ("feat", "features", "x"), ("label", "labels", "y"), ("weight", "w")


def from_dgl(graph: Any, *, name: str = "graph", **options: Any) -> Graph:
    """A graph from a homogeneous ``DGLGraph``; DGL itself is not imported.

    Uses ``ndata["feat"]``, ``ndata["label"]``, the masks ``ndata["train_mask"]`` and so on, and
    ``edata["weight"]`` (or ``"w"``).

    Args:
        graph: one homogeneous graph.
        name: of the graph, for messages.
        **options: fields of :class:`~graphsde.graph.raw.ReadOptions`, such as ``directed=True``.

    Raises:
        BadInput: there are several kinds of nodes or edges, or part of the graph can't be used.
    """
    if not getattr(graph, "is_homogeneous", True):
        raise BadInput(
            "a graph with several kinds of nodes or edges can't be read",
            code="E-SHAPE",
            expected="a homogeneous DGLGraph",
            fix="use dgl.to_homogeneous(graph)",
        )
    sources, targets = (_array(ends) for ends in graph.edges())
    labels = _first(graph.ndata, LABELS)
    masks = {role: _first(graph.ndata, (f"{role}_mask",)) for role in MASK_NAMES}
    raw = RawGraph(
        num_nodes=int(graph.num_nodes()),
        numeric=_first(graph.ndata, FEATURES),
        labels=labels[:, 0] if labels is not None and labels.ndim == 2 and labels.shape[1] == 1 else labels,
        masks={role: mask.astype(bool) for role, mask in masks.items() if mask is not None},
        sources=sources,
        targets=targets,
        weights=_first(graph.edata, WEIGHTS),
        edges_by_id=False,
        name=name,
        node_place=lambda row: f"node {row}",
        edge_place=lambda row: f"edge {row}",
    )
    return assemble(raw, options_from(options))


def _first(values: Any, names: tuple[str, ...]) -> np.ndarray | None:
    return next((_array(values[name]) for name in names if name in values), None)


def _array(value: Any) -> np.ndarray:
    return np.asarray(value.detach().cpu().numpy() if hasattr(value, "detach") else value)
