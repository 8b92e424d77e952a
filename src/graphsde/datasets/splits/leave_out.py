"""Splits with OOD nodes: classes whose labels the model never sees."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from graphsde.base.errors import BadUsage, UnknownName
from graphsde.datasets.splits.split import SPLITS, Split, default_split, known_labels, make_split, require_whole
from graphsde.datasets.splits.standard import given, tenths
from graphsde.graph.graph import Graph

THRESHOLDS = {"cora": 3, "citeseer": 2, "pubmed": 1, "computers": 5, "photo": 4}


@SPLITS.register(
    "leave-class-out",
    summary="one class (the last, unless named) is never trained on; its test nodes are the OOD nodes",
    options=("leave", "base", "remap", "compat"),
)
def leave_class_out(
    graph: Graph,
    *,
    seed: int = 0,
    leave: str | int | Sequence[str | int] = "last",
    base: str | None = None,
    remap: bool = True,
    compat: bool = False,
) -> Split:
    """Leave a class out of training while its nodes stay in the graph with features and edges.

    ``ood`` are the left-out nodes that the base split tests; ``test`` keeps the others. So ``test`` and ``ood`` are
    the two sides of a detection task.

    Args:
        leave: ``"last"``, a class's name or position, or several of them.
        base: the split to start from; default: the graph's own.
        remap: the head has no outputs for the left-out classes: ``class_names`` shrinks and their nodes become
            unlabelled. Otherwise labels and head are unchanged.
        compat: leave their nodes in the validation mask, as the released LGNSDE study does. With ``remap`` they have
            label -1 there, and selection must count them as errors. Those that would have been trained on, or had no
            role, are under ``left``: the study evaluates on them as well.
    """
    labels = known_labels(graph)
    left = _positions(graph, leave)
    stay = tuple(position for position in range(graph.num_classes) if position not in left)
    if len(stay) < 2:
        raise BadUsage(
            f"leaving out {len(left)} of {graph.num_classes} classes leaves {len(stay)} to learn",
            expected="at least 2 remaining classes",
        )
    ood = np.isin(labels, left)
    start = make_split(graph, base or default_split(graph), seed=seed)
    if start.classes is not None:
        raise BadUsage(f"the split '{base}' already leaves out classes", found=base, fix="name all classes in 'leave'")
    tested = start.masks.get("test", np.zeros(graph.num_nodes, dtype=bool))
    masks = {
        role: mask if compat and role == "val" else mask & ~ood for role, mask in start.masks.items() if role != "ood"
    }
    masks["ood"] = tested & ood
    if compat:
        masks["left"] = ood & ~np.logical_or.reduce(list(masks.values()))
    return Split("leave-class-out", seed, masks, start.nodes, classes=stay if remap else None)


@SPLITS.register(
    "label-leave-out",
    summary="classes above a threshold are known, all nodes of those below it are OOD",
    options=("threshold", "remap"),
)
def label_leave_out(graph: Graph, *, seed: int = 0, threshold: int | None = None, remap: bool = False) -> Split:
    """The "label" shift of GNNSafe (Wu et al., 2023), also used by GNSD.

    Classes after ``threshold`` are in-distribution, all nodes of the classes before it are OOD, and class
    ``threshold`` itself is the exposure set, used only by methods that train on OOD nodes. If only one
    class would be left after it, ``threshold`` belongs to the known ones, as on PubMed.

    The graph's own masks are cut down to the known classes; a graph without masks gets 10/10/80 of its known nodes.

    Args:
        threshold: a class position; 3 on cora, 2 on citeseer, 1 on pubmed, 5 on computers, 4 on photo, else half of
            the classes (fewer if otherwise less than two were known).
        remap: shrink the head to the known classes. The study does not: labels are kept, and outputs without a
            trained label enter every score.
    """
    labels = known_labels(graph)
    t = _threshold(graph) if threshold is None else threshold
    require_whole("threshold", t, 1)
    first_known = t + 1 if graph.num_classes - (t + 1) >= 2 else t
    if not 1 <= t <= graph.num_classes - 2:
        raise BadUsage(
            f"threshold {t} does not divide {graph.num_classes} classes",
            found=t,
            expected="at least one class before it and two from it on, so at least 3 classes",
        )
    known = labels >= first_known
    if graph.train_mask is None:
        masks = tenths(graph, np.flatnonzero(known), seed)
    else:
        masks = {role: mask & known for role, mask in given(graph, seed=seed).masks.items() if role != "ood"}
    ood = (labels >= 0) & (labels < t)
    classes = tuple(range(first_known, graph.num_classes)) if remap else None
    exposure = labels == t if t < first_known else np.zeros(graph.num_nodes, dtype=bool)
    roles = {**masks, "ood": ood} | ({"exposure": exposure} if exposure.any() else {})
    return Split("label-leave-out", seed, roles, classes=classes)


def _threshold(graph: Graph) -> int:
    half = min(graph.num_classes // 2, max(graph.num_classes - 3, 1))
    return half if graph.benchmark is None else THRESHOLDS.get(graph.benchmark, half)


def _positions(graph: Graph, leave: str | int | Sequence[str | int]) -> list[int]:
    wanted = [leave] if isinstance(leave, str | int | np.integer) else list(leave)
    return sorted({_position(graph, one) for one in wanted})


def _position(graph: Graph, one: str | int) -> int:
    """A class, by its name first: classes may be named "3" or "last"."""
    if isinstance(one, str):
        if one in graph.class_names:
            return graph.class_names.index(one)
        if one == "last":
            return graph.num_classes - 1
        if not one.isdecimal():
            raise UnknownName(
                f"'{graph.name}' has no class named '{one}'",
                found=one,
                expected="one of " + ", ".join(graph.class_names) + ", a position, or 'last'",
            )
    position = int(one)
    if not 0 <= position < graph.num_classes:
        raise BadUsage(
            f"'{graph.name}' has no class {position}", found=position, expected=f"0 to {graph.num_classes - 1}"
        )
    return position
