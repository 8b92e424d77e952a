"""What is odd about the edges of a graph."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphsde.data.findings import Finding
from graphsde.data.graph import Graph
from graphsde.data.homophily import homophily
from graphsde.data.masks import name_nodes

LOW_HOMOPHILY = 0.3  # adjusted; citation graphs stand near 0.7, the usual heterophilous benchmarks below 0.15
FEW_EDGES = 50  # of fewer directed entries the adjusted homophily is mostly chance
HUB_SHARE = 0.1  # a node that hears a tenth of the graph brings everybody within two steps of everybody
HUB_DEGREE = 100  # in smaller neighbourhoods a mean over neighbours is nothing special
HUB_OVER_MEDIAN = 10  # a hub stands out; in a dense graph nobody does
DENSE = 0.5  # share of possible edges beyond which a mean over neighbours is a mean over the graph


def structure_facts(graph: Graph) -> dict[str, Any]:
    degree = graph.adjacency.degree
    sizes = np.bincount(graph.adjacency.components)
    facts: dict[str, Any] = {
        "edges": graph.num_edges,
        "directed": graph.adjacency.directed,
        "weighted": graph.adjacency.is_weighted,
        "isolated": int(graph.adjacency.isolated.sum()),
        "components": len(sizes),
        "largest_component": int(sizes.max()),
        "degree": {
            "min": int(degree.min()),
            "median": float(np.median(degree)),
            "mean": float(degree.mean()),
            "max": int(degree.max()),
        },
        "homophily": None,
    }
    measured = None if graph.labels is None else homophily(graph.adjacency, graph.labels)
    if measured is not None:
        adjusted = None if np.isnan(measured.adjusted) else measured.adjusted
        facts["homophily"] = {"edge": measured.edge, "adjusted": adjusted, "edges": measured.edges}
    return facts


def structure_findings(graph: Graph, facts: dict[str, Any]) -> list[Finding]:
    if not graph.num_edges:
        hint = "every model then acts on a node's own features alone"
        return [Finding("W-NO-EDGES", "warning", "the graph has no edges", hint=hint)]
    findings = []
    if facts["directed"]:
        hint = "a node hears only from the nodes that point to it"
        findings.append(Finding("W-DIRECTED", "note", "edges are directed", graph.num_edges, hint=hint))
    if facts["isolated"]:
        rows, count = np.flatnonzero(graph.adjacency.isolated), facts["isolated"]
        message = f"{count:,} isolated {'nodes' if count > 1 else 'node'}: predicted from own features only"
        findings.append(Finding("W-ISOLATED", "warning", message, count, name_nodes(graph.node_ids, rows, 10)))
    parts = facts["components"] - facts["isolated"]
    if parts > 1:
        message = f"{facts['components']:,} components, the largest with {facts['largest_component']:,} nodes"
        findings.append(
            Finding("W-COMPONENTS", "note", message, facts["components"], hint="nothing flows between them")
        )
    return findings + _hubs(graph, facts) + _disagreement(facts)


def _hubs(graph: Graph, facts: dict[str, Any]) -> list[Finding]:
    possible = graph.num_nodes * (graph.num_nodes - 1)
    if graph.num_nodes > HUB_DEGREE and graph.num_edges > DENSE * possible:
        message = f"{graph.num_edges / possible:.0%} of all possible edges are there"
        hint = "a mean over neighbours is nearly the same for every node: drop weak edges, or use mlp"
        return [Finding("W-DENSE", "warning", message, graph.num_edges, hint=hint)]
    degree = graph.adjacency.degree
    limit = max(HUB_DEGREE, HUB_SHARE * graph.num_nodes, HUB_OVER_MEDIAN * facts["degree"]["median"])
    hubs = np.flatnonzero(degree >= limit)
    if not len(hubs):
        return []
    hubs = hubs[np.argsort(-degree[hubs], kind="stable")]
    plural = "nodes are hubs" if len(hubs) > 1 else "node is a hub"
    share = degree[hubs[0]] / graph.num_nodes
    message = f"{len(hubs):,} {plural}: the largest has {degree[hubs[0]]:,} neighbours, {share:.0%} of the graph"
    hint = "many nodes are two steps apart through a hub: deep propagation makes them alike"
    return [Finding("W-HUB", "warning", message, len(hubs), name_nodes(graph.node_ids, hubs), hint)]


def _disagreement(facts: dict[str, Any]) -> list[Finding]:
    measured = facts["homophily"]
    if measured is None or measured["edges"] < FEW_EDGES or measured["adjusted"] is None:
        return []
    if measured["adjusted"] >= LOW_HOMOPHILY:
        return []
    message = (
        f"neighbours disagree: {measured['edge']:.0%} of edges join nodes of the same class "
        f"(adjusted homophily {measured['adjusted']:.2f}, where 0 is chance)"
    )
    hint = (
        "averaging over neighbours, as a diffusion along edges does, blurs such classes: compare with mlp, which "
        "ignores the edges, or take a drift that can push neighbours apart"
    )
    return [Finding("W-HETEROPHILY", "warning", message, measured["edges"], hint=hint)]
