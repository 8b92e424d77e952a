"""What a notebook shows of the objects that people hold: one line, a small table, pictures by name."""

from __future__ import annotations

import dataclasses
import re
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

import graphsde as gs
from graphsde.base.errors import BadInput, BadUsage
from graphsde.base.html import MOST_ROWS, card, listed, table, text_of
from graphsde.prediction import ClassPrediction, SummarisedPrediction
from graphsde.prediction.plots import NAMES, PLOTS
from graphsde.uncertainty.conformal.conditional import conformal_by_degree

HOSTILE = [
    "<img src=x onerror=alert(1)>",
    "</div><script>alert(1)</script>",
    "a\u202eb",
    "n" * 5000,
    '" onclick="x',
    "\ud800",
]
ALLOWED = {"div", "b", "span", "table", "thead", "tbody", "tr", "th", "td", "bdi"}


class Elements(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.open.append(tag)
        self.attributes += attributes

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


@pytest.fixture(scope="module")
def digits() -> tuple[gs.Graph, ClassPrediction]:
    graph = gs.load("digits")
    return graph, gs.LabelPropagation().fit(graph).predict(graph)


@pytest.fixture(scope="module")
def numbers() -> tuple[gs.Graph, gs.Model, Any]:
    graph = gs.load("diabetes")
    model = gs.GCN(epochs=3).fit(graph)
    return graph, model, model.predict(graph)


@pytest.fixture(scope="module")
def objects(digits: Any, numbers: Any) -> dict[str, Any]:
    graph, prediction = digits
    other, model, values = numbers
    summed = gs.MCDropout(epochs=2).fit(graph).predict(graph, samples=4, keep_samples=False)
    assert isinstance(summed, SummarisedPrediction)
    return {
        "graph": graph,
        "graph of numbers": other,
        "model": gs.GCN(),
        "fitted model": model,
        "prediction": prediction,
        "summarised": summed,
        "numbers": values,
        "decisions": gs.decide(prediction, graph, max_error=0.03),
        "decisions on numbers": gs.decide(values, other, max_error=0.3, tolerance=80.0),
        "questions": gs.ask(prediction, graph, 15),
        "sets": gs.conformalize(prediction, graph),
        "sets by class": gs.conformalize(prediction, graph, class_conditional=True),
        "sets by degree": conformal_by_degree(prediction, graph),
        "intervals": gs.conformalize(values, other),
    }


def test_every_object_has_one_line_and_one_small_card(objects: dict[str, Any]) -> None:
    for name, one in objects.items():
        line = repr(one)
        assert "\n" not in line and 4 < len(line) < 240, name
        page = one._repr_html_()
        found = Elements(page)
        assert not found.open and set(found.tags) <= ALLOWED, name
        assert len(page) < 20_000, name
        styles = [value or "" for key, value in found.attributes if key == "style"]
        assert {key for key, _ in found.attributes} <= {"style", "scope"}
        # neither text nor paper has a colour of its own: dark notebooks stay dark
        assert not [one for one in styles if re.search(r"(?<!-)color:(?!inherit)|background:(?!none)|url\(", one)], name


def test_the_card_says_what_the_object_holds(objects: dict[str, Any]) -> None:
    graph, decisions, questions = objects["graph"], objects["decisions"], objects["questions"]
    told = "".join(Elements(graph._repr_html_()).words)
    assert "1,797" in told and f"{graph.num_edges // 2:,}" in told and "1,297" in told
    told = "".join(Elements(decisions._repr_html_()).words)
    for action in decisions.choices:
        assert f"{action}{decisions.decided_counts()[action]:,}" in told
    assert all(one.status in told for one in decisions.frontier.rungs)
    words = Elements(questions._repr_html_()).words
    assert all(str(one.id) in words for one in questions.items[:MOST_ROWS]) and "and 3 more" in words
    most = objects["prediction"]
    assert str(most.ids[np.argmax(most.total)]) in Elements(most._repr_html_()).words


def test_hostile_names_make_no_element(digits: Any) -> None:
    names = tuple(HOSTILE)
    rng = np.random.default_rng(0)
    ids = np.array([f"{name} {place}" for place in range(20) for name in HOSTILE], dtype=object)
    probs = rng.dirichlet(np.ones(len(names)), len(ids))
    graph = gs.from_arrays(
        rng.normal(size=(len(ids), 2)), np.array([[0], [1]]), node_ids=[f"{place}" for place in range(len(ids))],
        labels=[names[place % 2] for place in range(len(ids))], name=HOSTILE[1],
    )  # fmt: skip
    graph = dataclasses.replace(graph, name=HOSTILE[0], split=HOSTILE[1])
    prediction = ClassPrediction(probs[None], ids, names, "deterministic")
    for one in (
        graph,
        prediction,
        gs.ask(gs.Prediction.from_probabilities(probs[:, :2] / probs[:, :2].sum(1, keepdims=True), graph), graph, 3),
    ):
        found = Elements(one._repr_html_())
        assert set(found.tags) <= ALLOWED and {key for key, _ in found.attributes} <= {"style", "scope"}
        assert len(one._repr_html_()) < 20_000
        one._repr_html_().encode("utf-8")
        assert not re.search("[\u202a-\u202e\x00-\x08]", one._repr_html_() + repr(one)) and len(repr(one)) < 240
    assert text_of(HOSTILE[0]) == "&lt;img src=x onerror=alert(1)&gt;"


def test_tables_are_cut_and_numbers_stand_to_the_right() -> None:
    page = table([{"name": f"n{place}", "value": place, "sure": True} for place in range(MOST_ROWS + 5)])
    assert page.count("<tr>") == MOST_ROWS + 1 and "and 5 more" in page
    assert page.count("text-align:right") == MOST_ROWS + 1 and table([]) == ""
    assert text_of(float("nan")) == text_of(None) == "—" and text_of(True) == "yes" and text_of(12345.6) == "12,346"
    assert listed(range(8), 3) == "0, 1, 2 and 5 more" and "<b>" in card("x")


OF_CLASSES = [name for name in NAMES if name not in ("fit", "detection", "uncertainty")]


@pytest.mark.parametrize("name", OF_CLASSES)
def test_pictures_of_classes(name: str, digits: Any) -> None:
    graph, prediction = digits
    figure = getattr(prediction.plot, name)()
    assert type(figure).__mro__[1].__name__ == "Figure" and figure._repr_png_()[:4] == b"\x89PNG"
    again = getattr(gs.Prediction.from_probabilities(prediction.mean, ids=prediction.ids).plot, name)
    with pytest.raises(BadUsage, match=rf"plot\.{name}\(graph\)"):
        again()
    assert type(getattr(prediction.plot, name)(graph, backend="plotly")).__module__.startswith("plotly")


def test_a_picture_shows_the_test_nodes(digits: Any) -> None:
    graph, prediction = digits
    assert graph.test_mask is not None and graph.labels is not None
    prediction.plot.confusion()  # has the pictures registered
    confusion = PLOTS["confusion"].of(prediction)(prediction, graph)
    assert confusion.counts.sum() == graph.test_mask.sum()  # type: ignore[attr-defined]
    wrong = (prediction.index != graph.labels)[graph.test_mask].sum()
    assert confusion.counts.sum() - np.trace(confusion.counts) == wrong  # type: ignore[attr-defined]
    drawn = prediction.plot.risk_coverage(backend="plotly")
    line = next(one for one in drawn.data if one.name == "this model")
    assert line.y[-1] == pytest.approx(100 * wrong / graph.test_mask.sum(), rel=1e-4)


def test_pictures_of_numbers_and_what_they_lack(numbers: Any, digits: Any) -> None:
    _, _, prediction = numbers
    for name in ("risk_coverage", "reliability", "fit"):
        assert len(getattr(prediction.plot, name)().axes) == 1
    with pytest.raises(BadUsage, match="confusion") as refused:
        prediction.plot.confusion()
    assert refused.value.code == "E-TARGET"
    with pytest.raises(BadUsage, match="'fit' is not available for classification"):
        digits[1].plot.fit()
    with pytest.raises(BadUsage, match="deterministic"):
        prediction.plot.uncertainty()
    with pytest.raises(BadUsage, match="backend"):
        prediction.plot.fit(backend="paint")


def test_out_of_distribution_nodes_are_told_apart() -> None:
    graph = gs.make_split(gs.load("digits"), "leave-class-out").apply(gs.load("digits"))
    prediction = gs.LabelPropagation().fit(graph).predict(graph)
    picture = prediction.plot.entropy(by="ood", backend="plotly")
    assert graph.ood_nodes is not None
    assert picture.data[1].name == f"out-of-distribution (n = {graph.ood_nodes.sum():,})"
    assert len(prediction.plot.detection().axes) == 2
    with pytest.raises(BadUsage, match="cannot be grouped"):
        prediction.plot.entropy(by="colour")


def test_pictures_say_what_is_missing(digits: Any) -> None:
    graph, prediction = digits
    bare = graph.with_masks()
    with pytest.raises(BadInput, match="no test nodes"):
        prediction.plot.risk_coverage(bare)
    with pytest.raises(BadInput, match="no OOD nodes"):
        prediction.plot.detection()
    with pytest.raises(BadInput, match="no node"):
        prediction.plot.graph(node="nobody")
    with pytest.raises(BadUsage):
        prediction.plot.risk_coverage("digits")
    assert prediction.subset(np.arange(5))._predicted_on is None  # its nodes are others than the graph's
