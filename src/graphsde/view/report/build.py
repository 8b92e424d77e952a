"""From a run's content to one HTML file that needs nothing else."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from graphsde._version import __version__
from graphsde.data.findings import Finding
from graphsde.prediction import Prediction
from graphsde.storage import write_text
from graphsde.view.report.content import ReportContent
from graphsde.view.report.figure_blocks import FigureBlock, figure_blocks
from graphsde.view.report.formatting import count, flatten, name
from graphsde.view.report.judged_nodes import JudgedNodes, judge
from graphsde.view.report.metric_cards import metric_cards, other_metrics
from graphsde.view.report.uncertain_nodes import HOW_MANY, most_uncertain
from graphsde.view.report.verdict import verdict

LEVELS = ("problem", "warning", "note")
MAX_FINDINGS = 200
MAX_PLACES = 5


def render_report(content: ReportContent) -> str:
    """The report as one HTML document: no network, no other file, the same bytes for the same content.

    Args:
        content: the run.

    Example:
        >>> import numpy as np
        >>> from graphsde.data.adjacency import Adjacency
        >>> from graphsde.data.graph import Graph
        >>> ids, classes = np.array([7, 8]), ("cat", "dog")
        >>> graph = Graph(Adjacency(np.array([[0, 1], [1, 0]])), np.eye(2), None, classes, ids)
        >>> guess = Prediction(np.array([[[0.9, 0.1], [0.5, 0.5]]]), ids, classes, "deterministic")
        >>> "The model labelled 2 nodes" in render_report(ReportContent("two animals", graph, guess, metrics={}))
        True
    """
    from markupsafe import Markup

    judged = judge(content.graph, content.prediction)
    nodes = most_uncertain(content.graph, content.prediction, judged)
    plotly, draw = _plotly_script(), _own_file("draw.js")
    return _template().render(
        policy=_policy(plotly, draw),
        title=name(content.title),
        verdict=verdict(judged, content.prediction.confidence),
        facts=_facts(content),
        cards=metric_cards(content.metrics),
        others=other_metrics(content.metrics),
        findings=_findings(content),
        figures=[_trusted(block) for block in figure_blocks(content, judged)],
        nodes_title=_nodes_title(len(nodes), judged),
        nodes_note=_epistemic_note(content.prediction),
        nodes=nodes,
        neighbours_note=_neighbours_note(any(row.image for row in nodes)),
        settings=flatten(content.model_settings),
        model_name=name(content.model_name),
        version=__version__,
        style=Markup(_own_file("style.css")),
        plotly=Markup(plotly),
        draw=Markup(draw),
    )


def write_report(content: ReportContent, path: str | Path) -> Path:
    """Write the report to ``path``; a file that is there already stays whole until the new one is complete.

    Args:
        content: the run.
        path: where to; missing folders are made.
    """
    target = Path(path)
    write_text(target, render_report(content))
    return target


@dataclass(frozen=True)
class _ShownFinding:
    code: str
    level: str
    message: str
    hint: str | None
    where: list[str]
    more: bool


def _template() -> Any:
    import jinja2

    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        loader=jinja2.FunctionLoader(_own_file),
    )
    return environment.get_template("template.html")


def _own_file(filename: str) -> str:
    return resources.files("graphsde.view.report").joinpath(filename).read_text(encoding="utf-8")


def _plotly_script() -> str:
    from plotly.offline import get_plotlyjs

    # the browser hashes what it parsed, and it parses CR LF as LF
    return str(get_plotlyjs()).replace("\r\n", "\n").replace("</script", "<\\/script")


def _policy(*scripts: str) -> str:
    """No connection of any kind, and no script but our own: their hashes overrule 'unsafe-inline'."""
    digests = [base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode("ascii") for text in scripts]
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    return (
        f"default-src 'none'; script-src 'unsafe-inline' {allowed}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _trusted(block: FigureBlock) -> dict[str, Any]:
    from markupsafe import Markup

    data = None if block.data is None else Markup(block.data)  # script_json has escaped it
    return {"key": block.key, "title": block.title, "caption": block.caption, "data": data, "height": block.height}


def _facts(content: ReportContent) -> list[tuple[str, str]]:
    graph, prediction = content.graph, content.prediction
    undirected = not graph.adjacency.directed
    edges = f"{graph.num_edges // 2:,}" if undirected else f"{graph.num_edges:,} directed"
    roles = [f"{int(mask.sum()):,} {role}" for role, mask in graph.masks.items() if mask.any()]
    lines = [
        ("Graph", name(graph.name)),
        ("Nodes and edges", f"{graph.num_nodes:,} and {edges}"),
        ("Features and classes", f"{graph.num_features:,} and {graph.num_classes:,}"),
        ("Split", name(content.split)),
        ("Nodes per role", ", ".join(roles) or "no masks"),
        ("Model", name(content.model_name)),
        ("Prediction", _kind(prediction)),
        ("Seed", str(content.seed)),
    ]
    return lines + flatten(content.facts)


def _kind(prediction: Prediction) -> str:
    if prediction.kind == "samples":
        return "mean of " + count(prediction.num_samples, "sample")
    return "evidential (Dirichlet)" if prediction.kind == "dirichlet" else "deterministic"


def _findings(content: ReportContent) -> list[_ShownFinding]:
    def urgency(finding: Finding) -> int:
        return LEVELS.index(finding.level) if finding.level in LEVELS else len(LEVELS)

    return [
        _ShownFinding(
            code=name(finding.code, 40),
            level=finding.level if finding.level in LEVELS else "note",
            message=name(finding.message, 400),
            hint=None if finding.hint is None else name(finding.hint, 400),
            where=[name(place, 60) for place in finding.where[:MAX_PLACES]],
            more=finding.count > min(len(finding.where), MAX_PLACES),
        )
        for finding in sorted(content.findings, key=urgency)[:MAX_FINDINGS]
    ]


def _nodes_title(shown: int, judged: JudgedNodes) -> str:
    many = f"{shown} most uncertain" if shown == HOW_MANY else "most uncertain"
    return f"The {many} {'test nodes' if judged.has_test else 'nodes'}"


def _epistemic_note(prediction: Prediction) -> str:
    if prediction.kind == "deterministic":
        return (
            "This model is deterministic: it has no notion of epistemic uncertainty, which is not the same as having "
            "none, so that column shows “—” and aleatoric equals total."
        )
    if prediction.kind == "samples" and prediction.num_samples == 1:
        return "There is one sample only, so nothing can disagree with it: epistemic uncertainty is 0 by construction."
    return "Total is aleatoric (the node itself is ambiguous) plus epistemic (the model has not settled)."


def _neighbours_note(pictures: bool) -> str:
    first = (
        "Neighbours show their id and label; a label in italics with a question mark is the model's own prediction, "
        "and “said” tells what it predicts where that is not the label."
    )
    return first if pictures else first + " Dots are coloured by predicted class."
