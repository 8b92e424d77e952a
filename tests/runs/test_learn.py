"""Learning from new labels: what is refused, what changes, what is kept, and what a kill leaves behind."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import graphsde as gs
from graphsde.base.errors import BadInput, BadUsage, GraphsdeError
from graphsde.base.interrupt import Interrupted
from graphsde.datasets.source import GraphSource
from graphsde.graph.graph import Graph
from graphsde.nn.callbacks import Callback, EpochRecord
from graphsde.runs.calibrate import calibrate_run
from graphsde.runs.fit import FitRequest, fit_run
from graphsde.runs.folder import RunFolder
from graphsde.runs.learn import Learned, learn
from graphsde.runs.new_labels import GivenLabels
from graphsde.runs.state import past_rounds, present_round

from support import block_graph

TRUTH = {row: f"class {row // 10}" for row in range(30)}


def half_known() -> Graph:
    """The small graph with unlabelled nodes 7, 8, 9 of each class, which are in no split."""
    full = block_graph()
    role = np.arange(30) % 10
    assert full.labels is not None
    return gs.from_arrays(
        full.features, full.adjacency.matrix, labels=np.where(role > 6, -1, full.labels), class_names=full.class_names,
        train_mask=role < 3, val_mask=role == 3, test_mask=(role > 3) & (role < 7), name="half",
    )  # fmt: skip


def fit(graph: Graph, folder: Path, model: str = "gcn", **settings: Any) -> Path:
    gs.write_tables(graph, folder / "graph")
    values = {"epochs": 15, "hidden": 4, **settings} if model == "gcn" else settings
    fit_run(FitRequest(GraphSource.typed(str(folder / "graph")), model, values), RunFolder(folder / "run"))
    return folder / "run"


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fit(half_known(), tmp_path_factory.mktemp("learn"))


@pytest.fixture
def run(fitted: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(fitted, tmp_path / "run"))


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file() and path.name[0] != "."}


def test_new_labels_become_training_nodes_and_the_round_before_is_kept(run: Path) -> None:
    before = content(run)
    (run / "report.html").write_text("old")
    learned = learn(run, {7: "class 0", 18: "class 1", 29: "class 2"})
    assert (learned.round, learned.added, learned.from_test, learned.training_nodes) == (1, 3, 0, 12)
    assert learned.warm and learned.epochs > 0 and learned.before["n_test"] == learned.after["n_test"] == 9
    graph = RunFolder(run).load_graph()
    assert graph.train_mask is not None and graph.train_mask[[7, 18, 29]].all() and graph.labels is not None
    assert graph.labels[[7, 18, 29]].tolist() == [0, 1, 2] and graph.labels[8] == -1
    assert learned.history == run / "history" / "0"
    assert {name: text for name, text in content(learned.history).items() if name != "report.html"} == before
    assert not (run / "report.html").exists() and (learned.history / "report.html").read_text() == "old"
    table = pq.read_table(run / "predictions.parquet").to_pydict()
    assert table["split"][7] == "train" and table["true_label"][7] == "class 0"
    model = RunFolder(run).load_model()
    np.testing.assert_allclose(model.predict(graph).mean[:, 0], np.array(table["p:class 0"]), atol=1e-9)


def test_rounds_add_up_and_every_one_can_be_read(run: Path) -> None:
    learn(run, {7: "class 0"})
    second = learn(run, {8: "class 0", 17: "class 1"})
    assert second.round == 2 and second.training_nodes == 12
    assert [one.name for one in past_rounds(run)] == ["0", "1"]
    trained = []
    for folder in (run / "history" / "0", run / "history" / "1", run):
        mask = RunFolder(folder).load_graph().train_mask
        assert mask is not None and RunFolder(folder).load_model().class_names == ("class 0", "class 1", "class 2")
        trained.append(int(mask.sum()))
    assert trained == [9, 10, 12]
    assert [one["round"] for one in json.loads((run / "labels.json").read_text())["labels"]] == [1, 2, 2]


def test_what_changed_is_measured_on_nodes_that_are_not_for_training(run: Path) -> None:
    old, graph = RunFolder(run).load_model(), RunFolder(run).load_graph()
    learned = learn(run, {7: "class 0", 18: "class 1"})
    new = RunFolder(run).load_model()
    target = RunFolder(run).load_graph()
    assert target.train_mask is not None
    rest = ~target.train_mask
    a, b = old.predict(graph), new.predict(target)
    assert learned.change.nodes == int(rest.sum()) == 19
    assert learned.change.relabelled == int((a.index != b.index)[rest].sum())
    assert learned.change.entropy_before == pytest.approx(float(a.total[rest].mean()))
    assert learned.change.entropy_after == pytest.approx(float(b.total[rest].mean()))
    far = np.abs(a.mean - b.mean).sum(axis=1) / 2
    moved = [one.id for one in learned.change.moved]
    assert moved == [row for row in np.argsort(-far, kind="stable").tolist() if rest[row]][: len(moved)]
    assert learned.after["accuracy"] == gs.evaluate(b, target)["accuracy"]
    assert Learned.of_run(run) == learned


def test_test_nodes_leave_the_test_and_known_labels_are_only_counted(run: Path) -> None:
    learned = learn(run, {4: "class 0", 0: "class 0", 3: "class 0"})  # tested, trained on, validated
    assert (learned.added, learned.from_test, learned.known) == (1, 1, 2)
    assert learned.after["n_test"] == 8
    again = learn(run, {4: "class 0"})
    assert again.already_known and again.round == 1 and present_round(run) == 1


@pytest.mark.parametrize(
    ("labels", "code", "words"),
    [
        ({7: "class 0", 99: "class 1"}, "E-NODE-UNKNOWN", "1 of 2 rows with a label (labels[99]: 99)"),
        ({7: "class 9", 8: "class 0"}, "E-LABEL-UNKNOWN", "fit again"),
        ({4: "class 1"}, "E-LABEL-CONFLICT", "class 1, the graph has class 0"),
        ({0: "class 2"}, "E-LABEL-CONFLICT", "the graph has class 0"),
        ({7: "", 8: None}, "E-EMPTY", "2 rows without a label"),
        ({0: "class 0"}, "E-EMPTY", "already in use"),
    ],
)
def test_wrong_labels_are_refused_with_their_rows_and_nothing_is_touched(
    run: Path, labels: dict[int, str | None], code: str, words: str
) -> None:
    before = content(run)
    with pytest.raises(GraphsdeError) as error:
        learn(run, labels)
    assert error.value.code == code and words in str(error.value)
    assert content(run) == before and not (run / "history").exists()


def test_files_of_labels(run: Path, tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_text("id,label,note\n7,class 0,\n8,,\n17, class 1 ,x\n")
    given = GivenLabels.read(path)
    assert given.ids == [7, 17] and given.names == ["class 0", "class 1"] and given.empty == 1
    for text, code, words in (
        ("id,label\n7,class 0\n7,class 0\n", "E-LABEL-DUP", "labels.csv, line 3: 7"),
        ("id,label\n7,class 0\nx,class 1\n", "E-NODE-UNKNOWN", "labels.csv, line 3: x"),
        ("node,label\n7,class 0\n", "E-HEADER", "no column 'id'"),
        ("id,label\n7,\n", "E-EMPTY", "1 rows without a label"),
    ):
        path.write_text(text)
        with pytest.raises(BadInput) as error:
            learn(run, GivenLabels.read(path))
        assert error.value.code == code and words in str(error.value)
    with pytest.raises(BadInput, match="E-NOT-A-FILE"):
        GivenLabels.read(tmp_path / "nothing.csv")
    with pytest.raises(BadUsage, match=r"\.parquet"):
        GivenLabels.read(tmp_path / "labels.xlsx")


def test_guarded_names_and_numbers_with_a_point_come_back(tmp_path: Path) -> None:
    graph = half_known()
    named = gs.from_arrays(
        graph.features, graph.adjacency.matrix, labels=graph.labels, class_names=["-1x", "2", "3"],
        node_ids=[f"=n{row}" for row in range(30)], train_mask=graph.train_mask, val_mask=graph.val_mask,
        test_mask=graph.test_mask,
    )  # fmt: skip
    run = fit(named, tmp_path, epochs=2)
    learned = learn(run, GivenLabels(["'=n7", "=n17", "=n27"], ["'-1x", "2.0", "3"], ["a", "b", "c"]))
    assert learned.added == 3
    labels = RunFolder(run).load_graph().labels
    assert labels is not None and labels[[7, 17, 27]].tolist() == [0, 1, 2]


def test_a_model_without_weights_and_an_ensemble_learn_too(tmp_path: Path) -> None:
    plain = fit(half_known(), tmp_path / "a", "label-propagation")
    assert not learn(plain, {7: "class 0"}).warm
    several = fit(half_known(), tmp_path / "b", "ensemble", members=2, base="gcn", base_settings={"epochs": 4})
    assert learn(several, {7: "class 0"}).warm


def test_fit_knows_a_run_that_has_learned_and_overwriting_forgets_it(run: Path) -> None:
    learn(run, {7: "class 0"})
    config = RunFolder(run).read_config()
    request = FitRequest(RunFolder(run).source(), "gcn", {"epochs": 15, "hidden": 4})
    assert fit_run(request, RunFolder(run)).already_done
    fit_run(request, RunFolder(run), overwrite=True)
    assert RunFolder(run).read_config() == config
    assert not (run / "history").exists() and not (run / "labels.json").exists()


def test_a_calibrator_is_fitted_anew_not_lost(run: Path) -> None:
    calibrate_run(RunFolder(run), "gats")
    before = RunFolder(run).load_model().calibrator
    said: list[str] = []
    learn(run, {7: "class 0", 18: "class 1"}, say=said.append)
    after = RunFolder(run).load_model().calibrator
    assert before is not None and after is not None and after.name == "gats"
    assert "fitting the calibrator again (gats)" in said
    assert len(after.trained) == len(before.trained) + 2  # fitted around the nodes of today


# a graph that has grown


def test_a_calibrator_that_was_removed_stays_removed(tmp_path: Path) -> None:
    """A fit of the default has one; a run without it is compared with a successor without it."""
    run = fit(half_known(), tmp_path / "run", model="lgnsde", race=False, epochs=3)
    assert RunFolder(run).load_model().calibrator is not None
    learn(run, {7: "class 0"})
    kept = RunFolder(run).load_model().calibrator
    assert kept is not None and kept.name == "distance-aware"
    calibrate_run(RunFolder(run), None)
    said: list[str] = []
    learn(run, {18: "class 1"}, say=said.append)
    assert RunFolder(run).load_model().calibrator is None and any("without a calibrator" in one for one in said)


def grown(folder: Path, extra: int = 4, columns: int = 8) -> Path:
    old = half_known()
    rng = np.random.default_rng(1)
    features = np.vstack([old.features, rng.normal(size=(extra, 8)).astype(np.float32)])[:, :columns]
    edges = np.hstack([old.adjacency.edge_index(), [[30, 31, 32, 33][:extra], [0, 10, 20, 7][:extra]]])
    labels = np.append(old.labels, [-1] * extra)  # type: ignore[arg-type]
    order = rng.permutation(30 + extra)  # matched by id, not by row
    place = np.argsort(order)
    graph = gs.from_arrays(
        features[order], place[edges], labels=labels[order], node_ids=order, class_names=old.class_names, name="grown"
    )  # fmt: skip
    return gs.write_tables(graph, folder) or folder


def test_a_grown_graph_keeps_the_roles_of_known_nodes_by_id(run: Path, tmp_path: Path) -> None:
    path = grown(tmp_path / "grown")
    learned = learn(run, {31: "class 1", 7: "class 0"}, graph=str(path))
    assert learned.new_nodes == 4 and learned.added == 2
    graph = RunFolder(run).load_graph()
    assert graph.num_nodes == 34 and graph.train_mask is not None and graph.test_mask is not None
    by_role = {role: set(graph.node_ids[mask].tolist()) for role, mask in graph.masks.items()}
    role = np.arange(30) % 10
    assert by_role["train"] == {*np.flatnonzero(role < 3).tolist(), 31, 7}
    assert by_role["test"] == set(np.flatnonzero((role > 3) & (role < 7)).tolist())
    third = learn(run, {30: "class 0"})
    assert third.round == 2 and third.training_nodes == 12
    assert RunFolder(run / "history" / "0").load_graph().num_nodes == 30


def test_a_graph_with_other_columns_or_fewer_nodes_is_refused(run: Path, tmp_path: Path) -> None:
    before = content(run)
    with pytest.raises(BadInput, match="E-SCHEMA"):
        learn(run, {7: "class 0"}, graph=str(grown(tmp_path / "narrow", columns=7)))
    full = half_known()
    gs.write_tables(full.subgraph(np.arange(25)), tmp_path / "small")
    with pytest.raises(BadInput, match="5 of the 30 nodes of the run are not in"):
        learn(run, {7: "class 0"}, graph=str(tmp_path / "small"))
    assert content(run) == before


# kills


class StopAt(Callback):
    def __init__(self, epoch: int) -> None:
        self.epoch = epoch

    def on_epoch(self, record: EpochRecord) -> None:
        if record.epoch == self.epoch:
            signal.raise_signal(signal.SIGINT)


def test_an_interrupted_round_leaves_the_old_one_and_goes_on_to_the_same_end(run: Path, tmp_path: Path) -> None:
    other = Path(shutil.copytree(run, tmp_path / "other"))
    before = content(run)
    with pytest.raises(Interrupted):
        learn(run, {7: "class 0"}, callbacks=[StopAt(5)])
    assert content(run) == before and RunFolder(run).load_model().class_names
    said: list[str] = []
    learned = learn(run, {7: "class 0"}, say=said.append)
    assert said == [f"resuming the interrupted round in {run}"]
    straight = learn(other, {7: "class 0"})
    assert learned.epochs == straight.epochs and learned.after == straight.after
    assert (run / "model.safetensors").read_bytes() == (other / "model.safetensors").read_bytes()


def test_other_labels_after_an_interruption_begin_anew(run: Path) -> None:
    with pytest.raises(Interrupted):
        learn(run, {7: "class 0"}, callbacks=[StopAt(5)])
    said: list[str] = []
    assert learn(run, {8: "class 0"}, say=said.append).added == 1 and not said
    labels = RunFolder(run).load_graph().labels
    assert labels is not None and labels[7] == -1


class Killed(BaseException):
    pass


def test_a_kill_at_any_move_leaves_one_round_whole(
    fitted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everything that touches the disk after the fit is cut off once, at every third call (make reliability: at every
    one)."""
    reference = Path(shutil.copytree(fitted, tmp_path / "reference"))
    old = content(reference)
    learn(reference, {7: "class 0"})
    new_labels = (reference / "labels.json").read_bytes()
    real = {name: getattr(os, name) for name in ("rename", "replace", "link", "fsync", "unlink")}
    for at in range(1, 200, 3):
        run = Path(shutil.copytree(fitted, tmp_path / f"run{at}"))
        calls = 0

        def counted(name: str, *args: Any, **kwargs: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == at:  # noqa: B023
                raise Killed
            return real[name](*args, **kwargs)

        for name in real:
            monkeypatch.setattr(os, name, lambda *a, _name=name, **k: counted(_name, *a, **k))
        try:
            learn(run, {7: "class 0"})
            finished = True
        except Killed:
            finished = False
        monkeypatch.undo()
        folder = RunFolder(run)
        folder.load_model().predict(folder.load_graph())  # opens, whatever happened
        now = content(run)
        if "labels.json" in now:
            assert now["labels.json"] == new_labels and content(run / "history" / "0") == old
            assert now["model.safetensors"] == (reference / "model.safetensors").read_bytes()
        else:
            assert now == old and not (run / "history").exists()
        shutil.rmtree(run)
        if finished:
            break
    assert finished and at > 20


def test_a_killed_process_holds_nothing_up(run: Path) -> None:
    before = content(run)
    code = (
        "import os, signal, sys\n"
        "from graphsde.runs.learn import learn\n"
        "from graphsde.nn.callbacks import Callback\n"
        "class Kill(Callback):\n"
        "    def on_epoch(self, record):\n"
        "        os.kill(os.getpid(), signal.SIGKILL)\n"
        "learn(sys.argv[1], {7: 'class 0'}, callbacks=[Kill()])\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(run)], capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL
    assert content(run) == before
    assert learn(run, {7: "class 0"}).round == 1


def test_digits_from_questions_to_a_better_model(tmp_path: Path) -> None:
    run = tmp_path / "run"
    fit_run(FitRequest(GraphSource.typed("digits"), "gcn", {"epochs": 60}), RunFolder(run))
    folder = RunFolder(run)
    truth = gs.load("digits")
    assert truth.labels is not None
    for number in (1, 2):
        graph = folder.load_graph()
        questions = gs.ask(folder.load_model().predict(graph), graph, budget=20)
        learned = learn(run, {one.id: truth.class_names[truth.labels[one.position]] for one in questions})
        assert learned.round == number and learned.added == learned.from_test == 20
    first, last, graph = RunFolder(run / "history" / "0").load_model(), folder.load_model(), folder.load_graph()
    # both on the nodes that are still tested
    accuracy = [gs.evaluate(model.predict(graph), graph)["accuracy"] for model in (first, last)]
    assert accuracy[1] >= accuracy[0] and learned.after["accuracy"] == accuracy[1]
    asked = [one["id"] for one in json.loads((run / "labels.json").read_text())["labels"]]
    assert len(set(asked)) == 40


def test_a_change_says_whether_it_is_more_than_noise(run: Path) -> None:
    learned = learn(run, {7: "class 0", 18: "class 1"})
    for name, one in learned.differences.items():
        assert one.value == pytest.approx(learned.after[name] - learned.before[name])
        assert one.low <= one.value <= one.high or name == "ece"
        assert (one.verdict == "within noise") == (one.low <= 0 <= one.high)
    assert {"accuracy", "nll", "aurc"} <= set(learned.differences)
    assert learned.within_noise == all(one.verdict == "within noise" for one in learned.differences.values())
    assert Learned.of_run(run) == learned


def test_what_all_labels_bought_is_judged_on_the_nodes_of_today(run: Path) -> None:
    first = learn(run, {7: "class 0", 4: "class 0"})  # node 4 leaves the test
    assert first.gain is not None and [one.round for one in first.gain.rounds] == [0, 1]
    assert first.gain.differences == first.differences  # so far one round is all there is
    second = learn(run, {18: "class 1"})
    gain = second.gain
    assert gain is not None and gain.labels == 3 and gain.test_nodes == second.after["n_test"] == 8
    assert [(one.round, one.training_nodes) for one in gain.rounds] == [(0, 9), (1, 11), (2, 12)]
    graph = RunFolder(run).load_graph()
    for one, folder in zip(gain.rounds, (run / "history" / "0", run / "history" / "1", run), strict=True):
        said = RunFolder(folder).load_model().predict(graph)
        assert one.figures["accuracy"] == gs.evaluate(said, graph)["accuracy"]
    ends = [gain.rounds[at].figures["nll"] for at in (-1, 0)]
    assert None not in ends and gain.differences["nll"].value == pytest.approx(ends[0] - ends[1])
    assert "3 labels in 2 rounds" in gain.sentence() and Learned.of_run(run) == second


def test_a_round_that_can_not_be_read_is_left_out(run: Path) -> None:
    learn(run, {7: "class 0"})
    (run / "history" / "0" / "model.safetensors").write_bytes(b"")
    (run / "history" / "0" / "prediction.safetensors").write_bytes(b"")
    assert learn(run, {8: "class 0"}).gain is None


def test_a_summary_of_an_earlier_version_can_be_read(run: Path) -> None:
    learned = learn(run, {7: "class 0"})
    kept = json.loads((run / "learned.json").read_text())
    del kept["differences"], kept["gain"]
    (run / "learned.json").write_text(json.dumps(kept))
    old = Learned.of_run(run)
    assert old.before == learned.before and old.differences == {} and old.gain is None and old.verdict() == ""
