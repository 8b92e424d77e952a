"""One node as the page shows it, of classes and of numbers; with and without what the model says."""

from __future__ import annotations

import base64
import dataclasses
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from graphsde.base.errors import BadInput
from graphsde.prediction import ClassPrediction, RegressionPrediction
from graphsde.view.app.abstention import usual_tolerance
from graphsde.view.app.comparison import compare_runs, run_curves
from graphsde.view.app.graph_view import arrange, choose_nodes, draw
from graphsde.view.app.labelling import LabelQueue, answered, label_columns, round_curve
from graphsde.view.app.library import OpenRun, list_runs
from graphsde.view.app.node_table import MOST_ROWS, NodeFilter, columns_of, find_node, matching, node_table, shown_rows
from graphsde.view.app.node_view import UNKNOWN, guess_of, name_of, view_node

from support import block_graph


def dots_of(picture: str) -> list[str]:
    tree = ElementTree.fromstring(base64.b64decode(picture.partition(",")[2]))
    return [dot.attrib["fill"] for dot in tree.iter("{http://www.w3.org/2000/svg}circle")]


def test_words_and_neighbours_by_name(shop: Path) -> None:
    run = OpenRun(shop)
    row = view_node(run.graph, 3)
    assert row.called == "p3 (Product 3)" and row.degree == 4
    assert sorted(one.name for one in row.neighbours) == ["Product 1", "Product 5", "Product 59", "Product 7"]
    there = np.flatnonzero(
        np.asarray(run.graph.features[[3]].todense() if run.graph.is_sparse else run.graph.features[3])
    )
    assert row.words == [f"word{column}" for column in there] and row.more_words == 0 and row.facts == []
    assert find_node(run.graph, "p3") == 3 and find_node(run.graph, " product 3") == 3
    assert find_node(run.graph, "product 300") is None
    assert name_of(block_graph(), 4) == str(block_graph().node_ids[4])


def test_without_the_prediction_only_labels_colour_a_node_and_its_neighbours(shop: Path) -> None:
    run = OpenRun(shop)
    unknown = run.graph.with_labels(np.where(np.arange(60) == 5, -1, run.graph.labels), run.graph.class_names)
    row = view_node(unknown, 3)
    assert dots_of(row.picture)[-1] == UNKNOWN, "the colour would be the guess"
    said = {one.name: (one.said, one.known) for one in row.neighbours}
    assert said["Product 5"] == ("", False) and said["Product 7"] == ("b", True)
    told = view_node(unknown, 3, run.prediction)
    assert UNKNOWN not in dots_of(told.picture)
    assert {one.name: one.known for one in told.neighbours}["Product 5"] is False


def test_what_the_model_says_of_a_class(opened: OpenRun) -> None:
    graph, prediction = opened.graph, opened.prediction
    assert isinstance(prediction, ClassPrediction) and graph.labels is not None
    node = int(np.flatnonzero(prediction.index != graph.labels)[0])
    guess = guess_of(graph, prediction, node)
    assert (
        guess.said == prediction.label[node] and guess.verdict == f"but it is {graph.class_names[graph.labels[node]]}"
    )
    assert guess.agrees(prediction.label[node]) and not guess.agrees("nothing")
    shares = [bar.share for bar in guess.bars]
    assert shares == sorted(prediction.mean[node], reverse=True)[:3]


@pytest.fixture(scope="module")
def patients(numbers: Path) -> OpenRun:
    return OpenRun(numbers)


def test_a_table_of_numbers(patients: OpenRun) -> None:
    graph, prediction = patients.graph, patients.prediction
    assert isinstance(prediction, RegressionPrediction) and graph.values is not None
    table = node_table(graph, prediction)
    low, high = prediction.interval(0.9)
    inside = (low <= graph.values) & (graph.values <= high)
    assert ((table.outcome == "inside") == inside).all() and 0 < inside.sum() < len(inside)
    assert np.allclose(table.total**2, prediction.total)
    rows = matching(table, NodeFilter(outcomes=("outside",), roles=("test",)))
    assert sorted(rows) == np.flatnonzero(~inside & graph.role("test")).tolist()
    columns = columns_of(table, rows)
    assert np.allclose(columns["low"], low[rows]) and np.allclose(columns["high"], high[rows])
    assert "confidence" not in columns and "epistemic" not in columns


