"""calibrate and decide from the command line, as people and programs use them."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from cli_support import answer, graphsde


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("deciding") / "run"
    assert graphsde("fit", "digits", "--model", "gcn", "--out", out, "--set", "epochs=30").exit_code == 0
    return out


def test_decide_writes_a_row_per_node_and_keeps_its_promise(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "decisions.csv"
    found = answer("decide", run, "--max-error", "0.05", "--out", out, "--json")
    rows = list(csv.DictReader(out.open()))
    expected = "id label confidence total aleatoric epistemic ood_score prediction_set action reason"
    assert list(rows[0]) == expected.split() and len(rows) == 1797
    assert {row["action"] for row in rows} == {"accept", "review", "ood"} == set(found["actions"])
    assert sum(row["action"] == "accept" for row in rows) == found["actions"]["accept"]
    assert all(row["label"] in row["prediction_set"].split(" | ") for row in rows if row["action"] == "accept")
    assert found["upper_bound"] <= 0.05 and found["test"]["error"] <= 0.05
    assert found["calibration"]["nodes"] == 500 and found["test"]["nodes"] == 797

    words = graphsde("decide", run, "--max-error", "0.05", "--out", tmp_path / "again.parquet").stdout
    for part in (
        "guarantee:",
        "calibrated on 500 nodes",
        "exchangeab",
        "not for OOD",
        "false alarms",
        "797 test nodes",
    ):
        assert part in words
    assert pq.read_table(tmp_path / "again.parquet").num_rows == 1797


def test_decide_refuses_what_it_can_not_promise(run: Path, tmp_path: Path) -> None:
    small = graphsde("decide", run, "--out", tmp_path / "d.csv", "--calibration-size", "40")
    assert small.exit_code == 65 and "E-CAL-SMALL" in small.stderr and "59 are needed" in small.stderr
    assert not (tmp_path / "d.csv").exists()
    assert graphsde("decide", run, "--out", tmp_path / "d.txt").exit_code == 2
    assert graphsde("decide", run, "--out", tmp_path / "d.csv", "--max-error", "1.5").exit_code == 2
    wrong = graphsde("decide", run, "--out", tmp_path / "d.csv", "--sets-by", "apps")
    assert wrong.exit_code == 2 and "did you mean 'aps'" in wrong.stderr
    assert graphsde("decide", tmp_path / "nowhere", "--out", tmp_path / "d.csv").exit_code == 65


def test_names_can_not_become_formulas(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    folder = tmp_path / "graph"
    folder.mkdir()
    nodes = [f"=node{i},{['=SUM(A1)', '@risk'][i % 2]},{(i % 2) + 0.3 * rng.normal():.3f}" for i in range(300)]
    (folder / "nodes.csv").write_text("id,label,x\n" + "\n".join(nodes) + "\n")
    edges = [f"=node{i},=node{(i + 2) % 300}" for i in range(300)]
    (folder / "edges.csv").write_text("source,target\n" + "\n".join(edges) + "\n")
    assert graphsde("fit", folder, "--model", "label-propagation", "--out", tmp_path / "run").exit_code == 0
    words = ("decide", tmp_path / "run", "--max-error", "0.2", "--out", tmp_path / "d.csv")
    result = graphsde(*words)
    assert result.exit_code == 0, result.output
    for row in csv.DictReader((tmp_path / "d.csv").open()):
        assert not any(str(value).startswith(("=", "@", "+")) for value in row.values())


@pytest.mark.parametrize("by", ["temperature", "vector", "gats"])
def test_calibrate_rewrites_the_model_and_its_predictions(run: Path, by: str) -> None:
    plain = answer("calibrate", run, "--by", "none", "--json")["after"]
    before = pq.read_table(run / "predictions.parquet")["confidence"].to_numpy()
    found = answer("calibrate", run, "--by", by, "--json")
    assert found["before"] == plain and found["after"] != plain and found["calibrator"] == by
    after = pq.read_table(run / "predictions.parquet")["confidence"].to_numpy()
    assert not np.allclose(before, after)
    again = answer("evaluate", run, "--json")
    assert again["nll"] == found["after"]["nll"] and again["ece"] == found["after"]["ece"]
    last = json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])
    assert last["nll"] == found["after"]["nll"] and "fit_seconds" in last
    gone = answer("calibrate", run, "--by", "none", "--json")
    assert gone["after"] == plain and gone["calibrator"] is None


def test_calibrate_speaks(run: Path) -> None:
    assert "fitted on the validation nodes" in graphsde("calibrate", run).stdout
    wrong = graphsde("calibrate", run, "--by", "gatts")
    assert wrong.exit_code == 2 and "did you mean 'gats'" in wrong.stderr
    names = {row["name"] for row in answer("list", "calibrators", "--json")}
    assert names == {"temperature", "vector", "gats", "deviation", "diffusion"}
    assert {row["name"] for row in answer("list", "conformal", "--json")} == {"thr", "lac", "aps", "raps", "daps"}
