"""Nodes set aside for calibration, which neither training nor testing may use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from graphsde.base.errors import BadInput, BadUsage
from graphsde.base.seeds import check_seed, numpy_stream
from graphsde.datasets.splits.split import SPLITS, Split, default_split, make_split, mask_of, no_labels, require_whole
from graphsde.graph.graph import Graph

CALIBRATION_SIZE = 500
Origin = Literal["mask", "spare", "test", "all-test", "given", "validation"]


@SPLITS.register(
    "calibration",
    summary="adds calibration nodes: unused labelled ones if there are enough, otherwise half of the test nodes",
    options=("size", "base"),
)
def calibration(graph: Graph, *, seed: int = 0, size: int = CALIBRATION_SIZE, base: str | None = None) -> Split:
    """Another split plus calibration nodes; a base that already has them is kept.

    Args:
        size: how many nodes to set aside, if that many labelled nodes have no role yet.
        base: the split to start from; default: the graph's own.
    """
    require_whole("size", size, 1)
    start = make_split(graph, base or default_split(graph), seed=seed)
    masks = dict(start.masks)
    if "calibration" not in masks:
        free = _without_a_role(graph, masks)
        if start.nodes is not None:
            free &= mask_of(start.nodes, graph.num_nodes)
        test = _test_nodes(graph, masks)
        pool, count = (np.flatnonzero(free), size) if free.sum() >= size else (test, test.size // 2)
        chosen = _draw(graph, pool, count, seed, free=int(free.sum()), test=test.size, size=size)
        masks["calibration"] = chosen
        if "test" in masks:
            masks["test"] = masks["test"] & ~chosen
    return Split("calibration", seed, masks, start.nodes, start.classes)


@dataclass(frozen=True, eq=False)
class CalibrationNodes:
    """Labelled nodes that a model has not learned from.

    Args:
        mask: which.  # [N] bool
        origin: ``mask`` (the graph's own calibration mask), ``spare`` (drawn among labelled nodes without a role),
            ``test`` (drawn among the test nodes, for lack of others), ``all-test`` (every test node), ``given`` (by
            the caller) or ``validation`` (for thresholds fixed beforehand).
    """

    mask: np.ndarray
    origin: Origin

    @property
    def words(self) -> str:
        return {
            "mask": "the calibration nodes of the split",
            "spare": "labelled nodes outside training, validation and test, drawn at random",
            "test": "drawn at random from the test nodes, because the split leaves no others",
            "all-test": "the test nodes, because the split has no calibration nodes",
            "given": "the nodes given for calibration",
            "validation": "the validation nodes",
        }[self.origin]


def calibration_nodes(graph: Graph, *, size: int | None = CALIBRATION_SIZE, seed: int = 0) -> CalibrationNodes:
    """The nodes to calibrate on: the graph's calibration mask, otherwise ``size`` unused labelled nodes.

    Without a mask they are drawn from the labelled nodes that have no role; if there are fewer than half of the
    test nodes (and than ``size``), from the test nodes, of which at least half stay. Classes that are not trained on
    are OOD and are left out. Without training nodes only a calibration or test mask can say which labels are unseen:
    a graph with neither is refused.

    Args:
        graph: with the masks that the model was fitted with.
        size: how many to draw at most; ``None`` uses all test nodes, and metrics must then be cross-fitted
            (:func:`graphsde.acting.cross_fit.halves`).
        seed: of the draw.

    Example:
        >>> from graphsde.datasets.synthetic import synthetic
        >>> graph = synthetic(400, classes=3)
        >>> fitted_on = make_split(graph, "gpn").apply(graph)
        >>> nodes = calibration_nodes(fitted_on, size=100)
        >>> nodes.origin, int(nodes.mask.sum())
        ('test', 100)
    """
    require_whole("size", 1 if size is None else size, 1)
    check_seed(seed)
    if graph.calibration_mask is not None and (graph.calibration_mask & graph.familiar).any():
        return CalibrationNodes(graph.calibration_mask & graph.familiar, "mask")
    free = _without_a_role(graph, graph.masks)
    test = _test_nodes(graph, graph.masks)
    if not graph.role("train").any():
        if not test.size:
            raise _no_roles(graph)
        free[:] = False  # a node without a role may be one that the model was trained on
    if size is None and test.size:
        return CalibrationNodes(mask_of(test, graph.num_nodes), "all-test")
    size = CALIBRATION_SIZE if size is None else size
    least = min(size, max(test.size // 2, 1))
    pool, origin = (np.flatnonzero(free), "spare") if free.sum() >= least else (test, "test")
    count = min(size, pool.size if origin == "spare" else test.size // 2)
    chosen = _draw(graph, pool, count, seed, free=int(free.sum()), test=test.size, size=size)
    return CalibrationNodes(chosen, "spare" if origin == "spare" else "test")


def _without_a_role(graph: Graph, masks: Mapping[str, np.ndarray]) -> np.ndarray:
    free = _trained_classes(graph, masks)
    for mask in masks.values():
        free &= ~mask
    return free


def _test_nodes(graph: Graph, masks: Mapping[str, np.ndarray]) -> np.ndarray:
    test = masks.get("test")
    return np.array([], dtype=np.int64) if test is None else np.flatnonzero(test & _trained_classes(graph, masks))


def _trained_classes(graph: Graph, masks: Mapping[str, np.ndarray]) -> np.ndarray:
    """A class that is not trained on is OOD: its nodes would bias the calibration.  # [N] bool"""
    if not graph.labelled.any():
        raise no_labels(graph)
    train = masks.get("train")
    return graph.labelled.copy() if train is None else graph.target.familiar(train).copy()


def _no_roles(graph: Graph) -> BadUsage:
    return BadUsage(
        f"'{graph.name}' does not mark the nodes that the model was trained on: a guarantee needs labels that it has "
        "never seen",
        code="E-NO-MASKS",
        expected="a training mask, and labelled nodes outside training",
        fix="use the graph of the fit with its roles (graph = gs.split(graph) before the fit), or name the calibration "
        "nodes: calibration=…",
    )


def _draw(graph: Graph, pool: np.ndarray, count: int, seed: int, *, free: int, test: int, size: int) -> np.ndarray:
    if count == 0:
        raise BadInput(
            f"'{graph.name}' has no labelled nodes to calibrate on",
            code="E-CALIBRATION",
            found=f"{free} labelled nodes without a role, {test} test nodes",
            expected=f"{size} without a role, or at least 2 test nodes",
            fix="fit with --split calibration, or give a calibration mask",
        )
    return mask_of(numpy_stream(seed, "split", "calibration").permutation(pool)[:count], graph.num_nodes)
