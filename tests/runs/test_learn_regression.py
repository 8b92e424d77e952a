"""Numbers that come in after a fit: the same loop of ask and learn as with classes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import graphsde as gs
from graphsde.acting.change import RegressionChange
from graphsde.base.errors import BadInput
from graphsde.datasets.source import GraphSource
from graphsde.graph.graph import Graph
from graphsde.graph.target import RegressionTarget
from graphsde.prediction import RegressionPrediction
from graphsde.runs.fit import FitRequest, fit_run
from graphsde.runs.folder import RunFolder
from graphsde.runs.learn import Learned, learn
from graphsde.runs.new_labels import GivenLabels


def chain(nodes: int = 40) -> Graph:
    """Values along a chain; the last ten have none yet, and every fifth is tested."""
    rng = np.random.default_rng(0)
    place = np.linspace(-1, 1, nodes)
    values = np.where(np.arange(nodes) < 30, 10 + 5 * place, np.nan)
    role = np.arange(nodes) % 5
    known = ~np.isnan(values)
    return gs.from_arrays(
        np.column_stack([place, rng.normal(size=nodes)]).astype(np.float32),
        np.array([np.arange(nodes - 1), np.arange(1, nodes)]), labels=values, target="regression",
        train_mask=known & (role < 3), val_mask=known & (role == 3), test_mask=known & (role == 4), name="chain",
    )  # fmt: skip


def fit(folder: Path, model: str, **settings: object) -> Path:
    gs.write_tables(chain(), folder / "graph")
    source = GraphSource.typed(str(folder / "graph"))
    fit_run(FitRequest(source, model, settings), RunFolder(folder / "run"))
    return folder / "run"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return fit(tmp_path, "gcn", epochs=20, hidden=4)


def test_values_become_training_nodes_and_change_is_told(run: Path) -> None:
    folder = RunFolder(run)
    model, before = folder.load_model(), folder.load_graph()
    learned = learn(run, {35: 14.0, 36: "14.5", 37: None, 4: before.values[4]})  # type: ignore[index]
    assert (learned.round, learned.added, learned.from_test, learned.warm) == (1, 3, 1, True)
    after = folder.load_graph()
    assert after.values is not None and after.train_mask is not None
    assert after.values[[35, 36]].tolist() == [14.0, 14.5] and np.isnan(after.values[37])
    assert after.train_mask[[4, 35, 36]].all() and learned.training_nodes == int(after.train_mask.sum()) == 21
    a, b = model.predict(after, samples=64), folder.load_model().predict(after, samples=64)
    assert isinstance(a, RegressionPrediction) and isinstance(b, RegressionPrediction)
    rest = ~after.train_mask
    change = learned.change
    assert isinstance(change, RegressionChange) and change.nodes == int(rest.sum())
    assert change.shift == pytest.approx(float(np.abs(a.mean - b.mean)[rest].mean()))
    assert change.deviation_after == pytest.approx(float(np.sqrt(b.total)[rest].mean()))
    steps = np.where(rest, np.abs(a.mean - b.mean) / np.sqrt(a.total), -1)
    assert [one.id for one in change.moved] == np.argsort(-steps)[: len(change.moved)].tolist()
    assert learned.before["n_test"] == learned.after["n_test"] == 5
    assert learned.after["rmse"] == gs.evaluate(b, after)["rmse"]
    assert Learned.of_run(run) == learned
    second = learn(run, {38: 14.9})
    assert second.round == 2 and second.training_nodes == 22
    again = learn(run, {38: 14.9})
    assert again.already_known and again.round == 2 and isinstance(again.change, RegressionChange)


@pytest.mark.parametrize("model", ["lgnsde", "graph-gp", "ensemble"])
def test_every_model_for_numbers_learns(tmp_path: Path, model: str) -> None:
    more: dict[str, object] = {"epochs": 4} if model != "ensemble" else {"members": 2, "base_settings": {"epochs": 4}}
    learned = learn(fit(tmp_path, model, **more), {35: 14.0})
    assert learned.added == 1 and learned.warm and learned.after["rmse"] > 0


@pytest.mark.parametrize(
    ("labels", "code", "words"),
    [
        ({35: "many"}, "E-VALUE-TYPE", "labels[35]"),
        ({35: "1,5"}, "E-VALUE-TYPE", "decimal point"),
        ({35: float("inf")}, "E-VALUE", "labels[35]"),
        ({4: 99.0}, "E-LABEL-CONFLICT", "99.0, the graph has"),
        ({99: 1.0}, "E-NODE-UNKNOWN", "99"),
        ({35: ""}, "E-EMPTY", "no row has a label"),
    ],
)
def test_what_is_refused_names_the_row_and_changes_nothing(run: Path, labels, code: str, words: str) -> None:
    before = (run / "model.json").read_bytes()
    with pytest.raises(BadInput) as caught:
        learn(run, labels)
    assert caught.value.code.startswith(code) and words in str(caught.value)
    assert (run / "model.json").read_bytes() == before and not (run / "history").exists()


def test_a_value_that_lost_its_last_digits_is_the_same_value(run: Path) -> None:
    known = RunFolder(run).load_graph().values
    assert known is not None
    assert learn(run, {4: f"{known[4]:.10g}", 35: 14.0}).added == 2


def test_a_grown_graph_keeps_roles_and_values(run: Path, tmp_path: Path) -> None:
    old = chain()
    assert old.values is not None
    features = np.vstack([old.features, [[1.05, 0.0]]]).astype(np.float32)
    edges = np.array([np.arange(40), np.arange(1, 41)])
    larger = gs.from_arrays(features, edges, labels=np.append(old.values, np.nan), target="regression", name="larger")
    gs.write_tables(larger, tmp_path / "larger")
    learned = learn(run, {40: 15.2, 35: 14.0}, graph=str(tmp_path / "larger"))
    assert learned.new_nodes == 1 and learned.added == 2
    graph = RunFolder(run).load_graph()
    assert graph.num_nodes == 41 and graph.values is not None and graph.values[40] == 15.2
    assert graph.test_mask is not None and graph.test_mask.sum() == 6
    assert learn(run, {36: 14.2}).training_nodes == learned.training_nodes + 1


def test_a_file_with_numbers(run: Path, tmp_path: Path) -> None:
    path = tmp_path / "values.csv"
    path.write_text("id,label\n35,14.25\n36,\n37,1.43e1\n")
    assert learn(run, GivenLabels.read(path)).added == 2
    values = RunFolder(run).load_graph().values
    assert values is not None and values[[35, 37]].tolist() == [14.25, 14.3]


def test_a_warm_start_speaks_in_the_units_that_its_weights_were_learned_in(run: Path) -> None:
    folder = RunFolder(run)
    graph, model = folder.load_graph(), folder.load_model()
    assert graph.values is not None and graph.train_mask is not None
    values = graph.values.copy()
    values[35] = 1000.0  # far from all others: another mean, another deviation
    train = graph.train_mask | (np.arange(40) == 35)
    grown = graph.with_target(RegressionTarget(values)).with_masks(split=None, **{**graph.masks, "train": train})
    warm = gs.GCN(hidden=4, epochs=1, lr=1e-9, early_stop=False).start_from(model).fit(grown)
    np.testing.assert_allclose(warm.predict(graph).mean, model.predict(graph).mean, rtol=1e-4)
