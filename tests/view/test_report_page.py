from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from graphsde.base.errors import BadInput, StorageError
from graphsde.graph.raw import Finding
from graphsde.prediction import Prediction
from graphsde.view.report import ReportContent, render_report, write_report
from graphsde.view.report.build import verdict
from graphsde.view.report.content import JudgedNodes, judge

Make = Callable[..., ReportContent]


class Page(HTMLParser):
    """Visible text by section, the node table as rows of texts, figures, and every attribute."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.sections: dict[str, str] = {}
        self.figures: dict[str, dict] = {}
        self.metrics: dict[str, str] = {}
        self.exact: dict[str, float] = {}
        self.rows: list[list[str]] = []
        self.tags: list[str] = []
        self._section = self._script = self._metric = None
        self._value = self._cell = False
        self.feed(html)

    def handle_starttag(self, tag: str, attributes: list) -> None:
        given = dict(attributes)
        self.tags.append(tag)
        if tag in ("section", "header"):
            self._section = given.get("id")
            self.sections[self._section] = ""
        if tag == "script":
            self._script = given.get("id", "code")
        if "data-metric" in given:
            self._metric = given["data-metric"]
        self._value = self._value or given.get("class") == "value"
        if tag == "data":
            self.exact[self._metric] = float(given["value"])
        if self._section == "uncertain-nodes":
            if tag == "tr":
                self.rows.append([])
            if tag in ("td", "th"):
                self._cell = True
                self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        if tag == "script":
            self._script = None
        if tag == "p":
            self._value = False
        if tag in ("td", "th"):
            self._cell = False
        if tag in ("section", "header"):
            self._section = None

    def handle_data(self, data: str) -> None:
        if self._script:
            if self._script != "code":
                self.figures[self._script.removeprefix("data-")] = json.loads(data)
            return
        if self._section:
            self.sections[self._section] += data
        if self._value:
            self.metrics[self._metric] = self.metrics.get(self._metric, "") + data
        if self._cell:
            self.rows[-1][-1] += " ".join(data.split())


def page(content: ReportContent) -> Page:
    return Page(render_report(content))


SECTIONS = [
    "verdict",
    "facts",
    "metrics",
    "decisions",
    "classes",
    "data-check",
    "figures",
    "uncertain-nodes",
    "settings",
]


@pytest.mark.parametrize("kind", ["samples", "deterministic", "dirichlet"])
@pytest.mark.parametrize("image", [True, False])
def test_every_section_is_there_in_order(make_content: Make, kind: str, image: bool) -> None:
    shown = page(make_content(kind=kind, image=image))
    assert list(shown.sections) == SECTIONS
    figures = ["risk-coverage", "entropy", "reliability", "scatter", "training"]  # it opens with the first
    assert list(shown.figures) == [f for f in figures if f != "scatter" or kind != "deterministic"]
    assert ("img" in shown.tags) == image and ("svg" in shown.tags) != image
    assert len(shown.rows) == 1 + 20


def test_numbers_shown_are_the_numbers_given(make_content: Make) -> None:
    metrics = {
        "accuracy": 0.87654321,
        "aurc": 0.0123456,
        "nll": 1.23456,
        "ece": 0.0456,
        "n_test": 1297.0,
        "novel": 42.25,
    }
    shown = page(make_content(metrics=metrics))
    assert shown.metrics == {"accuracy": "87.7 %", "aurc": "0.012", "nll": "1.235", "ece": "4.6 %"}
    assert shown.exact == {key: metrics[key] for key in shown.metrics}
    assert "n = 1,297" in shown.sections["metrics"]
    assert "novel" in shown.sections["metrics"] and "42.25" in shown.sections["metrics"]


@pytest.mark.parametrize("nothing", [float("nan"), None, float("inf")])
def test_a_figure_that_is_not_defined_is_a_dash(make_content: Make, nothing: float | None) -> None:
    shown = page(make_content(metrics={"misclassification_auroc": nothing, "aurc": 0.5}))
    assert shown.metrics["misclassification_auroc"] == "—"
    assert "misclassification_auroc" not in shown.exact and shown.exact["aurc"] == 0.5
    assert "nan" not in shown.sections["metrics"].lower()


def test_all_metrics_of_an_evaluation_are_shown(make_content: Make) -> None:
    content = make_content()
    shown = page(content)
    for key in content.metrics:
        assert key in shown.metrics or key in shown.sections["metrics"], key


def test_the_most_uncertain_test_nodes_come_first(make_content: Make) -> None:
    content = make_content(nodes=80)
    prediction, test = content.prediction, np.flatnonzero(content.graph.test_mask)
    expected = sorted(test, key=lambda node: -prediction.total[node])[:20]
    rows = page(content).rows[1:]
    assert [int(row[0]) for row in rows] == [int(content.graph.node_ids[node]) for node in expected]
    for row, node in zip(rows, expected, strict=True):
        assert row[1].startswith(prediction.label[node])
        assert row[2].startswith(content.graph.class_names[content.graph.labels[node]])
        assert row[2].endswith("right" if prediction.index[node] == content.graph.labels[node] else "wrong")
        assert row[3] == f"{100 * prediction.confidence[node]:.1f} %"
        for shown, given in zip(row[4:7], (prediction.total, prediction.aleatoric, prediction.epistemic), strict=True):
            assert float(shown) == pytest.approx(given[node], abs=5e-4)
        assert row[7] == "4"
        around = content.graph.node_ids[content.graph.adjacency.neighbours(node)]
        assert all(str(other) in row[8] for other in around)


def test_more_neighbours_than_fit_are_counted(make_content: Make) -> None:
    from graphsde.graph.adjacency import Adjacency

    content = make_content(nodes=40)
    everyone = np.ones((40, 40), dtype=np.float32) - np.eye(40, dtype=np.float32)
    full = dataclasses.replace(content, graph=content.graph.with_adjacency(Adjacency(everyone)))
    html = render_report(full).split("<footer>")[0]  # the scripts come after it
    assert html.count("and 31 more") == 20
    assert html.count("<circle") == 20 * 9


def test_an_isolated_node_says_so(make_content: Make) -> None:
    from graphsde.graph.adjacency import Adjacency

    content = make_content(nodes=10)
    lonely = content.graph.with_adjacency(Adjacency(np.zeros((10, 10), dtype=np.float32)))
    shown = page(dataclasses.replace(content, graph=lonely))
    assert all(row[8] == "none: predicted from its own features alone" for row in shown.rows[1:])


def test_deterministic_models_have_no_epistemic_column(make_content: Make) -> None:
    shown = page(make_content(kind="deterministic"))
    assert {row[6] for row in shown.rows[1:]} == {"—"}
    assert "deterministic: it has no notion of epistemic" in shown.sections["uncertain-nodes"]


def test_without_labels_on_test_nodes(make_content: Make) -> None:
    shown = page(make_content(labelled_test=False))
    assert list(shown.figures) == ["entropy", "scatter", "training"]
    assert "no test node has a known label" in shown.sections["verdict"]
    assert "Not drawn: it needs test nodes with known labels." in shown.sections["figures"]
    assert {row[2] for row in shown.rows[1:]} == {"—"}
    assert "The 20 most uncertain test nodes" in shown.sections["uncertain-nodes"]


def test_without_a_test_mask_training_labels_prove_nothing(make_content: Make) -> None:
    content = make_content(test=False)
    shown = page(content)
    assert "the graph has no test nodes" in shown.sections["verdict"]
    assert list(shown.figures) == ["entropy", "scatter", "training"]
    assert "The 20 most uncertain nodes" in shown.sections["uncertain-nodes"]
    most = content.graph.node_ids[content.prediction.total.argmax()]
    assert shown.rows[1][0] == str(most)


def test_foreign_nodes_are_not_judged(make_content: Make) -> None:
    content = make_content()
    test = content.graph.test_mask
    ood = test & (np.arange(60) % 3 == 0)
    graph = content.graph.with_masks(train=~test, test=test, ood=ood)
    judged = judge(graph, content.prediction)
    assert np.array_equal(judged.rows, np.flatnonzero(test & ~ood))
    rows = page(dataclasses.replace(content, graph=graph)).rows[1:]
    marked = {int(row[0]) for row in rows if row[2].endswith("ood")}
    assert marked and marked <= set(graph.node_ids[ood].tolist())


def test_classes_that_the_model_orders_otherwise(make_content: Make) -> None:
    content = make_content()
    prediction = content.prediction
    turned = dataclasses.replace(
        prediction, probs=prediction.probs[:, :, ::-1], class_names=prediction.class_names[::-1]
    )
    assert np.array_equal(judge(content.graph, turned).right, judge(content.graph, prediction).right)


def hand_made(right: np.ndarray) -> JudgedNodes:
    rows = np.arange(len(right))
    return JudgedNodes(rows, rows, np.zeros(len(right), dtype=np.int64), right, has_test=True)


def test_verdict_by_hand() -> None:
    right = np.ones(1000, dtype=bool)
    right[:60] = False  # 94 % right; 50 of the 60 mistakes are among the 200 least sure
    confidence = np.linspace(1.0, 0.3, 1000)
    confidence[:10], confidence[10:60] = 0.99, 0.2
    assert verdict(hand_made(right), confidence) == (
        "On 1,000 test nodes the model is right 94.0 % of the time; "
        "keeping the most certain 80 % raises that to 98.8 %."
    )  # 790 of 800


def test_verdict_stands_on_the_page(make_content: Make) -> None:
    content = make_content(nodes=200)
    judged = judge(content.graph, content.prediction)
    assert 0.5 < judged.right.mean() < 1
    text = verdict(judged, content.prediction.confidence)
    assert text.startswith("On 100 test nodes the model is right") and text in page(content).sections["verdict"]


def test_verdict_says_when_confidence_is_worthless() -> None:
    right = np.arange(100) >= 20
    assert verdict(hand_made(right), (~right).astype(float)).endswith(
        "lowers that to 75.0 %: its confidence does not point at its mistakes."
    )
    assert verdict(hand_made(right), np.ones(100)).endswith("leaves that unchanged.")
    assert verdict(hand_made(right[20:]), np.ones(80)) == "On 80 test nodes the model is right 100.0 % of the time."


def test_findings_are_sorted_by_urgency(make_content: Make) -> None:
    findings = [
        Finding("N-1", "note", "A note.", 1),
        Finding("E-1", "problem", "A problem.", 9, tuple("abcdefg"), "Do this."),
        Finding("W-1", "warning", "A warning.", 1),
    ]
    text = " ".join(page(make_content(findings=findings)).sections["data-check"].split())
    assert text.index("A problem.") < text.index("A warning.") < text.index("A note.")
    assert "Do this." in text and "a, b, c, d, e, …" in text
    assert "nothing to remark" in page(make_content()).sections["data-check"]


def test_settings_and_facts(make_content: Make) -> None:
    content = make_content(
        model_name="lgnsde", model_settings={"solver": {"steps": 10}, "hidden": 64}, seed=17, facts={"seconds": 3.5}
    )
    shown = page(content)
    assert "solver.steps" in shown.sections["settings"] and "lgnsde" in shown.sections["settings"]
    for expected in ("60 and 120", "12 and 4", "30 train, 30 test", "mean of 8 samples", "17", "seconds", "3.5"):
        assert expected in shown.sections["facts"], expected


def test_history_may_be_missing(make_content: Make) -> None:
    shown = page(make_content(history=[]))
    assert "training" not in shown.figures and "no training history" in shown.sections["figures"]


def test_large_graphs_stay_small(make_content: Make) -> None:
    html = render_report(make_content(nodes=20_000, classes=7))
    assert len(html.encode()) < 10_000_000
    figures = Page(html).figures
    assert sum(len(json.dumps(figure)) for figure in figures.values()) < 300_000
    for key, figure in figures.items():
        limit = 2000 if key == "scatter" else 400
        assert all(len(trace["x"]) <= limit for trace in figure["data"]), key


def test_same_content_same_bytes(make_content: Make) -> None:
    assert render_report(make_content()) == render_report(make_content())


def test_tiny_graphs(make_content: Make) -> None:
    shown = page(make_content(nodes=4, classes=2, history=[{"epoch": 1, "train_loss": 1.0}]))
    assert len(shown.rows) == 1 + 2 and "The most uncertain test nodes" in shown.sections["uncertain-nodes"]


def test_write_replaces_the_old_file(make_content: Make, tmp_path: Path) -> None:
    target = tmp_path / "new" / "report.html"
    assert write_report(make_content(), target) == target
    assert target.read_text(encoding="utf-8").startswith("<!doctype html>")
    write_report(make_content(title="another"), target)
    assert re.search("<title>another</title>", target.read_text(encoding="utf-8"))
    assert [p.name for p in target.parent.iterdir()] == ["report.html"]


def test_write_into_a_file_is_refused(make_content: Make, tmp_path: Path) -> None:
    (tmp_path / "blocked").write_text("")
    with pytest.raises(StorageError):
        write_report(make_content(), tmp_path / "blocked" / "report.html")


def test_prediction_of_another_graph_is_refused(make_content: Make) -> None:
    content = make_content()
    with pytest.raises(BadInput, match="60"):
        dataclasses.replace(content, prediction=content.prediction.subset(np.arange(5)))
    shuffled = dataclasses.replace(content.prediction, ids=content.prediction.ids[::-1])
    with pytest.raises(BadInput, match="order"):
        dataclasses.replace(content, prediction=shuffled)
    assert isinstance(shuffled, Prediction)


def test_everything_but_the_opening_is_folded(make_content: Make) -> None:
    html = render_report(make_content())
    header, _, rest = html.split("<footer>")[0].partition("</header>")
    assert "<details" not in header and 'id="figure-risk-coverage"' in header
    for section in rest.split("<section ")[1:]:
        inside = section.partition(">")[2].strip()
        assert inside.startswith('<details class="fold">'), section[:80]
        assert inside.rpartition("</section>")[0].strip().endswith("</details>")
    assert rest.count('<details class="fold">') == len(SECTIONS) - 1 and " open>" not in rest
    assert html.count('id="figure-risk-coverage"') == 1


def test_the_opening_figure_is_the_best_that_can_be_drawn(make_content: Make) -> None:
    header = render_report(make_content(labelled_test=False)).partition("</header>")[0]
    assert 'id="figure-entropy"' in header and 'id="at-limits"' not in header
