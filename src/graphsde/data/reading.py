"""A user's files in, a graph that can be fitted out."""

from __future__ import annotations

import os
from typing import Any

from graphsde.data import formats
from graphsde.data.graph import Graph
from graphsde.data.splits import make_split


def read(path: str | os.PathLike[str], *, name: str | None = None, **options: Any) -> Graph:
    """Read a graph from files, check it, clean it and, where it says nothing of a split, give it one.

    A graph without a ``split`` column gets ``fractions`` with seed 0: 60/15/15/10 % of its labelled nodes, by class,
    for training, validation, calibration and test; where labels are few, training comes first.

    Args:
        path: a folder with ``nodes`` and ``edges`` (``.csv`` or ``.parquet``), an ``.npz`` or a GraphML file.
        name: how messages call the graph.
        **options: see :func:`graphsde.data.formats.read`.

    Example:
        >>> import tempfile, graphsde as gs
        >>> folder = tempfile.mkdtemp()
        >>> _ = gs.write_tables(gs.synthetic(100, classes=2), folder)
        >>> {role: int(mask.sum()) for role, mask in gs.read(folder).masks.items()}
        {'train': 60, 'val': 15, 'calibration': 15, 'test': 10}
    """
    graph = formats.read(path, name=name, **options)
    if graph.masks or not graph.labelled.any():
        return graph
    return make_split(graph, "fractions").apply(graph)
