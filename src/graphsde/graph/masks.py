"""Roles of nodes: train, val, calibration, test; each node has at most one."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from graphsde.base.errors import BadInput, shorten
from graphsde.base.html import counted
from graphsde.graph.features import as_array
from graphsde.graph.graph import MASK_NAMES, Graph
from graphsde.graph.ids import locate
from graphsde.graph.likely_label import LIKELY_LABEL

SHOWN = 5
WORDS = {
    "train": "train",
    "training": "train",
    "val": "val",
    "valid": "val",
    "validation": "val",
    "test": "test",
    "testing": "test",
    "calibration": "calibration",
    "calib": "calibration",
    "cal": "calibration",
    "ood": "ood",
}
NO_ROLE = frozenset({"", "na", "nan", "null", "none"})
CHOICES = "one of train, val, calibration, test, or empty"


def masks_from_words(words: Sequence[Any] | np.ndarray, place: Callable[[int], str]) -> dict[str, np.ndarray]:
    """A split column as boolean masks; absent roles get no mask.

    Example:
        >>> masks = masks_from_words(["Train", "valid", None], str)
        >>> {name: mask.tolist() for name, mask in masks.items()}
        {'train': [True, False, False], 'val': [False, True, False]}
    """
    items = words.tolist() if isinstance(words, np.ndarray) else list(words)
    roles = np.empty(len(items), dtype=object)
    known: dict[object, str | None] = {}
    for row, item in enumerate(items):
        key = item if isinstance(item, str) else None if item is None or item != item else str(item)
        if key not in known:
            known[key] = _role(key, row, place)
        roles[row] = known[key]
    found = {name: np.array(roles == name, dtype=bool) for name in MASK_NAMES}
    return {name: mask for name, mask in found.items() if mask.any()}


def masks_from_arrays(
    masks: Mapping[str, Any], num_nodes: int, node_ids: np.ndarray | None = None
) -> dict[str, np.ndarray]:
    """Masks given as booleans, as positions, or (as text) by node id; ``None`` entries are left out."""
    clean = {}
    for name, mask in masks.items():
        if name not in MASK_NAMES:
            raise BadInput(
                f"'{shorten(name, 60)}' is not a split", code="E-SPLIT-NAME", expected=CHOICES, fix=_close(name)
            )
        if mask is not None:
            clean[name] = _mask(name, as_array(mask, f"{name} mask"), num_nodes, node_ids)
    return clean


def overlaps(masks: Mapping[str, np.ndarray]) -> list[tuple[str, str, np.ndarray]]:
    """Pairs of splits that share nodes, and the nodes. OOD (``ood``) nodes may have any role but training."""
    found = []
    for one, other in combinations(masks, 2):
        shared = np.flatnonzero(masks[one] & masks[other])
        if len(shared) and ("ood" not in (one, other) or "train" in (one, other)):
            found.append((one, other, shared))
    return found


def refuse_overlap(masks: Mapping[str, np.ndarray], node_name: Callable[[int], str]) -> None:
    """A node in two splits is a leak."""
    for one, other, shared in overlaps(masks):
        count = len(shared)
        raise BadInput(
            f"{count:,} {'nodes are' if count > 1 else 'node is'} in both the {one} and the {other} split: "
            f"{_first(shared, node_name)}",
            code="E-SPLIT-OVERLAP",
            found=counted(count, "shared node"),
            expected="every node in at most one split",
            fix="remove them from one of the two: metrics on training nodes are meaningless",
        )


def refuse_unlabelled(train: np.ndarray, known: np.ndarray, node_name: Callable[[int], str]) -> None:
    missing = np.flatnonzero(train & ~known)
    if len(missing):
        plural = "training nodes have" if len(missing) > 1 else "training node has"
        raise BadInput(
            f"{len(missing):,} {plural} no label: {_first(missing, node_name)}",
            code="E-SPLIT-UNLABELLED",
            found=counted(len(missing), "unlabelled node"),
            expected="a label for every training node",
            fix="label them, or remove them from the train split",
        )


def require_trainable(graph: Graph, *, early_stop: bool = True) -> None:
    """Refuse a graph that a model can't be fitted on.

    Args:
        graph: the graph with its masks.
        early_stop: whether validation nodes are needed.
    """
    if not graph.labelled.any():
        raise BadInput(
            "the graph has no labels",
            code="E-NO-LABELS",
            expected="labels on the training nodes",
            fix=how_to_give_labels(graph),
        )
    train = _filled(graph, "train")
    refuse_unlabelled(train, graph.labelled, lambda row: name_node(graph.node_ids, row))
    graph.target.refuse_constant(train)
    if early_stop:
        val = _filled(graph, "val")
        if not (val & graph.familiar).any():
            what = "a label" if not (val & graph.labelled).any() else "a class with training nodes"
            raise BadInput(f"no validation node has {what}", code="E-SPLIT-EMPTY", fix=_EMPTY_FIX["val"])


def lacks_training(masks: Mapping[str, np.ndarray]) -> bool:
    """Whether nodes are marked for validation, calibration or test, but none for training."""
    named = {role for role in ("train", "val", "calibration", "test") if role in masks and masks[role].any()}
    return bool(named) and "train" not in named


def how_to_give_labels(graph: Graph) -> str:
    """For a graph without labels: the column that looks like them, if the reader saw one, or where to add them."""
    seen = next((one.hint for one in graph.notes if one.code == LIKELY_LABEL and one.hint), None)
    return seen or (
        "label some nodes: a column 'label' in a table (or --read label=COLUMN), data.y of a PyG "
        "graph, labels=… of from_arrays; a graph without labels can only be predicted on"
    )


def name_node(node_ids: np.ndarray, row: int) -> str:
    """A node in messages: its id and its row, counted from 1."""
    return f"{shorten(str(node_ids[row]), 60)} (row {row + 1})"


def name_nodes(node_ids: np.ndarray, rows: np.ndarray, most: int = SHOWN) -> tuple[str, ...]:
    return tuple(name_node(node_ids, int(row)) for row in rows[:most])


_EMPTY_FIX = {
    "train": "mark labelled nodes as 'train', or have a new split drawn, which ignores these roles: "
    "--split stratified-60-15-25, in Python gs.split(graph, 'stratified-60-15-25')",
    "val": "assign some labelled nodes to validation, or disable early stopping (--no-early-stop)",
}


def _filled(graph: Graph, name: str) -> np.ndarray:
    mask = graph.masks.get(name)
    if mask is None or not mask.any():
        sizes = [f"{role} {int(other.sum()):,}" for role, other in graph.masks.items() if other.any()]
        raise BadInput(
            f"the {name} split is empty",
            code="E-SPLIT-EMPTY",
            found=", ".join(sizes) or None,
            expected="at least one node",
            fix=_EMPTY_FIX[name],
        )
    return mask


def _role(word: str | None, row: int, place: Callable[[int], str]) -> str | None:
    plain = (word or "").strip().lower()
    if plain in NO_ROLE:
        return None
    if plain not in WORDS:
        raise BadInput(
            f"'{shorten(plain, 60)}' is not a split",
            code="E-SPLIT-NAME",
            place=place(row),
            found=word,
            expected=CHOICES,
            fix=_close(plain),
        )
    return WORDS[plain]


def _mask(name: str, values: np.ndarray, num_nodes: int, node_ids: np.ndarray | None) -> np.ndarray:
    if values.ndim != 1:
        raise BadInput(f"the {name} mask has shape {values.shape}", code="E-LEN", expected=f"{num_nodes}, one per node")
    if values.dtype == bool or _is_zero_one(values, num_nodes):
        if len(values) != num_nodes:
            raise BadInput(
                f"the {name} mask and the nodes differ in length: {len(values)} vs {num_nodes}",
                code="E-LEN",
                found=len(values),
                expected=f"{num_nodes}, one per node",
            )
        return values.astype(bool)
    if len(values) == 0:
        return np.zeros(num_nodes, dtype=bool)
    if values.dtype.kind in "OUST" and node_ids is not None:
        positions = locate(values, node_ids)
    elif values.dtype.kind in "iu":
        positions = np.where(values < num_nodes, values, -1).astype(np.int64)
    else:
        raise BadInput(f"the {name} mask has dtype {values.dtype}", code="E-DTYPE", expected="booleans or positions")
    unknown = np.flatnonzero(positions < 0)
    if len(unknown):
        shown = _first(unknown, lambda row: shorten(str(values[row]), 60))
        raise BadInput(
            f"{len(unknown):,} entries of the {name} split are not in this graph: {shown}",
            code="E-SPLIT-UNKNOWN",
            place=f"{name} split, entry {int(unknown[0]) + 1}",
            found=str(values[unknown[0]]),
            expected=f"positions from 0 to {num_nodes - 1}, or node ids as text",
        )
    return mask_of(positions, num_nodes)


def mask_of(positions: np.ndarray, num_nodes: int) -> np.ndarray:
    mask = np.zeros(num_nodes, dtype=bool)
    mask[positions] = True
    return mask


def _is_zero_one(values: np.ndarray, num_nodes: int) -> bool:
    """A mask of zeros and ones: as positions it would repeat the same two nodes."""
    return values.dtype.kind in "iu" and len(values) == num_nodes > 2 and bool(np.isin(values, (0, 1)).all())


def _first(rows: np.ndarray, node_name: Callable[[int], str]) -> str:
    return ", ".join(node_name(int(row)) for row in rows[:SHOWN]) + (", …" if len(rows) > SHOWN else "")


def _close(word: str) -> str:
    close = difflib.get_close_matches(word.lower(), list(WORDS), n=1)
    return f"did you mean '{WORDS[close[0]]}'?" if close else "correct the word, or leave the cell empty"
