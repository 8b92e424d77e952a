"""Runs around predictions that were made elsewhere."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from torch import nn

import graphsde as gs
from cli_support import answer, graphsde
from graphsde.base.errors import BadInput, BadUsage
from graphsde.runs.folder import RunFolder
from graphsde.runs.learn import learn

from support import block_graph


def some_prediction(graph: gs.Graph) -> gs.ClassPrediction:
    rng = np.random.default_rng(0)
    logits = 2.0 * np.eye(graph.num_classes)[graph.labels] + rng.normal(size=(graph.num_nodes, graph.num_classes))
    return gs.Prediction.from_logits(logits, graph, embedding=rng.normal(size=(graph.num_nodes, 4)))


def test_a_run_gives_back_what_was_saved(tmp_path: Path) -> None:
    graph = block_graph()
    prediction = some_prediction(graph)
    run = gs.save_run(prediction, graph, tmp_path / "run", made_by="my own model")
    model, opened = RunFolder(run).open()
    found = model.predict(opened)
    assert isinstance(found, gs.ClassPrediction)
    for name in ("probs", "logits", "embedding"):
        np.testing.assert_array_equal(getattr(found, name), getattr(prediction, name))
    assert found.ids.tolist() == graph.node_ids.tolist() and found.class_names == graph.class_names
    assert opened.fingerprint == graph.fingerprint
    assert {role: mask.tolist() for role, mask in opened.masks.items()} == {
        role: mask.tolist() for role, mask in graph.masks.items()
    }
    assert model.settings.model_dump()["made_by"] == "my own model"


def test_samples_and_what_was_before_a_calibrator_are_kept(tmp_path: Path) -> None:
    graph = block_graph()
    one = some_prediction(graph)
    assert one.logits is not None
    drawn = gs.Prediction.from_logits(np.concatenate([one.logits, -one.logits]), graph)
    run = gs.save_run(gs.calibrate(drawn, graph), graph, tmp_path / "run")
    model, opened = RunFolder(run).open()
    found = model.predict(opened)
    assert isinstance(found, gs.ClassPrediction)
    assert found.kind == "samples" and found.num_samples == 2
    np.testing.assert_array_equal(found.untempered().probs, drawn.probs)


@pytest.mark.parametrize("directed", [False, True])
def test_sparse_graphs_are_kept_sparse(tmp_path: Path, directed: bool) -> None:
    words = sp.random_array((40, 3000), density=0.005, rng=np.random.default_rng(0), format="csr", dtype=np.float32)
    ids = [f"page {row}" for row in range(40)]
    pairs = np.stack([np.arange(39), np.arange(1, 40)])
    role = np.arange(40) % 3
    masks = {"train_mask": role == 0, "val_mask": role == 1, "test_mask": role == 2}
    names = {"feature_names": [f"w{column}" for column in range(3000)], "node_names": [one.title() for one in ids]}
    weights = np.linspace(1, 2, 39)
    labels = ["x", "y"] * 20
    graph = gs.from_arrays(
        words, pairs, labels=labels, node_ids=ids, weights=weights, directed=directed, **masks, **names
    )
    run = gs.save_run(some_prediction(graph), graph, tmp_path / "run")
    opened = RunFolder(run).load_graph()
    assert opened.is_sparse and opened.fingerprint == graph.fingerprint and opened.called(3) == graph.called(3)
    assert opened.feature_names == graph.feature_names and (run / "graph.npz").is_file()


def test_numbers_are_kept_too(tmp_path: Path) -> None:
    graph = gs.load("diabetes")
    assert graph.values is not None
    prediction = gs.Prediction.from_mean_std(np.nan_to_num(graph.values), np.ones(graph.num_nodes), graph)
    run = gs.save_run(prediction, graph, tmp_path / "run")
    model, opened = RunFolder(run).open()
    found = model.predict(opened)
    assert isinstance(found, gs.RegressionPrediction)
    np.testing.assert_array_equal(found.means, prediction.means)
    assert gs.evaluate(found, opened)["rmse"] == 0


def test_a_wrapped_module_keeps_its_calibrator(tmp_path: Path) -> None:
    graph = block_graph()
    wrapped = gs.wrap(nn.Linear(8, 3), graph).calibrate(graph)
    run = gs.save_run(wrapped, graph, tmp_path / "run")
    assert wrapped.calibrator is not None
    model, opened = RunFolder(run).open()
    assert model.calibrator is not None
    np.testing.assert_array_equal(model.predict(opened).mean, wrapped.predict(graph).mean)


def test_verbs_take_such_a_run(tmp_path: Path) -> None:
    graph = block_graph(per_class=80)
    run = str(gs.save_run(some_prediction(graph), graph, tmp_path / "run"))
    measured = answer("evaluate", run, "--json")
    assert measured["accuracy"] == pytest.approx(gs.evaluate(some_prediction(graph), graph)["accuracy"])
    table = tmp_path / "decisions.csv"
    decided = answer("decide", run, "--out", str(table), "--max-error", "0.4", "--json")
    assert sum(decided["actions"].values()) == graph.num_nodes and table.is_file()
    assert len(answer("ask", run, "--budget", "2", "--json")["questions"]) == 2
    assert graphsde("report", run).exit_code == 0 and (tmp_path / "run" / "report.html").is_file()
    assert answer("calibrate", run, "--json")["calibrator"] == "temperature"


def test_what_needs_the_model_is_refused(tmp_path: Path) -> None:
    graph = block_graph()
    run = gs.save_run(some_prediction(graph), graph, tmp_path / "run")
    model, opened = RunFolder(run).open()
    with pytest.raises(BadUsage, match="can't predict another graph"):
        gs.explain(model, opened, opened.node_ids[0])
    with pytest.raises(BadUsage, match="trained elsewhere"):
        learn(run, {0: "class 0"})
    with pytest.raises(BadUsage, match="overwrite=True"):
        gs.save_run(some_prediction(graph), graph, run)
    gs.save_run(some_prediction(graph), graph, run, overwrite=True)


def test_a_source_must_be_the_graph_that_was_predicted_on(tmp_path: Path) -> None:
    graph, other = block_graph(), block_graph(seed=1)
    gs.write_tables(other, tmp_path / "other")
    with pytest.raises(BadInput, match="does not hold the graph"):
        gs.save_run(some_prediction(graph), graph, tmp_path / "run", source=tmp_path / "other")
    gs.write_tables(graph, tmp_path / "same")
    moved = graph.with_masks(train=graph.role("test"), val=graph.role("val"), test=graph.role("train"))
    with pytest.raises(BadInput, match="other roles"):
        gs.save_run(some_prediction(graph), moved, tmp_path / "run", source=tmp_path / "same")
    run = gs.save_run(some_prediction(graph), graph, tmp_path / "run", source=tmp_path / "same")
    assert not (run / "graph").exists()
    with pytest.raises(BadInput, match="another order"):
        gs.save_run(some_prediction(graph).subset(np.arange(30)[::-1]), graph, tmp_path / "third")
