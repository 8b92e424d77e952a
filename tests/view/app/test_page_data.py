"""What the panels show, without a browser."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hostile_names import HOSTILE

from graphsde.acting.decide import decide
from graphsde.acting.ladder import LADDER
from graphsde.base.errors import BadInput, BadUsage
from graphsde.datasets.benchmarks import load
from graphsde.models import LabelPropagation
from graphsde.view.app.abstention import STATUS, FrontierPicture, outcome
from graphsde.view.app.comparison import compare_runs, run_curves
from graphsde.view.app.graph_view import MOST_NODES, arrange, choose_nodes, draw
from graphsde.view.app.labelling import LabelQueue, label_columns, next_questions, round_curve
from graphsde.view.app.library import OpenRun, free_name, list_runs, new_run
from graphsde.view.app.node_table import NodeFilter, columns_of, find_node, matching, node_table
from graphsde.view.app.node_view import node_facts, pictures, view_node
from graphsde.view.figures.chart import Dots

from support import block_graph


def test_runs_are_found_and_broken_ones_left_out(runs: Path, tmp_path: Path) -> None:
    assert {(run.name, run.model, run.graph) for run in list_runs(runs)} == {
        ("paths", "lgnsde", "digits"),
        ("spreading", "label-propagation", "digits"),
    }
    assert [run.name for run in list_runs(runs / "paths")] == ["paths"], "a run itself may be given"
    broken = tmp_path / "broken"
    broken.mkdir()
    for name in ("config.yaml", "metrics.jsonl", "model.json"):
        (broken / name).write_text("{")
    assert list_runs(tmp_path) == [] and list_runs(tmp_path / "nowhere") == []


@pytest.mark.parametrize(
    "name", ["../x", "a/b", "", ".hidden", "a..b", "x" * 65, "a b", "\x00", "C:\\x", "~", *HOSTILE]
)
def test_names_of_runs_can_not_lead_elsewhere(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadUsage) as refusal:
        new_run(tmp_path, name)
    assert refusal.value.code == "E-PATH"
    assert new_run(tmp_path, free_name(tmp_path, name)).parent == tmp_path


def test_a_taken_name_gets_a_number(tmp_path: Path) -> None:
    (tmp_path / "digits").mkdir()
    assert free_name(tmp_path, "digits") == "digits-2"
    with pytest.raises(BadUsage, match="already"):
        new_run(tmp_path, "digits")


def test_rows_agree_with_graph_and_prediction(opened: OpenRun) -> None:
    graph, prediction = opened.graph, opened.prediction
    table = node_table(graph, prediction)
    assert graph.labels is not None and graph.test_mask is not None
    right = prediction.index == graph.labels
    assert ((table.outcome == "right") == right).all() and ((table.role == "test") == graph.test_mask).all()
    rows = matching(table, NodeFilter())
    assert sorted(rows) == list(range(graph.num_nodes)) and (np.diff(table.total[rows]) <= 0).all()
    wrong = matching(table, NodeFilter(roles=("test",), outcomes=("wrong",), predicted=(3, 8)))
    expected = np.flatnonzero(graph.test_mask & ~right & np.isin(prediction.index, [3, 8]))
    assert sorted(wrong) == expected.tolist() and len(expected)
    sure = matching(table, NodeFilter(least=0.5, most=1.0))
    assert sorted(sure) == np.flatnonzero((prediction.total >= 0.5) & (prediction.total <= 1.0)).tolist()
    assert matching(table, NodeFilter(text="179")).size == 9  # 179, 1179 and 1790 to 1796
    assert columns_of(table, rows[:5])["node"].tolist() == [str(graph.node_ids[r]) for r in rows[:5]]


def test_a_model_without_paths_has_no_epistemic_column(runs: Path) -> None:
    run = OpenRun(runs / "spreading")
    columns = columns_of(node_table(run.graph, run.prediction), np.arange(3))
    assert "epistemic" not in columns and "aleatoric" in columns and run.paths(0) is None


def test_nodes_are_found_as_people_type_them(opened: OpenRun) -> None:
    assert find_node(opened.graph, " 17 ") == 17
    assert find_node(opened.graph, "1797") is None and find_node(opened.graph, "<b>") is None


def test_paths_and_pictures(opened: OpenRun) -> None:
    trajectories = opened.paths(3)
    assert trajectories is not None and trajectories.ids.tolist() == [3]
    images = pictures(opened.graph, np.array([0, 5]))
    assert images is not None and all(one.startswith("data:image/png;base64,") for one in images)
    blocks = block_graph()
    assert pictures(blocks, np.array([0])) is None
    facts = node_facts(blocks, 0)
    assert len(facts) == 8 and abs(float(facts[0][1])) >= abs(float(facts[-1][1]))


def test_a_drawing_is_shown_as_a_picture() -> None:
    import base64
    from xml.etree import ElementTree

    row = view_node(block_graph(), 0)
    kind, _, content = row.picture.partition(",")
    tree = ElementTree.fromstring(base64.b64decode(content))
    assert kind == "data:image/svg+xml;base64" and tree.tag == "{http://www.w3.org/2000/svg}svg"
    assert len(list(tree.iter("{http://www.w3.org/2000/svg}circle"))) == 1 + len(row.neighbours)


def test_large_graphs_are_drawn_in_part(opened: OpenRun) -> None:
    graph, prediction = opened.graph, opened.prediction
    parts = {part: choose_nodes(graph, prediction, part) for part in ("uncertain", "random")}  # type: ignore[arg-type]
    for nodes in parts.values():
        assert len(nodes) == len(set(nodes.tolist())) == MOST_NODES and (np.diff(nodes) > 0).all()
    assert prediction.total.argmax() in parts["uncertain"]
    around = choose_nodes(graph, prediction, "around", 7)
    start, stop = graph.adjacency.matrix.indptr[7:9]
    near = graph.adjacency.matrix.indices[start:stop]
    assert {7, *near.tolist()} <= set(around.tolist()) and len(around) <= 120
    small = block_graph()
    pred = LabelPropagation().fit(small).predict(small)
    assert choose_nodes(small, pred, "random").tolist() == list(range(small.num_nodes))


def test_the_drawing_shows_the_edges_there_are(opened: OpenRun) -> None:
    graph, prediction = opened.graph, opened.prediction
    drawing = arrange(graph, choose_nodes(graph, prediction, "around", 7))
    dense = graph.adjacency.matrix[drawing.nodes][:, drawing.nodes].toarray()
    assert len(drawing.edges) == np.count_nonzero(np.triu(dense, 1)) and not drawing.whole
    assert all(dense[a, b] for a, b in drawing.edges) and np.isfinite(drawing.places).all()
    figure = draw(drawing, graph, prediction, chosen=7)
    assert list(figure.data[-1].customdata) == drawing.nodes.tolist() and len(figure.data) == 3
    assert len(draw(drawing, graph, prediction, colour="answer").data) == 2
    again = arrange(graph, drawing.nodes)
    assert np.array_equal(again.places, drawing.places)


def test_a_looser_limit_answers_more() -> None:
    graph = load("digits")
    prediction = LabelPropagation().fit(graph).predict(graph)
    shares = []
    for allowed in (0.01, 0.05, 0.2):
        decisions = decide(prediction, graph, max_error=allowed)
        told = outcome(decisions)
        assert told.accepted + told.review + told.ood == int(decisions.abstention.decided.sum())
        assert told.wrong <= told.tested <= told.accepted + told.review + told.ood
        shares.append(told.share)
    assert shares == sorted(shares) and shares[0] < shares[-1]


def test_the_frontier_shows_every_limit_once_and_a_click_finds_it() -> None:
    graph = load("digits")
    frontier = decide(LabelPropagation().fit(graph).predict(graph), graph).frontier
    picture = FrontierPicture(frontier, 0.05)
    dots = {mark.name: mark for mark in picture.chart().panels[0].marks if isinstance(mark, Dots)}
    (ringed,) = dots.pop("in use").x
    assert picture.limits[int(ringed)] == 0.05
    places = sorted(int(x) for mark in dots.values() for x in mark.x)
    assert places == list(range(len(LADDER))) and picture.limits == tuple(sorted(LADDER))
    for one in frontier.rungs:
        at = picture.limits.index(one.limit)
        mark = dots[STATUS[one.status][0]]
        assert dict(zip(mark.x, mark.y, strict=True))[at] == pytest.approx(100 * one.accepted_share)
        assert picture.clicked([{"x": float(at), "y": 1.0}]) == one.limit
    assert picture.clicked([]) is None and picture.clicked([{"x": 99}]) is None and picture.clicked([{}]) is None


def test_labels_wait_in_a_queue_that_survives(opened: OpenRun, tmp_path: Path) -> None:
    run = tmp_path / "run"
    queue = LabelQueue.of_run(run)
    classes = opened.prediction.class_names
    first = [one.id for one in next_questions(opened.prediction, opened.graph, "entropy", queue)]
    queue.give(first[0], "3", classes)
    queue.skip(first[1])
    with pytest.raises(BadInput, match="no class"):
        queue.give(first[2], "eleven", classes)
    again = LabelQueue.of_run(run)
    assert again.given == {first[0]: "3"} and again.skipped == [first[1]]
    later = {one.id for one in next_questions(opened.prediction, opened.graph, "entropy", again)}
    assert not later & {first[0], first[1]}
    assert label_columns(run, again)["id"].tolist() == [first[0]]
    again.learned([first[0], "unheard of"])
    assert LabelQueue.of_run(run).given == {}
    again.give(first[0], "4", classes)
    again.take_back(first[0])
    assert LabelQueue.of_run(run).given == {} and LabelQueue.of_run(run).skipped == [first[1]]
    queue.path.write_text("{")
    assert LabelQueue.of_run(run).given == {}
    assert queue.path.with_suffix(".damaged.json").read_text() == "{", "somebody's answers are in it"


def test_text_ids_wait_as_they_are(tmp_path: Path) -> None:
    queue = LabelQueue.of_run(tmp_path / "run")
    for name in HOSTILE:
        queue.give(name, "a", ("a",))
    assert list(LabelQueue.of_run(tmp_path / "run").given) == HOSTILE


def test_before_the_first_labels_the_curve_is_one_point(opened: OpenRun) -> None:
    (only,) = round_curve(opened).rounds
    assert only.labels == 200 and only.quality == opened.folder.read_metrics()[-1]["accuracy"]


def test_runs_beside_each_other(runs: Path) -> None:
    found = compare_runs(list_runs(runs))
    assert sorted(found.columns["run"]) == ["paths", "spreading"]
    accuracy = found.columns["accuracy"]
    assert found.best["accuracy"] == [int(np.argmax(accuracy))] and found.best["nll"]
    assert len(found.caution) == 1 and "chance" in found.caution[0]
    (curves,) = run_curves({run.name: OpenRun(run.path, 4) for run in list_runs(runs)})
    assert set(curves.curves) == {"paths", "spreading"}
    coverage, risk = curves.curves["spreading"]
    spreading = found.columns["run"].index("spreading")
    assert coverage[-1] == 1.0 and risk[-1] == pytest.approx(1 - accuracy[spreading])
