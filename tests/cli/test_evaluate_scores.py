"""`graphsde evaluate` with further scores and with a shift."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import graphsde as gs
from graphsde.acting.shifted import detect_shift
from graphsde.cli.app import app

from support import block_graph

PLAIN = ("auroc", "aupr_in", "aupr_out", "fpr95", "detection_accuracy", "detection_accuracy_grid")
FIGURES = {f"ood_{name}{spread}" for name in PLAIN for spread in ("", "_propagated")}


def graphsde(*words: object) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "200"})


def answer(*words: object) -> Any:
    result = graphsde(*words, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data") / "blocks"
    gs.write_tables(block_graph(), folder)
    return folder


@pytest.fixture(scope="module")
def plain(tables: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "plain"
    answer("fit", tables, "--model", "gcn", "--out", out, "--set", "epochs=10")
    return out


@pytest.fixture(scope="module")
def open_world(tables: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "open"
    answer("fit", tables, "--model", "gcn", "--out", out, "--set", "epochs=10", "--split", "leave-class-out")
    return out


def test_scores_by_repetition_and_by_commas(open_world: Path) -> None:
    default = answer("evaluate", open_world)
    assert "scores" not in default and "shift" not in default
    found = answer("evaluate", open_world, "--score", "msp", "--score", "gnnsafe, odin,mahalanobis", "--score", "gebm")
    compared, ends = found.pop("scores"), found.pop("score_intervals")
    assert found == default and list(ends) == list(compared)
    assert list(compared) == ["msp", "gnnsafe", "odin", "mahalanobis", "gebm"]
    assert all(set(figures) == FIGURES for figures in compared.values())
    words = graphsde("evaluate", open_world, "--score", "entropy+propagated").stdout
    assert "entropy+propagated" in words and "auroc prop" in words and "misclassification_auroc" in words


def test_a_shift_is_told_from_the_clean_graph(plain: Path) -> None:
    default = answer("evaluate", plain)
    found = answer(
        "evaluate", plain, "--shift", "interpolate-features", "--shift-seed", 5, "--score", "msp,mahalanobis"
    )
    shift = found.pop("shift")
    assert found == default and list(shift["scores"]) == ["msp", "mahalanobis"]
    folder = gs.load_model(plain), gs.read(block_folder(plain))
    assert shift == detect_shift(*folder, "interpolate-features", ["msp", "mahalanobis"], seed=5)
    assert (shift["n_id"], shift["n_ood"]) == (9, 30) and shift["ood_aupr_in_chance"] == pytest.approx(9 / 39)
    assert list(answer("evaluate", plain, "--shift", "rewire-sbm")["shift"]["scores"]) == ["ood"]
    words = graphsde("evaluate", plain, "--shift", "rewire-sbm").stdout
    assert "rewire-sbm" in words and "9 in-distribution, 30 OOD" in words


def block_folder(run: Path) -> Path:
    return Path(json.loads((run / "graph.json").read_text())["graph"])


def test_shift_and_foreign_classes_together(open_world: Path) -> None:
    found = answer("evaluate", open_world, "--shift", "interpolate-features", "--score", "energy")
    assert set(found["scores"]) == set(found["shift"]["scores"]) == {"energy"}


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--score", "gnnsaf"], "did you mean 'gnnsafe'"),
        (["--score", "msp"], "leaves out a class"),
        (["--score", "mutual-information", "--shift", "rewire-sbm"], "deterministic"),
        (["--shift", "rewire"], "rewire-sbm"),
    ],
)
def test_wrong_usage_is_answered_in_words(plain: Path, words: list[str], text: str) -> None:
    done = graphsde("evaluate", plain, *words)
    assert done.exit_code == 2 and text in done.stderr and "Traceback" not in done.output


def test_the_list_of_scores_tells_paper_year_and_direction() -> None:
    for row in answer("list", "scores"):
        assert row["paper"] and 1900 < row["year"] < 2030 and row["direction"] == "higher = more uncertain"
