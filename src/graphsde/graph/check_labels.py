"""Problems with the targets and splits of a graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from graphsde.base.errors import BadInput, shorten
from graphsde.base.html import counted
from graphsde.base.registry import Rules
from graphsde.graph.build import unseen_classes
from graphsde.graph.graph import Graph
from graphsde.graph.homophily import nodes_with_open_labels
from graphsde.graph.masks import name_nodes, overlaps, require_trainable
from graphsde.graph.raw import Finding

TARGET_FACTS: Rules[Callable[[Graph], dict[str, Any]]] = Rules("facts about a target")
TARGET_FINDINGS: Rules[Callable[[Graph, dict[str, Any]], list[Finding]]] = Rules("checking a target")

LOW_CORRELATION = 0.1  # below it, neighbours say almost nothing about a node's value
FAR = 6  # robust standard deviations from the median


def value_facts(graph: Graph) -> dict[str, Any] | None:
    """Distribution of the values, and how similar neighbours are; ``None`` if nodes have no values."""
    if not graph.labelled.any():
        return None
    assert graph.values is not None
    known = graph.values[graph.labelled]
    return {
        "known": int(known.size),
        "min": float(known.min()),
        "median": float(np.median(known)),
        "max": float(known.max()),
        "mean": float(known.mean()),
        "std": float(known.std()),
        "edge_correlation": edge_correlation(graph),
        "known_per_split": {name: int((mask & graph.labelled).sum()) for name, mask in graph.masks.items()},
    }


def edge_correlation(graph: Graph) -> float | None:
    """Correlation of the values at both ends of an edge (Newman's numeric assortativity, 2003); 0 is chance.

    Of training and validation nodes if the graph has roles: test values are not used. ``None`` if fewer than
    two edges have values at both ends, or all of these are the same.
    """
    assert graph.values is not None
    sources, targets = graph.adjacency.edge_index()
    shown = np.where(nodes_with_open_labels(graph), graph.values, np.nan)
    one, other = shown[sources], shown[targets]
    both = ~np.isnan(one) & ~np.isnan(other)
    one, other = one[both], other[both]
    if len(one) < 2 or one.std() == 0 or other.std() == 0:
        return None
    return float(np.corrcoef(one, other)[0, 1])


def value_findings(graph: Graph, facts: dict[str, Any]) -> list[Finding]:
    findings = []
    if facts["min"] == facts["max"] and not graph.masks:  # with masks, the training nodes are checked
        hint = "add nodes with other values"
        findings.append(Finding("E-ONE-VALUE", "problem", "all nodes have the same value", facts["known"], hint=hint))
    missing = np.flatnonzero(~graph.labelled)
    if len(missing):
        message = f"{len(missing):,} of {graph.num_nodes:,} nodes have no value"
        findings.append(Finding("W-UNLABELLED", "note", message, len(missing), name_nodes(graph.node_ids, missing)))
    correlation = facts["edge_correlation"]
    if correlation is not None and correlation < LOW_CORRELATION:
        message = f"neighbours have dissimilar values: correlation {correlation:.2f} along edges"
        hint = "models that average over neighbours may do worse than the features alone"
        findings.append(Finding("W-VALUE-UNLIKE", "warning", message, hint=hint))
    return findings + _far_values(graph, facts)


def _far_values(graph: Graph, facts: dict[str, Any]) -> list[Finding]:
    assert graph.values is not None
    distance = np.abs(graph.values - facts["median"])
    usual = 1.4826 * float(np.median(distance[graph.labelled]))
    far = np.flatnonzero(graph.labelled & (distance > FAR * usual)) if usual > 0 else np.zeros(0, dtype=np.int64)
    if not len(far):
        return []
    message = f"{len(far):,} {'values lie' if len(far) > 1 else 'value lies'} far from the others"
    hint = "if they are not typos, consider predicting the logarithm"
    return [Finding("W-VALUE-FAR", "warning", message, len(far), name_nodes(graph.node_ids, far), hint)]


def describe_values(facts: dict[str, Any]) -> str:
    """One line for a reader."""
    known = facts["known"]
    text = (
        f"Target: regression, {known:,} {'nodes have' if known > 1 else 'node has'} a value; "
        f"{facts['min']:g} to {facts['max']:g}, median {facts['median']:g}, mean {facts['mean']:.4g}, "
        f"standard deviation {facts['std']:.4g}"
    )
    if facts["edge_correlation"] is None:
        return text
    return text + f"; correlation along edges {facts['edge_correlation']:.2f} (0 = chance, 1 = neighbours are equal)"


IMBALANCE = 10  # above it, accuracy hardly depends on whether the smallest class is ever predicted
JUDGING = {"val": "validation", "test": "test"}
FEW_JUDGING = 20  # of fewer nodes, one node is more than 5 % of accuracy
FEW_LABELS = 5  # with fewer, one odd node decides what a class looks like


def label_facts(graph: Graph) -> dict[str, Any]:
    counts = _per_class(graph, np.ones(graph.num_nodes, dtype=bool))
    present = counts[counts > 0]
    taken = np.logical_or.reduce([np.zeros(graph.num_nodes, dtype=bool), *graph.masks.values()])
    return TARGET_FACTS.of(graph)(graph) | {
        "classes": _named(graph, counts),
        "unlabelled": int(graph.num_nodes - graph.labelled.sum()),
        "imbalance": float(present.max() / present.min()) if len(present) else None,
        "splits": {name: int(mask.sum()) for name, mask in graph.masks.items()},
        "without_split": int(graph.num_nodes - taken.sum()),
        "labels_per_split": {name: _named(graph, _per_class(graph, mask)) for name, mask in graph.masks.items()},
    }


def label_findings(graph: Graph, facts: dict[str, Any]) -> list[Finding]:
    findings = _refused(graph)
    if graph.labels is None and not graph.labelled.any():
        return findings
    return findings + TARGET_FINDINGS.of(graph)(graph, facts) + _unscored(graph)


TARGET_FACTS.register("classification")(lambda graph: {})
TARGET_FACTS.register("regression")(lambda graph: {"target": value_facts(graph)})
TARGET_FINDINGS.register("regression")(lambda graph, facts: value_findings(graph, facts["target"]))


@TARGET_FINDINGS.register("classification")
def _class_findings(graph: Graph, facts: dict[str, Any]) -> list[Finding]:
    findings = []
    if facts["unlabelled"]:
        count = facts["unlabelled"]
        message = f"{count:,} of {graph.num_nodes:,} nodes {'are' if count > 1 else 'is'} unlabelled"
        where = name_nodes(graph.node_ids, np.flatnonzero(~graph.labelled))
        findings.append(Finding("W-UNLABELLED", "note", message, count, where))
    return findings + unseen_classes(graph.target, graph.masks) + _sizes(graph, facts) + _similar(graph)


def _refused(graph: Graph) -> list[Finding]:
    """What ``fit`` would refuse."""
    problems = []
    for one, other, rows in overlaps(graph.masks):
        message = f"{counted(len(rows), 'node')} in both the {one} and the {other} split"
        where = name_nodes(graph.node_ids, rows)
        hint = "metrics on training nodes are meaningless"
        problems.append(Finding("E-SPLIT-OVERLAP", "problem", message, len(rows), where, hint))
    if graph.masks or not graph.labelled.any():
        try:
            require_trainable(graph)
        except BadInput as error:
            problems.append(Finding(error.code, "problem", error.message, hint=error.fix))
    elif graph.labels is not None and len(np.unique(graph.labels[graph.labelled])) < 2:
        message = "all labelled nodes have the same class"
        problems.append(Finding("E-ONE-CLASS", "problem", message, 1, hint="label nodes of another class"))
    else:
        message = "the graph has no split"
        problems.append(Finding("W-NO-SPLIT", "note", message, hint="one is drawn when a model is fitted"))
    return problems


def _sizes(graph: Graph, facts: dict[str, Any]) -> list[Finding]:
    findings = []
    counts = _per_class(graph, np.ones(graph.num_nodes, dtype=bool))
    if facts["imbalance"] is not None and facts["imbalance"] > IMBALANCE:
        present = np.flatnonzero(counts)
        largest, smallest = present[np.argmax(counts[present])], present[np.argmin(counts[present])]
        message = (
            f"classes are imbalanced: {_title(graph, largest)} has {counts[largest]:,} nodes, "
            f"{_title(graph, smallest)} {counts[smallest]:,} ({facts['imbalance']:.0f} to 1)"
        )
        hint = "also look at macro-F1 and balanced accuracy"
        findings.append(Finding("W-IMBALANCE", "warning", message, int(counts[smallest]), hint=hint))
    empty = np.flatnonzero(counts == 0)
    if len(empty):
        where = tuple(_title(graph, one) for one in empty[:5])
        message = f"{len(empty):,} {'classes have' if len(empty) > 1 else 'class has'} no node"
        findings.append(Finding("W-CLASS-EMPTY", "warning", message, len(empty), where))
    return findings


def split_findings(graph: Graph, *, drawn: bool = False) -> list[Finding]:
    """Whether there are enough nodes to train on and to judge by.

    Args:
        graph: with its roles.
        drawn: the roles are not those of the data but of the split that a fit would draw.
    """
    if graph.train_mask is None or not graph.labelled.any():
        return []
    findings, of_drawn = [], " of the split that fit would draw" if drawn else ""
    if graph.labels is not None:
        trained = _per_class(graph, graph.train_mask)
        few = np.flatnonzero((trained > 0) & (trained < FEW_LABELS))
        if len(few):
            where = tuple(f"{_title(graph, one)}: {trained[one]}" for one in few[:5])
            plural = "classes have" if len(few) > 1 else "class has"
            message = f"{len(few):,} {plural} fewer than {FEW_LABELS} training nodes{of_drawn}"
            findings.append(Finding("W-CLASS-FEW", "warning", message, len(few), where, "label some more of them"))
    counts = {what: int((graph.role(role) & graph.familiar).sum()) for role, what in JUDGING.items()}
    small = {what: count for what, count in counts.items() if 0 < count < FEW_JUDGING}
    if small:
        message = f"only {' and '.join(counted(count, f'{what} node') for what, count in small.items())}{of_drawn}"
        affected = {"validation": "the choice of epoch and settings", "test": "the test figures"}
        what = " and ".join(affected[one] for one in small)
        verb = "rest" if "test" in small else "rests"
        hint = f"{what} {verb} on few nodes: label more, at least {FEW_JUDGING} for each"
        findings.append(Finding("W-SPLIT-SMALL", "warning", message, min(small.values()), (), hint))
    return findings


def _similar(graph: Graph) -> list[Finding]:
    seen: dict[str, str] = {}
    pairs = []
    for name in graph.class_names:
        other = seen.setdefault(" ".join(name.casefold().split()), name)
        if other != name:
            pairs.append(f"{shorten(repr(other), 60)} and {shorten(repr(name), 60)}")
    if not pairs:
        return []
    differ = "pair of classes differs" if len(pairs) == 1 else "pairs of classes differ"
    message = f"{len(pairs):,} {differ} only in case or spaces: {pairs[0]}"
    return [Finding("W-CLASS-SIMILAR", "warning", message, len(pairs), tuple(pairs[:5]), "are they the same class?")]


def _unscored(graph: Graph) -> list[Finding]:
    findings = []
    for role in ("val", "calibration", "test"):
        rows = np.flatnonzero(graph.role(role) & ~graph.labelled)
        if len(rows):
            message = (
                f"{len(rows):,} {'nodes' if len(rows) > 1 else 'node'} of the {role} split can't be scored: no label"
            )
            where = name_nodes(graph.node_ids, rows)
            findings.append(Finding("W-SPLIT-UNLABELLED", "warning", message, len(rows), where))
    return findings


def _per_class(graph: Graph, mask: np.ndarray) -> np.ndarray:
    if graph.labels is None:
        return np.zeros(graph.num_classes, dtype=np.int64)
    return np.bincount(graph.labels[mask & graph.labelled], minlength=graph.num_classes)


def _named(graph: Graph, counts: np.ndarray) -> dict[str, int]:
    return dict(zip(graph.class_names, counts.tolist(), strict=True))


def _title(graph: Graph, position: int | np.integer) -> str:
    return shorten(graph.class_names[int(position)], 60)
