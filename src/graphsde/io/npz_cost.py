"""The cost of reading a graph from an ``.npz`` file, from the headers of its arrays alone."""

from __future__ import annotations

from graphsde.graph.graph import MASK_NAMES
from graphsde.io.opening import refuse_cost
from graphsde.io.zip_arrays import ArrayFacts, ZipArrays

PARTS = ("data", "indices", "indptr", "shape")
FEATURES = ("features", "x", "attr", "attr_matrix", "node_features")
ADJACENCY = ("adj", "adj_matrix", "adjacency")
LABELS = ("labels", "y", "label", "node_labels")
NODE_NAMES = ("node_names", "idx_to_node")
WEIGHTS = ("edge_weight", "edge_weights")
FEATURE_NAMES = ("feature_names", "attr_names")

# Bytes that an entry takes beyond its own at the peak of reading and checking, as measured on a million of them. Where
# time dominates, a microsecond counts as a hundred bytes, so that 200 MB are also two seconds.
PER_NODE = 50
_FEATURE, _SPARSE, _EDGE_END, _WEIGHT = 5, 8, 55, 30
_LABEL, _ID, _MASK, _POSITION, _TEXT = 50, 40, 2, 30, 105
_SHORT = 100  # texts up to this many bytes are mostly object overhead


def _extra() -> dict[str, int]:
    """Bytes beyond its own that an entry of each known array takes."""
    extra = dict.fromkeys(FEATURES, _FEATURE) | dict.fromkeys(LABELS, _LABEL) | dict.fromkeys(WEIGHTS, _WEIGHT)
    for names, each in ((FEATURES, _SPARSE), (ADJACENCY, _EDGE_END)):
        for name in names:
            for mark in "._":
                extra |= {f"{name}{mark}{part}": each for part in PARTS[:2]}
                extra |= {f"{name}{mark}indptr": _SPARSE, f"{name}{mark}shape": _SPARSE}
    extra |= dict.fromkeys(("edge_index", "edges"), _EDGE_END) | {"node_ids": _ID, "image_shape": 0}
    extra |= dict.fromkeys((*NODE_NAMES, *FEATURE_NAMES, "class_names"), _TEXT)
    return extra | {f"{role}_mask{plural}": _MASK for role in MASK_NAMES for plural in ("", "s")}


_EXTRA = _extra()
_ONE_PER_NODE = {
    *FEATURES,
    *LABELS,
    *NODE_NAMES,
    "node_ids",
    *(f"{n}{m}indptr" for n in FEATURES + ADJACENCY for m in "._"),
}


def refuse_dear(arrays: ZipArrays) -> None:
    """Refuse a file whose graph would need much more memory and time than its size suggests.

    The compression ratio is not enough: masks and one-hot features of honest graphs shrink to a
    thousandth, while a kilobyte of text becomes objects that need forty times as much.
    """
    cost, nodes = 0, 0
    for name, each in _EXTRA.items():
        if name not in arrays:
            continue
        facts = arrays.facts(name)
        if facts.is_plain:
            cost += facts.size * _per_entry(facts, each)
            nodes = max(nodes, facts.shape[0] if name in _ONE_PER_NODE and facts.shape else 0)
    refuse_cost(
        arrays.path,
        cost=cost + nodes * PER_NODE,
        size=arrays.file_size,
        fix="store features as sparse (CSR) arrays, or save the file without compression (numpy.savez)",
    )


def _per_entry(facts: ArrayFacts, extra: int) -> int:
    size, kind = facts.dtype.itemsize, facts.dtype.kind
    if kind in "SU":  # each text becomes an object, and bytes are decoded first
        array = size if kind == "U" else 5 * size
        return array + (array // 4 if array <= _SHORT else array) + _TEXT
    if extra == _MASK and kind != "b":
        extra = _POSITION
    return max(size, 2) * (1 if facts.dtype.isnative else 2) + extra
