"""How many cells fit on this machine at once."""

from __future__ import annotations

import os
from collections.abc import Iterable

import scipy.sparse as sp

from graphsde.data.graph import Graph
from graphsde.errors import GraphsdeError
from graphsde.memory import available_bytes
from graphsde.runs.cells import Cell
from graphsde.runs.source import open_graph

# an interpreter with torch and everything that a fit imports
BASE_BYTES = 500 * 2**20
# what prediction samples, scores and copies take beyond the fit itself, by experience
SLACK = 3


def worker_count(cells: Iterable[Cell]) -> int:
    """One worker per processor, fewer where the hungriest cell would not fit as often into free memory."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    needed = BASE_BYTES + SLACK * max((hunger for hunger in _hungers(cells)), default=0)
    return max(1, min(cores, available_bytes() // needed))


def _hungers(cells: Iterable[Cell]) -> Iterable[int]:
    kinds: dict[str, dict[str, Cell]] = {}
    for cell in cells:
        kinds.setdefault(cell.dataset, {}).setdefault(cell.label, cell)
    for dataset, by_label in kinds.items():
        graph = open_graph(dataset)
        for cell in by_label.values():
            yield _memory_of(cell, graph)


def _memory_of(cell: Cell, graph: Graph) -> int:
    """The model's own estimate where it makes one, otherwise a multiple of the graph."""
    model = cell.make_model()
    memory = getattr(model, "memory", None)
    if memory is not None:
        try:
            model.resolve(graph)
            return int(memory(graph))
        except GraphsdeError:
            pass  # the cell itself will say what is wrong
    features = graph.features.nnz if sp.issparse(graph.features) else graph.features.size  # type: ignore[union-attr]
    return 12 * int(features) + 40 * (graph.num_edges + graph.num_nodes * max(graph.num_classes, 1))
