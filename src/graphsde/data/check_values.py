"""What there is to know about a numeric target before a model is fitted."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphsde.data.findings import Finding
from graphsde.data.graph import Graph
from graphsde.data.masks import name_nodes

LOW_CORRELATION = 0.1  # below it neighbours say next to nothing about a node's value
FAR = 6  # robust standard deviations from the median


def value_facts(graph: Graph) -> dict[str, Any] | None:
    """Distribution of the values, and how alike neighbours are; ``None`` where nodes have classes or no values."""
    if graph.values is None or not graph.labelled.any():
        return None
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

    ``None`` where fewer than two edges have values at both ends, or all of these are the same.
    """
    assert graph.values is not None
    sources, targets = graph.adjacency.edge_index()
    one, other = graph.values[sources], graph.values[targets]
    both = ~np.isnan(one) & ~np.isnan(other)
    one, other = one[both], other[both]
    if len(one) < 2 or one.std() == 0 or other.std() == 0:
        return None
    return float(np.corrcoef(one, other)[0, 1])


def value_findings(graph: Graph, facts: dict[str, Any]) -> list[Finding]:
    findings = []
    if facts["min"] == facts["max"] and not graph.masks:  # with masks the training nodes are looked at
        hint = "give nodes with other values"
        findings.append(Finding("E-ONE-VALUE", "problem", "all nodes have the same value", facts["known"], hint=hint))
    missing = np.flatnonzero(~graph.labelled)
    if len(missing):
        message = f"{len(missing):,} of {graph.num_nodes:,} nodes have no value"
        where = name_nodes(graph.node_ids, missing)
        findings.append(Finding("W-UNLABELLED", "note", message, len(missing), where))
    correlation = facts["edge_correlation"]
    if correlation is not None and correlation < LOW_CORRELATION:
        message = f"neighbours have unlike values: correlation {correlation:.2f} along edges"
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
    message = f"{len(far):,} {'values lie' if len(far) > 1 else 'value lies'} very far from the others"
    hint = "if they are no slips of the pen, think of predicting the logarithm"
    return [Finding("W-VALUE-FAR", "warning", message, len(far), name_nodes(graph.node_ids, far), hint)]


def describe_values(facts: dict[str, Any]) -> str:
    """One line for a reader."""
    known = facts["known"]
    text = (
        f"Target: numeric, {known:,} {'nodes have' if known > 1 else 'node has'} a value; "
        f"{facts['min']:g} to {facts['max']:g}, median {facts['median']:g}, mean {facts['mean']:.4g}, "
        f"standard deviation {facts['std']:.4g}"
    )
    if facts["edge_correlation"] is None:
        return text
    return text + f"; correlation along edges {facts['edge_correlation']:.2f} (0 = chance, 1 = neighbours are equal)"
