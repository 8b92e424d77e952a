"""From a run's content to one HTML file that needs nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from graphsde.base.storage import write_text
from graphsde.graph.graph import Graph
from graphsde.graph.raw import Finding
from graphsde.metrics import risk_coverage
from graphsde.view.report import regression  # noqa: F401  (importing it registers its sections)
from graphsde.view.report.class_tables import class_tables
from graphsde.view.report.content import (
    SECTIONS,
    JudgedNodes,
    ReportContent,
    Sections,
    count,
    flatten,
    judge,
    name,
    nodes_title,
    percent,
    uncertainty_note,
)
from graphsde.view.report.decided import at_limits, beside_control, decided, sentence
from graphsde.view.report.figure_blocks import figure_blocks, metric_cards, other_metrics
from graphsde.view.report.page import render_page
from graphsde.view.report.uncertain_nodes import most_uncertain

KEPT = 0.8
ENOUGH = 10  # below this, the surest 80 % are too few to say anything


def verdict(judged: JudgedNodes, confidence: np.ndarray) -> str:
    """How often the model is right, and what its confidence is worth.

    Args:
        judged: the nodes that count.
        confidence: probability of the predicted class, of all nodes.  # [N]
    """
    if not len(judged):
        reason = "no test node has a known label" if judged.has_test else "the graph has no test nodes"
        nodes = count(len(confidence), "node")
        return f"The model labelled {nodes}; {reason}, so this page can't say how often it is right."
    accuracy = float(judged.right.mean())
    opening = f"On {count(len(judged), 'test node')} the model is right {percent(accuracy)} of the time"
    if accuracy in (0.0, 1.0) or len(judged) < ENOUGH:
        return opening + "."
    kept = accuracy_when_keeping(KEPT, confidence[judged.rows], judged.right)
    share = "keeping the most certain 80 %"
    if percent(kept) == percent(accuracy):
        return f"{opening}; {share} leaves that unchanged."
    if kept < accuracy:
        return f"{opening}; {share} lowers that to {percent(kept)}: its confidence does not point at its mistakes."
    return f"{opening}; {share} raises that to {percent(kept)}."


def accuracy_when_keeping(share: float, confidence: np.ndarray, right: np.ndarray) -> float:
    """Expected accuracy over the ``share`` of nodes with the highest confidence."""
    curve = risk_coverage(1.0 - confidence, ~right)
    return 1.0 - float(curve.risk[max(1, round(share * len(right))) - 1])


LEVELS = ("problem", "warning", "note")
FIRST = ("risk-coverage", "fit", "entropy", "scatter")
"""Figures that a report may open with, the best first."""
GIST = ("accuracy", "nll", "ece", "rmse", "crps", "coverage90")
WORDS = {"accept": "accepted", "review": "to review", "ood": "look out-of-distribution"}
MAX_FINDINGS = 200
MAX_PLACES = 5


def render_report(content: ReportContent) -> str:
    """The report as one HTML document: no network, no other file, the same bytes for the same content.

    Args:
        content: the run.

    Example:
        >>> import numpy as np
        >>> from graphsde.graph.adjacency import Adjacency
        >>> from graphsde.graph.graph import Graph
        >>> from graphsde.prediction import ClassPrediction
        >>> ids, classes = np.array([7, 8]), ("cat", "dog")
        >>> graph = Graph(Adjacency(np.array([[0, 1], [1, 0]])), np.eye(2), ids)
        >>> guess = ClassPrediction(np.array([[[0.9, 0.1], [0.5, 0.5]]]), ids, classes, "deterministic")
        >>> "The model labelled 2 nodes" in render_report(ReportContent("two animals", graph, guess, metrics={}))
        True
    """
    sections = SECTIONS.of(content.prediction)
    parts = sections.parts(content)
    return render_page(
        sections.template,
        {
            **parts,
            "title": name(content.title),
            "facts": _facts(content),
            "findings": _findings(content),
            "board": _board(content),
            "decided": decided(content),
            "settings": flatten(content.model_settings),
            "model_name": name(content.model_name),
            **_first_of_all(content, parts),
        },
    )


def _first_of_all(content: ReportContent, parts: dict[str, Any]) -> dict[str, Any]:
    """The paragraph and the picture that a report opens with, and what each folded part says on its fold.

    The picture is what becomes of the nodes decided on at which limit; where nothing is decided, a figure in its place.
    """
    decisions, figures = content.decisions, parts["figures"]
    said = ["" if decisions is None else sentence(decisions), parts["verdict"], beside_control(content)]
    drawn = {figure.key: figure for figure in figures if figure.data is not None}
    first = None if decisions else next((drawn[key] for key in FIRST if key in drawn), None)
    return {
        "verdict": " ".join(filter(None, said)),
        "at_limits": at_limits(decisions),
        "nodes_decided_on": "" if decisions is None else f"{int(decisions.abstention.decided.sum()):,}",
        "guarantee": "" if decisions is None else decisions.frontier.guarantee.words,
        "first_figure": first,
        "figures": [figure for figure in figures if figure is not first],
        "gists": _gists(content, parts, len(figures) - (first is not None)),
    }


def _gists(content: ReportContent, parts: dict[str, Any], figures: int) -> dict[str, str]:
    """One line for each part that is folded."""
    shown = [card for card in parts["cards"] if card["key"] in GIST]
    board, levels = content.controls, [finding.level for finding in content.findings]
    told = [count(levels.count(level), level) for level in LEVELS if level in levels]
    decided_on = content.decisions
    classes = content.graph.num_classes
    return {
        "facts": name(f"{content.model_name} on {content.graph.name}, seed {content.seed}"),
        "metrics": ", ".join(f"{card['title']} {card['value']}" for card in shown),
        "controls": "" if board is None else count(sum(one.control for one in board.rows), "control"),
        "decisions": "nothing decided" if decided_on is None else ", ".join(
            f"{many:,} {WORDS[action]}" for action, many in decided_on.decided_counts().items()
        ),
        "classes": count(classes, "class"),
        "check": ", ".join(told) or "nothing to remark",
        "figures": count(figures, "figure"),
        "settings": name(content.model_name),
    }  # fmt: skip


def _board(content: ReportContent) -> dict[str, Any] | None:
    """The leaderboard as the terminal has it."""
    board = content.controls
    if board is None or not board.rows:
        return None
    rows = board.table()
    return {
        "columns": list(rows[0]),
        "rows": [
            ([name(text) for text in row.values()], not one.control) for row, one in zip(rows, board.rows, strict=True)
        ],
        "sentence": name(board.sentence, 1000),
        "notes": [name(note, 400) for note in board.notes()],
    }


def _asked(graph: Graph) -> tuple[str, str]:
    return "Features and classes", f"{graph.num_features:,} and {graph.num_classes:,}"


def _class_parts(content: ReportContent) -> dict[str, Any]:
    """The parts of the page that are about classes."""
    prediction = content.classes
    judged = judge(content.graph, prediction)
    nodes = most_uncertain(content.graph, prediction, judged)
    return {
        "verdict": verdict(judged, prediction.confidence),
        "cards": metric_cards(content.metrics, content.intervals),
        "others": other_metrics(content.metrics, content.intervals),
        "classes": class_tables(content, judged),
        "figures": figure_blocks(content, judged),
        "nodes_title": nodes_title(len(nodes), has_test=judged.has_test),
        "nodes_note": uncertainty_note(
            prediction, "Total is aleatoric (the node itself is ambiguous) plus epistemic (the model has not settled)."
        ),
        "nodes": nodes,
        "neighbours_note": _neighbours_note(any(row.image for row in nodes)),
    }


SECTIONS.register("classification")(Sections("template.html", _class_parts, _asked))


def write_report(content: ReportContent, path: str | Path) -> Path:
    """Write the report to ``path``; a file that is there already stays whole until the new one is complete.

    Args:
        content: the run.
        path: where to; missing folders are made.
    """
    target = Path(path)
    write_text(target, render_report(content))
    return target


def _facts(content: ReportContent) -> list[tuple[str, str]]:
    graph, prediction = content.graph, content.prediction
    undirected = not graph.adjacency.directed
    edges = f"{graph.num_edges // 2:,}" if undirected else f"{graph.num_edges:,} directed"
    roles = [f"{int(mask.sum()):,} {role}" for role, mask in graph.masks.items() if mask.any()]
    lines = [
        ("Graph", name(graph.name)),
        ("Nodes and edges", f"{graph.num_nodes:,} and {edges}"),
        SECTIONS.of(prediction).asked(graph),
        ("Split", name(content.split)),
        ("Nodes per role", ", ".join(roles) or "no masks"),
        ("Model", name(content.model_name)),
        ("Prediction", prediction.spread),
        ("Seed", str(content.seed)),
    ]
    return lines + flatten(content.facts)


def _findings(content: ReportContent) -> list[dict[str, Any]]:
    def urgency(finding: Finding) -> int:
        return LEVELS.index(finding.level) if finding.level in LEVELS else len(LEVELS)

    return [
        {
            "code": name(finding.code, 40),
            "level": finding.level if finding.level in LEVELS else "note",
            "message": name(finding.message, 400),
            "hint": None if finding.hint is None else name(finding.hint, 400),
            "where": [name(place, 60) for place in finding.where[:MAX_PLACES]],
            "more": finding.count > min(len(finding.where), MAX_PLACES),
        }
        for finding in sorted(content.findings, key=urgency)[:MAX_FINDINGS]
    ]


def _neighbours_note(pictures: bool) -> str:
    first = (
        "Neighbours show their id and label; a label in italics with a question mark is the model's own prediction, "
        "and “said” tells what it predicts where that is not the label."
    )
    return first if pictures else first + " Dots are coloured by predicted class."
