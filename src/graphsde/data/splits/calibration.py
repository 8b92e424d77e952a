"""A split with nodes set aside for calibration, which neither training nor testing may use."""

from __future__ import annotations

import numpy as np

from graphsde.data.graph import Graph
from graphsde.data.splits.draw import known_labels, mask_of, require_whole
from graphsde.data.splits.registry import SPLITS, default_split, make_split
from graphsde.data.splits.split import Split
from graphsde.errors import BadInput
from graphsde.seeds import numpy_stream


@SPLITS.register(
    "calibration",
    summary="adds calibration nodes: unused labelled ones if there are enough, else half of the test nodes",
    options=("size", "base"),
)
def calibration(graph: Graph, *, seed: int = 0, size: int = 500, base: str | None = None) -> Split:
    """Another split plus calibration nodes; a base that has them already is kept as it is.

    Args:
        size: how many nodes to set aside, if that many labelled nodes have no role yet.
        base: the split to start from; the graph's own default if not named.
    """
    require_whole("size", size, 1)
    start = make_split(graph, base or default_split(graph), seed=seed)
    masks, labels = dict(start.masks), known_labels(graph)
    if "calibration" not in masks:
        rng = numpy_stream(seed, "split", "calibration")
        # a class that is not trained on is foreign: its nodes would spoil the calibration
        trained = np.isin(labels, np.unique(labels[masks["train"]]))
        free = graph.labelled & trained & ~np.any(list(masks.values()), axis=0)
        if start.nodes is not None:
            free &= mask_of(start.nodes, graph.num_nodes)
        test = np.flatnonzero(masks.get("test", np.zeros(graph.num_nodes, dtype=bool)))
        pool, count = (np.flatnonzero(free), size) if free.sum() >= size else (test, test.size // 2)
        if count == 0:
            raise BadInput(
                f"'{graph.name}' has no labelled nodes to calibrate on",
                code="E-CALIBRATION",
                found=f"{int(free.sum())} labelled nodes without a role, {test.size} test nodes",
                expected=f"{size} without a role, or at least 2 test nodes",
            )
        chosen = mask_of(rng.permutation(pool)[:count], graph.num_nodes)
        masks["calibration"] = chosen
        if "test" in masks:
            masks["test"] = masks["test"] & ~chosen
    return Split("calibration", seed, masks, start.nodes, start.classes)
