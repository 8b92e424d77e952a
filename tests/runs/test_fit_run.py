"""A run from request to folder: what it leaves, what it resumes, what it refuses."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import yaml

import graphsde as gs
from graphsde.base.errors import BadInput, BadUsage, GraphsdeError, NotEnoughMemory
from graphsde.base.interrupt import Interrupted
from graphsde.datasets.source import GraphSource
from graphsde.nn.callbacks import Callback, EpochRecord
from graphsde.runs.fit import FitOutcome, FitRequest, fit_run
from graphsde.runs.folder import RunFolder

from support import as_before_guards, block_graph


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    folder = tmp_path / "graph"
    gs.write_tables(block_graph(), folder)
    return folder


def request(tables: Path, **settings: Any) -> FitRequest:
    return FitRequest(GraphSource.typed(str(tables)), "gcn", {"epochs": 12, "hidden": 4, **settings})


def fit(
    tables: Path, out: Path, *, overwrite: bool = False, said: list[str] | None = None, **settings: Any
) -> FitOutcome:
    say = (said if said is not None else []).append
    return fit_run(request(tables, **settings), RunFolder(out), overwrite=overwrite, say=say)


def test_a_run_leaves_the_files_of_a_run(tables: Path, tmp_path: Path) -> None:
    said: list[str] = []
    outcome = fit(tables, tmp_path / "run", said=said)
    names = {path.name for path in (tmp_path / "run").iterdir() if not path.name.startswith(".")}
    assert names == {
        "config.yaml", "environment.json", "graph.json", "metrics.jsonl", "model.json", "model.safetensors",
        "predictions.parquet", "manifest.json", "graph.safetensors", "prediction.safetensors", "evidence.safetensors",
        "looks.json",
    }  # fmt: skip
    assert "up to 12 epochs" in said[0] and "memory" in said[0]
    table = pq.read_table(outcome.folder.predictions).to_pydict()
    assert table["id"] == outcome.graph.node_ids.tolist()
    assert set(table["label"]) <= set(outcome.graph.class_names)
    np.testing.assert_allclose(
        sum(np.array(table[f"p:{name}"]) for name in outcome.graph.class_names), np.ones(30), atol=1e-9
    )
    assert table["epistemic"] == [None] * 30
    lines = outcome.folder.read_metrics()
    assert [line["kind"] for line in lines] == ["epoch"] * 12 + ["evaluation"]
    assert lines[-1]["n_test"] == int(outcome.graph.test_mask.sum())


def test_the_same_fit_again_does_nothing(tables: Path, tmp_path: Path) -> None:
    first = fit(tables, tmp_path / "run")
    stamp = first.folder.metrics.stat().st_mtime_ns
    said: list[str] = []
    second = fit(tables, tmp_path / "run", said=said)
    assert second.already_done and "nothing to do" in said[0]
    assert first.folder.metrics.stat().st_mtime_ns == stamp
    np.testing.assert_array_equal(first.prediction.probs, second.prediction.probs)


def test_another_configuration_is_refused_with_the_difference(tables: Path, tmp_path: Path) -> None:
    fit(tables, tmp_path / "run")
    with pytest.raises(BadUsage, match=r"model\.settings\.hidden: 4 then, 5 now"):
        fit(tables, tmp_path / "run", hidden=5)
    assert fit(tables, tmp_path / "run", hidden=5, overwrite=True).model.settings.hidden == 5


def test_changed_data_is_refused(tables: Path, tmp_path: Path) -> None:
    folder = fit(tables, tmp_path / "run").folder
    changed = block_graph()
    gs.write_tables(changed.with_features(changed.features + 1), tables)
    for more in ({}, {"hidden": 5}):
        with pytest.raises(BadUsage, match=r"before it changed \(data: \w+ then, \w+ now\).*graphsde learn") as caught:
            fit(tables, tmp_path / "run", **more)
        assert caught.value.code == "E-RUN-EXISTS"
    with pytest.raises(
        BadInput, match=r"has changed since.*graphsde learn .*run LABELS\.csv --graph.*the copy"
    ) as told:
        folder.load_graph()
    assert told.value.code == "E-DATA-CHANGED"
    tables.rename(tmp_path / "away")  # as the message says
    assert np.array_equal(folder.load_graph().features, block_graph().features)


def test_a_run_of_another_graph_is_told_as_that(tables: Path, tmp_path: Path) -> None:
    fit(tables, tmp_path / "run")
    gs.write_tables(block_graph(seed=1), tmp_path / "other")
    with pytest.raises(BadUsage, match="holds a run of another graph") as caught:
        fit(tmp_path / "other", tmp_path / "run", hidden=5)
    assert "settings" not in str(caught.value) and str(tables) in str(caught.value)


class Interrupt(Callback):
    """Sends the process a signal in the middle of the training."""

    def on_epoch(self, record: EpochRecord) -> None:
        import os
        import signal

        if record.epoch == 5:
            os.kill(os.getpid(), signal.SIGTERM)


def test_an_interrupted_run_is_resumed_to_the_same_bits(tables: Path, tmp_path: Path) -> None:
    whole = fit(tables, tmp_path / "whole")
    with pytest.raises(Interrupted) as caught:
        fit_run(request(tables), RunFolder(tmp_path / "cut"), callbacks=[Interrupt()])
    assert caught.value.exit_code == 143 and "same command again" in str(caught.value)
    said: list[str] = []
    resumed = fit(tables, tmp_path / "cut", said=said)
    assert resumed.resumed and "resuming" in said[0]
    for name in ("model.safetensors", "predictions.parquet"):
        assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert len(resumed.folder.read_metrics()) == len(whole.folder.read_metrics())
    assert not resumed.folder.work.checkpoint.path.exists()


def test_a_run_is_not_written_among_other_files(tables: Path, tmp_path: Path) -> None:
    before = sorted(tables.iterdir())
    for overwrite in (False, True):
        with pytest.raises(BadUsage, match=r"E-NOT-A-RUN: .* holds a graph, not a run.*edges\.csv, nodes\.csv"):
            fit(tables, tables, overwrite=overwrite)
    assert sorted(tables.iterdir()) == before
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "todo.txt").write_text("")
    with pytest.raises(BadUsage, match=r"holds other files, not a run.*todo\.txt"):
        fit(tables, tmp_path / "notes")
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / ".hidden").write_text("")
    run = fit(tables, tmp_path / "empty").folder.path
    (run / "nodes.csv").write_text("")  # whatever people put beside a run
    assert fit(tables, run).already_done


@pytest.mark.parametrize(
    ("settings", "split"), [({"hidden": "abc"}, None), ({"nosuch": 1}, None), ({}, "nosuch"), ({}, "one class")]
)
def test_a_refused_fit_leaves_no_folder(tmp_path: Path, settings: dict[str, Any], split: str | None) -> None:
    graph = block_graph()
    labels = np.zeros(graph.num_nodes, dtype=np.int64)
    gs.write_tables(graph.with_labels(labels) if split == "one class" else graph, tmp_path / "graph")
    source = GraphSource.typed(str(tmp_path / "graph"), split=None if split == "one class" else split)
    with pytest.raises(GraphsdeError):
        fit_run(FitRequest(source, "gcn", settings), RunFolder(tmp_path / "run"))
    assert not (tmp_path / "run").exists()


def test_a_run_of_files_without_training_nodes_keeps_the_split_that_was_drawn(tmp_path: Path) -> None:
    graph = block_graph(per_class=40)
    gs.write_tables(graph.with_masks(test=graph.role("test")), tmp_path / "files")
    source = GraphSource.typed(str(tmp_path / "files"), split="stratified-60-15-25")
    outcome = fit_run(FitRequest(source, "gcn", {"epochs": 2}), RunFolder(tmp_path / "run"))
    config = outcome.folder.read_config()
    config["graph"]["split"] = None  # as it was written when such files got a split without being asked
    outcome.folder.config.write_text(yaml.safe_dump(config))
    as_before_guards(outcome.folder.path)
    assert RunFolder(tmp_path / "run").load_graph().split == "stratified-60-15-25"
    same = GraphSource.typed(str(tmp_path / "files"))
    again = fit_run(FitRequest(same, "gcn", {"epochs": 2}), RunFolder(tmp_path / "run"))
    assert again.already_done and again.graph.split == "stratified-60-15-25"
    with pytest.raises(BadUsage, match="holds another run"):
        fit_run(FitRequest(same, "gcn", {"epochs": 3}), RunFolder(tmp_path / "run"))
    for folder, overwrite in (("run", True), ("new", False)):
        with pytest.raises(BadInput) as caught:
            fit_run(FitRequest(same, "gcn", {"epochs": 2}), RunFolder(tmp_path / folder), overwrite=overwrite)
        assert caught.value.code == "E-SPLIT-EMPTY"


def test_a_folder_of_runs_names_them(tables: Path, tmp_path: Path) -> None:
    for name in ("first", "second"):
        fit(tables, tmp_path / "runs" / name)
    (tmp_path / "runs" / "notes").mkdir()
    with pytest.raises(BadInput, match="is not a run, but holds runs") as caught:
        RunFolder(tmp_path / "runs").state()
    assert caught.value.code == "E-NO-RUN" and caught.value.found == "first, second"
    assert str(tmp_path / "runs" / "first") in str(caught.value.fix)
    with pytest.raises(BadInput, match="no run in"):
        RunFolder(tmp_path / "runs" / "notes").state()


def test_two_writers_at_once_are_refused(tables: Path, tmp_path: Path) -> None:
    with RunFolder(tmp_path / "run").locked(), pytest.raises(BadUsage, match="is already writing to"):
        fit(tables, tmp_path / "run")


def test_the_lock_of_a_dead_process_is_free(tables: Path, tmp_path: Path) -> None:
    code = (
        "import os, sys; from graphsde.runs.folder import RunFolder\n"
        "RunFolder(sys.argv[1]).locked().__enter__(); os._exit(9)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "run")], check=False)
    assert (tmp_path / "run" / ".lock").exists()
    assert not fit(tables, tmp_path / "run").already_done


def test_not_enough_memory_is_said_before_anything_is_written(
    tables: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRAPHSDE_MEMORY_LIMIT", "1")
    with pytest.raises(NotEnoughMemory, match="fitting gcn on"):
        fit(tables, tmp_path / "run", hidden=60_000)
    assert not RunFolder(tmp_path / "run").started


def test_a_graph_without_test_nodes_is_fitted_but_not_measured(tmp_path: Path) -> None:
    graph = block_graph()
    masks = {name: mask for name, mask in graph.masks.items() if name in ("train", "val")}
    gs.write_tables(graph.with_masks(**masks), tmp_path / "graph")
    outcome = fit(tmp_path / "graph", tmp_path / "run")
    assert "accuracy" not in outcome.metrics


def test_a_run_whose_folder_was_taken_for_an_amazon_graph_keeps_its_split(tmp_path: Path) -> None:
    gs.write_tables(block_graph(per_class=60).with_masks(), tmp_path / "photo")
    source = GraphSource.typed(str(tmp_path / "photo"), split="shchur")
    outcome = fit_run(FitRequest(source, "gcn", {"epochs": 2}), RunFolder(tmp_path / "run"))
    config = outcome.folder.read_config()
    config["graph"]["split"] = None  # as it was written when the name of the folder chose the split
    outcome.folder.config.write_text(yaml.safe_dump(config))
    as_before_guards(outcome.folder.path)
    assert RunFolder(tmp_path / "run").load_graph().split == "shchur"


def test_a_damaged_run_is_named(tables: Path, tmp_path: Path) -> None:
    folder = fit(tables, tmp_path / "run").folder
    as_before_guards(folder.path)
    folder.config.write_text("model: [")
    with pytest.raises(BadInput, match=r"config\.yaml is damaged"):
        folder.read_config()
    with pytest.raises(BadInput, match="no run in"):
        RunFolder(tmp_path / "nowhere").read_config()


def test_labels_are_aligned_by_name_not_by_position(blocks: gs.Graph) -> None:
    model = gs.GCN(epochs=30, hidden=8).fit(blocks)
    prediction = model.predict(blocks)
    reversed_names = blocks.class_names[::-1]
    renamed = blocks.with_labels(2 - blocks.labels, reversed_names)
    assert gs.evaluate(prediction, renamed) == pytest.approx(gs.evaluate(prediction, blocks), nan_ok=True)


def test_environment_names_no_person_and_no_place(tables: Path, tmp_path: Path) -> None:
    folder = fit(tables, tmp_path / "run").folder
    environment = json.loads(folder.environment.read_text())
    assert {"graphsde", "python", "packages", "command"} <= set(environment)
    assert "user" not in environment and "hostname" not in environment


def test_a_run_of_files_that_had_calibration_nodes_keeps_them(tmp_path: Path) -> None:
    gs.write_tables(block_graph(per_class=60).with_masks(), tmp_path / "files")
    source = GraphSource.typed(str(tmp_path / "files"), split="fractions")
    outcome = fit_run(FitRequest(source, "gcn", {"epochs": 2}), RunFolder(tmp_path / "run"))
    config = outcome.folder.read_config()
    config["graph"]["split"] = None  # as it was written when files got calibration nodes without being asked
    outcome.folder.config.write_text(yaml.safe_dump(config))
    as_before_guards(outcome.folder.path)
    graph = RunFolder(tmp_path / "run").load_graph()
    assert graph.split == "fractions" and int(graph.masks["calibration"].sum()) == 27
    new = fit_run(
        FitRequest(GraphSource.typed(str(tmp_path / "files")), "gcn", {"epochs": 2}), RunFolder(tmp_path / "new")
    )
    assert RunFolder(tmp_path / "new").load_graph().split == "stratified-60-15-25" == new.graph.split
