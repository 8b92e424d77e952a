"""A number to predict from the command line: what works, what is written, what is refused in one line."""

from __future__ import annotations

import itertools
import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import graphsde as gs
from cli_support import answer, graphsde

NUMBERS = ["rmse", "mae", "r2", "nll", "crps", "coverage90", "interval_width90", "calibration_error"]
KEYS = [*NUMBERS, "miscalibration_area", "ence", "spread_spearman", "n_test"]
COLUMNS = ["id", "mean", "total", "aleatoric", "epistemic", "low90", "high90"]
QUICK = {"gcn": "epochs=5", "lgnsde": "epochs=5", "graph-gp": "epochs=3", "ensemble": "members=2"}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    place = tmp_path_factory.mktemp("numeric")
    made = {}
    for model, setting in QUICK.items():
        more = ("--set", "base_settings.epochs=3") if model == "ensemble" else ()
        made[model] = place / model
        result = graphsde("fit", "diabetes", "--model", model, "--out", made[model], "--set", setting, *more)
        assert result.exit_code == 0, result.output
        assert "rmse" in result.stdout and "accuracy" not in result.stdout
    return made


@pytest.mark.parametrize("model", list(QUICK))
def test_evaluate_gives_the_figures_of_numbers(runs: dict[str, Path], model: str) -> None:
    figures = answer("evaluate", runs[model], "--json")
    assert [key for key in figures if key not in ("run", "model", "graph", "intervals")] == KEYS
    assert [*figures["intervals"], "n_test"] == KEYS
    assert figures["n_test"] == 155 and 0 < figures["coverage90"] <= 1
    table = graphsde("evaluate", runs[model]).stdout
    assert "density" in table and "true class" not in table


@pytest.mark.parametrize("model", list(QUICK))
def test_predictions_have_intervals(runs: dict[str, Path], model: str, tmp_path: Path) -> None:
    table = pq.read_table(runs[model] / "predictions.parquet")
    assert table.column_names == [*COLUMNS, "true_value", "split"] and table.num_rows == 442
    columns = {name: table[name].to_numpy(zero_copy_only=False) for name in COLUMNS}
    assert (columns["low90"] < columns["mean"]).all() and (columns["mean"] < columns["high90"]).all()
    if model == "gcn":
        assert table["epistemic"].null_count == 442  # a deterministic model has no notion of it
    else:
        np.testing.assert_allclose(columns["total"], columns["aleatoric"] + columns["epistemic"])
    assert graphsde("predict", runs[model], "--out", tmp_path / "p.csv").exit_code == 0
    assert (tmp_path / "p.csv").read_text().startswith('"id","mean","total"')


