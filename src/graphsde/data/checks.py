"""What a graph is and what is odd about it, in plain words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from graphsde.data.check_features import feature_facts, feature_findings
from graphsde.data.check_labels import label_facts, label_findings
from graphsde.data.check_structure import structure_facts, structure_findings
from graphsde.data.check_values import describe_values
from graphsde.data.findings import Finding
from graphsde.data.graph import Graph
from graphsde.errors import shorten

# measured again on the graph as it is, which may have other masks or nodes than the one that was read
MEASURED_AGAIN = frozenset({"W-UNLABELLED", "W-CLASS-UNSEEN", "W-NO-EDGES"})
MOST_CLASSES_SHOWN = 20
ORDER = ("problem", "warning", "note")
TITLES = {"problem": "Problems", "warning": "Warnings", "note": "Notes"}


@dataclass(frozen=True)
class DataReport:
    """Facts about a graph and what was noticed; ``print`` it to read it.

    Args:
        facts: counts and measures, as plain values.
        findings: what is odd, the gravest first.
    """

    facts: Mapping[str, Any]
    findings: tuple[Finding, ...]

    @property
    def problems(self) -> tuple[Finding, ...]:
        """Findings for which ``fit`` would refuse the graph."""
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
        return "\n".join(lines)

    def _of(self, level: str) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.level == level)


def check(graph: Graph) -> DataReport:
    """Look at a graph before a model does.

    Args:
        graph: any graph.

    Returns:
        facts (size, degrees, homophily, labels per split, …) and findings. Nodes are named by id and by row, counted
        from 1.

    Example:
        >>> from graphsde.data.build import from_arrays
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
    findings.sort(key=lambda finding: ORDER.index(finding.level))
    return DataReport(facts, tuple(findings))


def _describe(facts: Mapping[str, Any]) -> list[str]:
    features, degree = facts["features"], facts["degree"]
    if facts["directed"]:
        edges = f"{facts['edges']:,} directed edges"
    else:
        edges = f"{facts['edges'] // 2:,} undirected edges ({facts['edges']:,} directed entries)"
    columns = f"{features['numeric']:,} numeric columns ({features['filled']:.1%} not zero)"
    if features["categorical"]:
        columns += f", {features['categorical']:,} categorical columns"
    lines = [
        f"{shorten(facts['name'])}: {facts['nodes']:,} nodes, {edges}{', weighted' if facts['weighted'] else ''}",
        f"Features: {columns}",
        f"Degree: {degree['min']:,} to {degree['max']:,}, median {degree['median']:g}, mean {degree['mean']:.1f}; "
        f"{facts['components']:,} {'components, the largest' if facts['components'] > 1 else 'component'} "
        f"with {facts['largest_component']:,} nodes",
    ]
    if facts["homophily"]:
        share, adjusted = facts["homophily"]["edge"], facts["homophily"]["adjusted"]
        corrected = (
            ""
            if adjusted is None
            else f"; {round(adjusted, 2) + 0.0:.2f} corrected for class sizes (0 = chance, 1 = always)"
        )
        lines.append(f"Homophily: {share:.0%} of edges join nodes of the same class{corrected}")
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
        table.append(f"  … and {len(classes) - len(shown):,} more classes")
    return [f"Labels: {len(classes):,} classes, {facts['unlabelled']:,} nodes unlabelled", *table]


def _tell(finding: Finding) -> list[str]:
    lines = [f"  {finding.code}  {finding.message}"]
    if finding.where:
        more = ", …" if finding.count > len(finding.where) else ""
        lines.append(f"      where: {', '.join(finding.where)}{more}")
    if finding.hint:
        lines.append(f"      {finding.hint}")
    return lines
