"""How a run stands: the leaderboard of a fit, intervals of evaluate, and what the run keeps of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import graphsde as gs
from cli_support import answer, graphsde
from graphsde.metrics.leaderboard import HOW_TO_CHOOSE
from graphsde.runs.folder import RunFolder

CONTROLS = {"majority-class", "label-propagation", "logistic", "logistic-hops"}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("standing") / "run"
    result = graphsde("fit", "digits", "--model", "gcn", "--set", "epochs=5", "--out", out)
    assert result.exit_code == 0, result.output
    return out


def test_fit_shows_the_model_beside_controls_and_keeps_them(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "160")  # where there is less room, cells are folded
    again = graphsde("fit", "digits", "--model", "gcn", "--set", "epochs=5", "--out", run)
    board = RunFolder(run).read_controls()
    assert again.exit_code == 0 and board is not None
    assert {one.name for one in board.rows} == {*CONTROLS, "gcn"}
    assert [one.val_nll for one in board.rows] == sorted(one.val_nll or 0.0 for one in board.rows)
    for text in (board.sentence, HOW_TO_CHOOSE, "gcn (this model)", *CONTROLS):
        assert text in again.stdout
    manifest = json.loads((run / "manifest.json").read_text())
    assert "controls.json" in manifest["files"]
    told = answer("fit", "digits", "--model", "gcn", "--set", "epochs=5", "--out", run, "--json")
    assert told["controls"]["rows"] == board.model_dump(mode="json")["rows"] and told["standing"] == board.sentence


def test_controls_change_nothing_of_the_run_and_can_be_left_out(run: Path, tmp_path: Path) -> None:
    result = graphsde(
        "fit", "digits", "--model", "gcn", "--set", "epochs=5", "--out", tmp_path / "bare", "--no-controls"
    )
    assert result.exit_code == 0 and "majority-class" not in result.stdout
    assert not (tmp_path / "bare" / "controls.json").exists() and RunFolder(tmp_path / "bare").read_controls() is None
    for name in ("model.safetensors", "predictions.parquet"):
        assert (tmp_path / "bare" / name).read_bytes() == (run / name).read_bytes()
    report = graphsde("report", tmp_path / "bare")
    assert report.exit_code == 0 and 'id="controls"' not in (tmp_path / "bare" / "report.html").read_text()


def test_a_changed_board_is_refused(run: Path, tmp_path: Path) -> None:
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    board = json.loads((copy / "controls.json").read_text())
    board["rows"][0]["val_nll"] = 0.0
    (copy / "controls.json").write_text(json.dumps(board))
    assert graphsde("evaluate", copy).exit_code == 65


def test_a_model_that_has_changed_since_is_not_shown_beside_them(run: Path, tmp_path: Path) -> None:
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    assert graphsde("calibrate", copy).exit_code == 0
    assert (copy / "controls.json").exists() and RunFolder(copy).read_controls() is None


def test_evaluate_has_an_interval_for_every_figure(run: Path) -> None:
    found = answer("evaluate", run, "--json")
    counts = {"n_test", "n_errors"}
    assert set(found["intervals"]) == set(found) - counts - {"run", "model", "graph", "intervals"}
    low, high = found["intervals"]["accuracy"]
    assert low < found["accuracy"] < high
    folder = RunFolder(run)
    model, graph = folder.open()
    ends = gs.intervals(model.predict(graph, samples=64), graph)
    assert found["intervals"] == {name: list(pair) for name, pair in ends.items()}
    shown = graphsde("evaluate", run).stdout
    assert f"{low:.4f} to {high:.4f}" in shown and "draws of test nodes" in shown


def test_evaluate_has_intervals_of_further_scores(tmp_path: Path) -> None:
    words = ("--split", "leave-class-out", "--split-set", "leave=last", "--no-controls")
    made = graphsde("fit", "digits", "--model", "logistic", "--set", "c=1", *words, "--out", tmp_path / "run")
    assert made.exit_code == 0, made.output
    found = answer("evaluate", tmp_path / "run", "--json", "--score", "msp")
    low, high = found["score_intervals"]["msp"]["ood_auroc"]
    assert low < found["scores"]["msp"]["ood_auroc"] < high
    assert found["intervals"]["ood_auroc"][0] < found["ood_auroc"] < found["intervals"]["ood_auroc"][1]