@pytest.mark.parametrize("model", list(QUICK))
def test_the_report_speaks_of_numbers_alone(runs: dict[str, Path], model: str, tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    assert graphsde("report", runs[model], "--out", out).exit_code == 0
    page = out.read_text(encoding="utf-8").split("<script>")[0]
    assert "On 155 test nodes the prediction is off by" in page and "90 % interval" in page
    assert 'data-metric="crps"' in page and 'id="figure-quantiles"' in page
    for word in ("ccuracy", "AURC", "entropy", "Confidence", "true class", "classes"):
        assert word not in page, word
    assert ('id="figure-scatter"' in page) == (model != "gcn")


def test_check_and_ask(runs: dict[str, Path]) -> None:
    assert answer("check", "diabetes", "--json")["facts"]["target"]["known"] == 442
    asked = answer("ask", runs["lgnsde"], "--budget", 3, "--json")
    assert len(asked["questions"]) == 3


def test_ask_then_learn(runs: dict[str, Path], tmp_path: Path) -> None:
    run = Path(shutil.copytree(runs["gcn"], tmp_path / "run"))
    asked = graphsde("ask", run, "--budget", 2, "--out", tmp_path / "q.csv")
    assert f"graphsde learn {run}" in asked.stdout
    truth = gs.load("diabetes").values
    assert truth is not None
    rows = (tmp_path / "q.csv").read_text().splitlines()[1:]
    answers = [f"{row.split(',')[0]},{truth[int(row.split(',')[0])]}" for row in rows]
    (tmp_path / "a.csv").write_text("\n".join(["id,label", *answers]) + "\n")
    told = graphsde("learn", run, tmp_path / "a.csv", "--test-labels", "--epochs", 3)
    assert told.exit_code == 0, told.output
    assert "Round 1: 2 new labels" in told.stdout and "rmse" in told.stdout and "moved by" in told.stdout
    assert "entropy" not in told.stdout and "class" not in told.stdout


def test_calibrate_and_decide(runs: dict[str, Path], tmp_path: Path) -> None:
    run = Path(shutil.copytree(runs["lgnsde"], tmp_path / "run"))
    told = answer("calibrate", run, "--json")
    assert told["calibrator"] == "deviation" and told["after"]["coverage90"] > 0
    assert "crps" in graphsde("calibrate", run).stdout
    out = tmp_path / "decisions.csv"
    found = answer("decide", run, "--tolerance", 120, "--max-error", 0.2, "--out", out, "--json")
    assert found["tolerance"] == 120 and found["calibration"]["nodes"] == 155 == found["test"]["nodes"]
    assert found["actions"]["accept"] > 0 and found["upper_bound"] <= 0.2
    head, *rows = out.read_text().splitlines()
    assert head == '"id","split","mean","low","high","total","aleatoric","epistemic","chance_beyond","action","reason"'
    assert len(rows) == 442 and sum('"accept"' in row for row in rows) == found["actions"]["accept"]
    words = graphsde("decide", run, "--tolerance", 120, "--max-error", 0.2, "--out", out).stdout
    assert "is off by more than 120" in words and "intervals cover" in words and "Rule per-node" not in words
    for more in ([], ["--tolerance", 120, "--by", "entropy"], ["--tolerance", -3]):
        refused = graphsde("decide", run, "--out", out, *more)
        assert refused.exit_code == 2 and refused.stderr.count("\n") == 1, refused.output
    wrong = graphsde("calibrate", run, "--by", "gats")
    assert wrong.exit_code == 2 and "one of deviation" in wrong.stderr


@pytest.mark.parametrize("model", list(QUICK))
def test_explain_a_number(runs: dict[str, Path], model: str, tmp_path: Path) -> None:
    picture = tmp_path / "why.png"
    found = answer("explain", runs[model], 7, "--neighbours", 2, "--features", 3, "--out", picture, "--json")
    table = pq.read_table(runs[model] / "predictions.parquet").to_pydict()
    assert found["mean"] == pytest.approx(table["mean"][7], rel=1e-6)
    assert found["deviation"] == pytest.approx(table["total"][7] ** 0.5, rel=1e-6)
    assert len(found["neighbours"]) == 2 and picture.stat().st_size > 5000
    assert len(found["features"]) == (0 if model == "graph-gp" else 3)  # the process looks at no features
    assert (found["epistemic"] is None) == (model == "gcn")
    words = graphsde("explain", runs[model], 7, "--neighbours", 2).stdout
    assert " ± " in words and "moves the mean" in words and "entropy" not in words


def test_a_users_folder_from_tables_to_report(tmp_path: Path) -> None:
    folder = tmp_path / "houses"
    folder.mkdir()
    rng = np.random.default_rng(0)
    size = rng.uniform(20, 200, 80)
    price = [f"{3 * one + rng.normal(0, 20):.2f}" if row % 8 else "" for row, one in enumerate(size)]
    rows = [f"house-{row},{size[row]:.1f},{price[row]}" for row in range(80)]
    (folder / "nodes.csv").write_text("id,size,price\n" + "\n".join(rows) + "\n")
    order = np.argsort(size)
    links = [f"house-{a},house-{b}" for a, b in itertools.pairwise(order)]
    (folder / "edges.csv").write_text("source,target\n" + "\n".join(links) + "\n")
    (folder / "graph.yaml").write_text("label: price\ntarget: numeric\n")
    run = tmp_path / "run"
    made = answer("fit", folder, "--model", "graph-gp", "--out", run, "--set", "epochs=30", "--json")
    assert made["n_test"] == 17 and made["r2"] > 0.5
    assert graphsde("report", run).exit_code == 0
    assert pq.read_table(run / "predictions.parquet")["true_value"].null_count == 10
    facts = json.loads((run / "graph.json").read_text())
    assert facts["target"] == "regression" and facts["classes"] == []


@pytest.mark.parametrize(
    "words",
    [
        ("fit", "diabetes", "--model", "gat", "--out", "OUT"),
        ("fit", "diabetes", "--model", "gcn", "--split", "shchur", "--out", "OUT"),
        ("bench", "misclassification", "--datasets", "diabetes", "--models", "gcn", "--out", "OUT"),
        ("bench", "regression", "--datasets", "digits", "--models", "gcn", "--out", "OUT"),
        ("bench", "regression", "--datasets", "diabetes", "--models", "mlp", "--out", "OUT"),
        ("evaluate", "RUN", "--shift", "interpolate-features", "--score", "entropy"),
    ],
)
def test_what_goes_by_classes_is_refused_in_one_line(
    runs: dict[str, Path], words: tuple[str, ...], tmp_path: Path
) -> None:
    places = {"RUN": runs["lgnsde"], "OUT": tmp_path / "out"}
    result = graphsde(*[places.get(word, word) for word in words])
    assert result.exit_code == 2, result.output
    assert result.stderr.startswith("E-TARGET: ") and result.stderr.count("\n") == 1


def test_theory_shifts_and_scores_work_on_numbers(runs: dict[str, Path]) -> None:
    told = answer("theory", runs["lgnsde"], "--samples", "4", "--json")
    assert told["model"] == "lgnsde" and told["l_f"] > 0
    assert told["proposition_1"]["left"] > 0 and told["proposition_1"]["left_probabilities"] is None
    asked = ("evaluate", runs["lgnsde"], "--shift", "gaussian-noise", "--score", "total,epistemic", "--json")
    shift = answer(*asked)["shift"]
    assert list(shift["scores"]) == ["total", "epistemic"] and 0 <= shift["scores"]["total"]["ood_auroc"] <= 1
    result = graphsde("evaluate", runs["gcn"], "--shift", "gaussian-noise", "--score", "energy")
    assert result.exit_code == 2 and "E-TARGET" in result.stderr and "use one of total, epistemic" in result.stderr


def test_a_bench_of_numbers(tmp_path: Path) -> None:
    told = answer(
        *("bench", "regression", "--datasets", "diabetes", "--models", "gcn", "--seeds", "2", "--engine", "serial"),
        *("--set", "epochs=3", "--option", "split=fractions", "--out", tmp_path / "bench", "--json"),
    )
    assert told["done"] == 2 and not told["failed"]
    assert {"rmse", "crps", "coverage90", "val_nll"} <= {row["metric"] for row in told["rows"]}


def test_the_figures_of_a_report_on_numbers_are_written(runs: dict[str, Path], tmp_path: Path) -> None:
    result = graphsde("report", runs["lgnsde"], "--out", tmp_path / "report.html", "--figures", tmp_path / "figures")
    assert result.exit_code == 0, result.output
    names = {path.stem for path in (tmp_path / "figures").glob("*.png")}
    assert {"fit", "quantiles", "keeping", "scatter", "training"} <= names
