"""What a report says of controls, of all nodes and of each class."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

import graphsde as gs
from graphsde.metrics.evaluation import judged_nodes
from graphsde.view.report import ReportContent, render_report
from graphsde.view.report.class_tables import LARGEST_MATRIX, class_tables
from graphsde.view.report.content import judge, percent
from graphsde.view.report.decided import at_limits, beside_control, decide_for_report, decided, sentence


@pytest.fixture(scope="module")
def content() -> ReportContent:
    graph = gs.load("digits")
    model = gs.Logistic(c=1.0).fit(graph)
    prediction = model.predict(graph)
    decisions, undecided = decide_for_report(prediction, graph, model)
    return ReportContent(
        "logistic on digits",
        graph,
        prediction,
        metrics=gs.evaluate(prediction, graph),
        intervals=gs.intervals(prediction, graph),
        controls=gs.controls(graph, prediction, name="logistic"),
        decisions=decisions,
        undecided=undecided,
    )


def words(page: str) -> str:
    body = page.partition('<section id="data-check">')[0]
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", body))


def test_the_page_has_the_board_of_the_terminal(content: ReportContent) -> None:
    page = words(render_report(content))
    board = content.controls
    assert board is not None and board.sentence in page
    for row in board.table():
        assert all(text in page for text in row.values())


def test_every_card_has_an_interval(content: ReportContent) -> None:
    page = render_report(content)
    cards = re.findall(r'<article class="card" data-metric="(\w+)">(.*?)</article>', page, flags=re.S)
    assert len(cards) >= 8
    for name, inside in cards:
        low, high = content.intervals[name]
        assert 'class="interval"' in inside and low <= high
    assert f"{percent(content.intervals['accuracy'][0])} to {percent(content.intervals['accuracy'][1])}" in page


def test_the_page_says_what_becomes_of_the_nodes_decided_on(content: ReportContent) -> None:
    decisions = content.decisions
    assert decisions is not None
    page, told = words(render_report(content)), decided(content)
    decided_on = decisions.abstention.decided
    nodes, accepted = int(decided_on.sum()), int(((decisions.actions == "accept") & decided_on).sum())
    assert nodes < 1797  # the guarantee is not about nodes that were trained on
    assert sentence(decisions) in page and f"{accepted:,} ({percent(accepted / nodes)}) can be accepted" in page
    assert f"Of {nodes:,} nodes decided on" in page and f"the other {1797 - nodes:,} nodes have been used" in page
    assert {value for _, value in told["cards"]} == {f"{many:,}" for many in decisions.decided_counts().values()}
    assert len(told["limits"]) == len(decisions.frontier.rungs)
    for row, rung in zip(told["limits"], decisions.frontier.rungs, strict=True):
        assert row["status"] == rung.status
        if rung.certified:
            assert row["accepted"] == f"{int((decided_on & decisions.frontier.accepted(rung.limit)).sum()):,}"
            counted = [int(row[name].replace(",", "")) for name in ("accepted", "review")]
            assert sum(counted) + decisions.decided_counts()["ood"] == nodes
    assert sum(row["used"] == "used" for row in told["limits"]) == 1
    assert "are flagged as a group" in told["ood"]


def test_where_five_percent_is_not_certified_the_strictest_limit_is_taken() -> None:
    graph = gs.load("digits")
    assert graph.labels is not None and graph.test_mask is not None and graph.val_mask is not None
    assert graph.train_mask is not None
    few = np.flatnonzero(graph.test_mask)[:50]  # 58 without an error would be needed
    small = graph.with_masks(train=graph.train_mask, val=graph.val_mask, test=np.isin(np.arange(1797), few))
    prediction = gs.Logistic(c=1.0).fit(small).predict(small)
    decisions, reason = decide_for_report(prediction, small, None)
    assert decisions is not None and reason == ""
    assert decisions.abstention.max_error == decisions.frontier.certified[-1].limit > 0.05
    assert "5.0 % is not" in sentence(decisions)


def test_a_run_without_decisions_says_why(make_content: Callable[..., ReportContent]) -> None:
    graph = gs.load("diabetes")
    prediction = gs.GCN(epochs=2).fit(graph).predict(graph)
    decisions, reason = decide_for_report(prediction, graph, None)
    assert decisions is None and "how far off may an accepted prediction be?" in reason
    page = render_report(ReportContent("numbers", graph, prediction, metrics={}, undecided=reason))
    assert "how far off may an accepted prediction be?" in page and 'id="controls"' not in page
    plain = render_report(make_content())
    assert "Nothing is decided here." in plain and 'id="classes"' in plain


def test_the_tables_of_classes_add_up(content: ReportContent) -> None:
    judged = judge(content.graph, content.classes)
    tables = class_tables(content, judged)
    assert tables is not None and len(tables["rows"]) == 10 == len(tables["matrix"])
    cells = [int(cell.text or 0) for _, row in tables["matrix"] for cell in row]
    assert sum(cells) == len(judged) == int(judged_nodes(content.prediction, content.graph).sum())
    hits = sum(int(cell.text or 0) for _, row in tables["matrix"] for cell in row if cell.right)
    assert hits == int(judged.right.sum())
    for row, (_, cells_of) in zip(tables["rows"], tables["matrix"], strict=True):
        support = sum(int(cell.text or 0) for cell in cells_of)
        (hit,) = [int(cell.text or 0) for cell in cells_of if cell.right]
        assert row["support"] == f"{support:,}" and row["recall"][0] == percent(hit / support)
        assert row["coverage"][0].endswith("%") and " to " in row["coverage"][1]
    assert tables["with_sets"]


def test_many_classes_get_their_most_frequent_mistakes(make_content: Callable[..., ReportContent]) -> None:
    content = make_content(nodes=300, classes=LARGEST_MATRIX + 3)
    judged = judge(content.graph, content.classes)
    tables = class_tables(content, judged)
    assert tables is not None and not tables["matrix"] and tables["pairs"]
    true, said, nodes, _ = tables["pairs"][0]
    names = content.classes.class_names
    wrong = (judged.truth == names.index(true)) & (content.classes.index[judged.rows] == names.index(said))
    assert int(nodes) == wrong.sum() and true != said
    assert "The most frequent mistakes" in render_report(content)


def test_nothing_is_judged_without_test_nodes(make_content: Callable[..., ReportContent]) -> None:
    content = make_content(test=False)
    assert class_tables(content, judge(content.graph, content.classes)) is None
    assert 'id="classes"' not in render_report(content)


def test_the_report_opens_with_one_paragraph_and_one_picture(content: ReportContent) -> None:
    decisions = content.decisions
    assert decisions is not None
    header = render_report(content).partition("</header>")[0]
    (paragraph,) = re.findall(r'<p class="verdict">(.*?)</p>', header, flags=re.S)
    assert paragraph.startswith(sentence(decisions)) and "guaranteed with probability 95 %" in paragraph
    assert paragraph.endswith(beside_control(content)) and "the model is right" in paragraph
    assert header.count("<figure") == 1 and 'id="at-limits"' in header
    assert decisions.frontier.guarantee.words.replace("'", "&#39;") in header


def test_the_opening_picture_adds_up_to_the_nodes_decided_on(content: ReportContent) -> None:
    decisions = content.decisions
    assert decisions is not None
    rows = at_limits(decisions)
    (used,) = [row for row in rows if row["used"]]
    shown = {part["action"]: int(part["count"].replace(",", "")) for part in used["parts"]}
    assert shown == {one: many for one, many in decisions.decided_counts().items() if one in shown}
    nodes = int(decisions.abstention.decided.sum())
    assert f"What becomes of the {nodes:,} nodes decided on" in render_report(content)
    for row in rows:
        if row["parts"]:
            assert sum(int(part["count"].replace(",", "")) for part in row["parts"]) == nodes
            assert sum(float(part["width"]) for part in row["parts"]) == pytest.approx(100, abs=0.05)
    certified = {percent(one.limit) for one in decisions.frontier.certified}
    assert {row["limit"] for row in rows if row["parts"]} <= certified
    missed = [row["limit"] for row in rows if not row["parts"]]
    assert missed == [percent(one.limit) for one in decisions.frontier.rungs if not one.certified][:1]
    assert at_limits(None) == []


def test_a_report_on_numbers_opens_with_a_guarantee_too() -> None:
    graph = gs.load("diabetes")
    prediction = gs.GCN(epochs=3).fit(graph).predict(graph)
    metrics = gs.evaluate(prediction, graph)
    header = render_report(ReportContent("numbers", graph, prediction, metrics=metrics)).partition("</header>")[0]
    assert "hold the value of at least 90 % of all nodes: guaranteed on average" in header
    assert 'id="figure-fit"' in header
    decisions, _ = decide_for_report(prediction, graph, None, tolerance=120.0)
    assert decisions is not None
    page = render_report(ReportContent("numbers", graph, prediction, metrics=metrics, decisions=decisions))
    header = page.partition("</header>")[0]
    assert "off by more than 120, guaranteed with probability 95 %" in header and 'id="at-limits"' in header
    assert 'id="figure-fit"' in page and 'id="figure-fit"' not in header
