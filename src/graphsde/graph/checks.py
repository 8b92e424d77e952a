"""What a graph is and what is wrong with it, in plain words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphsde.base.errors import shorten
from graphsde.base.html import counted
from graphsde.base.terminal import printable
from graphsde.graph.check_features import describe_features, feature_facts, feature_findings
from graphsde.graph.check_labels import describe_values, label_facts, label_findings, split_findings
from graphsde.graph.graph import Graph
from graphsde.graph.homophily import adjusted_homophily, homophily, nodes_with_open_labels
from graphsde.graph.masks import name_nodes
from graphsde.graph.raw import NO_EDGES, Finding

LOW_HOMOPHILY = 0.3  # adjusted; citation graphs are near 0.7, the usual heterophilous benchmarks below 0.15
FEW_EDGES = 50  # with fewer directed entries, adjusted homophily is mostly chance
HUB_SHARE = 0.1  # a node with a tenth of the graph as neighbours puts most nodes within two steps of each other
HUB_DEGREE = 100  # smaller neighbourhoods are harmless
HUB_OVER_MEDIAN = 10  # a hub stands out; in a dense graph no node does
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
    # labels of test nodes would leak information about the test
    open_labels = nodes_with_open_labels(graph)
    shown = None if graph.labels is None else np.where(open_labels, graph.labels, -1)
    measured = None if shown is None else homophily(graph.adjacency, shown)
    if measured is not None:
        adjusted, _ = adjusted_homophily(graph, open_labels)
        facts["homophily"] = {"edge": measured.edge, "adjusted": adjusted, "edges": measured.edges}
    return facts


def structure_findings(graph: Graph, facts: dict[str, Any]) -> list[Finding]:
    if not graph.num_edges:
        return [NO_EDGES]
    findings = []
    if facts["directed"]:
        hint = "a node only gets messages from nodes that point to it"
        findings.append(Finding("W-DIRECTED", "note", "edges are directed", graph.num_edges, hint=hint))
    if facts["isolated"]:
        rows, count = np.flatnonzero(graph.adjacency.isolated), facts["isolated"]
        message = f"{count:,} isolated {'nodes' if count > 1 else 'node'}: predicted from own features only"
        findings.append(Finding("W-ISOLATED", "warning", message, count, name_nodes(graph.node_ids, rows, 10)))
    if facts["components"] - facts["isolated"] > 1:
        message = f"{facts['components']:,} components, the largest with {facts['largest_component']:,} nodes"
        findings.append(
            Finding("W-COMPONENTS", "note", message, facts["components"], hint="no information flows between them")
        )
    return findings + _hubs(graph, facts) + _disagreement(facts)


def _hubs(graph: Graph, facts: dict[str, Any]) -> list[Finding]:
    possible = graph.num_nodes * (graph.num_nodes - 1)
    if graph.num_nodes > HUB_DEGREE and graph.num_edges > DENSE * possible:
        message = f"{graph.num_edges / possible:.0%} of all possible edges exist"
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
    hint = "many nodes are two steps apart through a hub: deep propagation makes them similar"
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
        "averaging over neighbours blurs such classes: the default model therefore also tries members that can ignore "
        "them; compare with logistic and mlp, which ignore the edges"
    )
    return [Finding("W-HETEROPHILY", "warning", message, measured["edges"], hint=hint)]


# measured again on this graph, which may have other masks or nodes than the one that was read
MEASURED_AGAIN = frozenset({"W-UNLABELLED", "W-CLASS-UNSEEN", "W-NO-EDGES"})
MOST_CLASSES_SHOWN = 20
ORDER = ("problem", "warning", "note")
TITLES = {"problem": "Problems", "warning": "Warnings", "note": "Notes"}


@dataclass(frozen=True)
class DataReport:
    """Facts about a graph and what was noticed; ``print`` it to read it.

    Args:
        facts: counts and measures, as plain values.
        findings: problems, warnings and notes, most serious first.
    """

    facts: Mapping[str, Any]
    findings: tuple[Finding, ...]

    @property
    def problems(self) -> tuple[Finding, ...]:
        """Findings that would make ``fit`` refuse the graph."""
        return self._of("problem")

    @property
    def warnings(self) -> tuple[Finding, ...]:
        return self._of("warning")

    @property
    def notes(self) -> tuple[Finding, ...]:
        return self._of("note")

    def as_dict(self) -> dict[str, Any]:
        return {"facts": dict(self.facts), "findings": [finding.as_dict() for finding in self.findings]}

    def __str__(self) -> str:
        lines = _describe(self.facts)
        if not self.problems:
            lines += ["", "No problems: a model can be fitted."]
        for level in ORDER:
            found = self._of(level)
            if found:
                lines += ["", f"{TITLES[level]}:"]
                for finding in found:
                    lines += _tell(finding)
        return "\n".join(map(printable, lines))  # names and ids come from files and must not fake lines

    def _of(self, level: str) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.level == level)


def check(graph: Graph, *, divided: Graph | None = None) -> DataReport:
    """Check a graph before fitting a model.

    Args:
        graph: any graph.
        divided: the same graph with the split that a fit would draw, if it has no training nodes.

    Returns:
        facts (size, degrees, homophily, labels per split, …) and findings. Nodes are named by id and by row, counted
        from 1.

    Example:
        >>> from graphsde.graph.build import from_arrays
        >>> graph = from_arrays([[1.0], [2.0], [3.0]], [[0], [1]], labels=["a", "b", "a"])
        >>> [finding.message for finding in check(graph).warnings]
        ['1 isolated node: predicted from own features only']
    """
    structure, labels = structure_facts(graph), label_facts(graph)
    facts = {
        "name": graph.name,
        "nodes": graph.num_nodes,
        **structure,
        "features": feature_facts(graph),
        **labels,
        "split": graph.split,
    }
    findings = [note for note in graph.notes if note.code not in MEASURED_AGAIN]
    findings += label_findings(graph, labels) + structure_findings(graph, structure) + feature_findings(graph)
    findings += split_findings(graph if divided is None else divided, drawn=divided is not None)
    findings.sort(key=lambda finding: ORDER.index(finding.level))
    return DataReport(facts, tuple(findings))


def _describe(facts: Mapping[str, Any]) -> list[str]:
    degree = facts["degree"]
    if facts["directed"]:
        edges = counted(facts["edges"], "directed edge")
    else:
        edges = f"{counted(facts['edges'] // 2, 'undirected edge')} ({facts['edges']:,} directed entries)"
    lines = [
        f"{shorten(facts['name'])}: {facts['nodes']:,} nodes, {edges}{', weighted' if facts['weighted'] else ''}",
        *describe_features(facts["features"]),
        f"Degree: {degree['min']:,} to {degree['max']:,}, median {degree['median']:g}, mean {degree['mean']:.1f}; "
        f"{facts['components']:,} {'components, the largest' if facts['components'] > 1 else 'component'} "
        f"with {counted(facts['largest_component'], 'node')}",
    ]
    if facts["homophily"]:
        share, adjusted = facts["homophily"]["edge"], facts["homophily"]["adjusted"]
        corrected = (
            ""
            if adjusted is None
            else f"; {round(adjusted, 2) + 0.0:.2f} corrected for class sizes (0 = chance, 1 = always)"
        )
        among = "edges among training and validation nodes" if facts["splits"] else "edges"
        lines.append(f"Homophily: {share:.0%} of {among} join nodes of the same class{corrected}")
    if facts["splits"]:
        roles = ", ".join(f"{name} {count:,}" for name, count in facts["splits"].items())
        lines.append(f"Split: {roles}, none {facts['without_split']:,}")
    return lines + _class_table(facts)


def _class_table(facts: Mapping[str, Any]) -> list[str]:
    classes: Mapping[str, int] = facts["classes"]
    if facts.get("target") is not None:
        return [describe_values(facts["target"])]
    if not classes:
        return ["Labels: none"]
    roles: Mapping[str, Mapping[str, int]] = facts["labels_per_split"]
    shown = list(classes)[:MOST_CLASSES_SHOWN]
    rows = [["class", "nodes", *roles]]
    rows += [
        [shorten(name, 30), f"{classes[name]:,}", *(f"{role[name]:,}" for role in roles.values())] for name in shown
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    table = [
        "  "
        + row[0].ljust(widths[0])
        + "".join(f"  {cell.rjust(width)}" for cell, width in zip(row[1:], widths[1:], strict=True))
        for row in rows
    ]
    if len(classes) > len(shown):
        table.append(f"  … and {len(classes) - len(shown):,} more")
    return [f"Labels: {counted(len(classes), 'class')}, {counted(facts['unlabelled'], 'node')} unlabelled", *table]


def _tell(finding: Finding) -> list[str]:
    lines = [f"  {finding.code}  {finding.message}"]
    if finding.where:
        more = ", …" if finding.count > len(finding.where) else ""
        lines.append(f"      where: {', '.join(finding.where)}{more}")
    if finding.hint:
        lines.append(f"      {finding.hint}")
    return lines