def test_what_the_model_says_of_a_number(patients: OpenRun) -> None:
    graph, prediction = patients.graph, patients.prediction
    assert isinstance(prediction, RegressionPrediction) and graph.values is not None
    low, high = prediction.interval(0.9)
    for node in (0, 17, 100):
        guess = guess_of(graph, prediction, node)
        assert (
            guess.agrees(prediction.mean[node]) and not guess.agrees(high[node] + 1) and not guess.agrees(low[node] - 1)
        )
        assert f"the value is {graph.values[node]:.4g}" in guess.verdict and guess.bars == []
        assert guess.band is not None
        ends = guess.band
        assert 0 <= ends[0] < ends[1] < ends[2] <= 1
        assert (ends[1] - ends[0]) / (ends[2] - ends[0]) == pytest.approx(
            (prediction.mean[node] - low[node]) / (high[node] - low[node])
        )
    assert dots_of(view_node(graph, 17).picture)[-1] == UNKNOWN
    assert UNKNOWN not in dots_of(view_node(graph, 17, prediction).picture)


def test_the_graph_of_numbers_is_drawn_in_both_colours(patients: OpenRun) -> None:
    graph, prediction = patients.graph, patients.prediction
    drawing = arrange(graph, choose_nodes(graph, prediction, "around", 7))
    for colour, values in (("uncertainty", np.sqrt(prediction.total)), ("answer", prediction.mean)):
        marker = draw(drawing, graph, prediction, colour=colour).data[-1].marker  # type: ignore[arg-type]
        assert np.allclose(np.array(marker.color, dtype=float), values[drawing.nodes], rtol=1e-3)


def test_numbers_wait_in_the_queue_too(patients: OpenRun, tmp_path: Path) -> None:
    queue = LabelQueue.of_run(tmp_path / "run")
    queue.give(3, 151.5, ())
    for wrong in (float("nan"), float("inf"), "many"):
        with pytest.raises(BadInput, match="no number"):
            queue.give(4, wrong, ())
    again = LabelQueue.of_run(tmp_path / "run")
    assert again.given == {3: 151.5}
    again.give(17, 1e9, ())
    newest, oldest = answered(patients.prediction, patients.graph, again)
    assert (newest.node, newest.agrees, oldest.node, oldest.answer) == ("17", False, "3", "151.5")
    assert oldest.guess.startswith(f"{patients.prediction.mean[3]:.4g} (")
    assert label_columns(tmp_path / "run", again)["label"].tolist() == [151.5, 1e9]


def test_answers_stand_beside_what_the_model_had_said(opened: OpenRun, tmp_path: Path) -> None:
    queue, prediction = LabelQueue.of_run(tmp_path / "run"), opened.prediction
    assert isinstance(prediction, ClassPrediction)
    queue.give(3, prediction.label[3], prediction.class_names)
    queue.give("gone", "4", prediction.class_names)
    gone, kept = answered(prediction, opened.graph, queue)
    assert kept.agrees and kept.guess.startswith(str(prediction.label[3])) and (gone.guess, gone.agrees) == ("", False)


def test_rounds_of_numbers_are_measured_by_their_error(patients: OpenRun) -> None:
    curve = round_curve(patients)
    (only,) = curve.rounds
    assert only.quality == pytest.approx(patients.folder.read_metrics()[-1]["rmse"], rel=1e-6)
    assert only.doubt == pytest.approx(np.sqrt(patients.prediction.total[~patients.graph.role("train")]).mean())
    assert [panel.y.label for panel in curve.chart().panels] == ["RMSE on test nodes", "mean standard deviation"]


def test_runs_of_both_kinds_beside_each_other(runs: Path, numbers: Path) -> None:
    every = [*list_runs(runs), *list_runs(numbers.parent)]
    found = compare_runs(every)
    assert found.columns["rmse"][:2] == [None, None] and found.columns["accuracy"][2] is None
    assert found.best == {} and "can't be compared" in found.caution[0], "no star where nothing can be compared"
    classes, errors = run_curves({run.name: OpenRun(run.path) for run in every})
    assert set(classes.curves) == {"paths", "spreading"} and set(errors.curves) == {"patients"}
    assert errors.curves["patients"][1][-1] == pytest.approx(every[2].metrics["rmse"], rel=1e-6)
    assert every[2].in_words().startswith("gcn on diabetes, seed 0: RMSE ")


def test_the_usual_tolerance_is_half_the_spread(patients: OpenRun) -> None:
    graph = patients.graph
    assert graph.values is not None
    known = graph.values[graph.role("train") & graph.labelled]
    assert usual_tolerance(graph) == pytest.approx(known.std() / 2, rel=0.05)
    assert usual_tolerance(dataclasses.replace(graph, masks={})) == 1.0


def test_of_many_nodes_the_first_thousand_are_sent(opened: OpenRun) -> None:
    table = node_table(opened.graph, opened.prediction)
    found = shown_rows(opened.graph, table, NodeFilter())
    assert found.count == 1797 and len(found.nodes) == found.table.num_rows == MOST_ROWS
    assert found.nodes[0] == opened.prediction.total.argmax() and found.table.column_names[0] == "picture"
