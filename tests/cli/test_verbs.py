"""The command line as people and programs use it."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import graphsde as gs
from cli_support import answer, graphsde
from graphsde.cli.app import app
from graphsde.runs.folder import RunFolder
from warm_process import start

from support import block_graph, needs_real_data


def write_shop(folder: Path, nodes: int = 60) -> Path:
    """Two CSV files as a practitioner has them: text ids and labels, a number, a category, some labels missing."""
    folder.mkdir()
    kinds = ["book", "toy", "tool"]
    rows = ["id,label,price,colour"]
    for i in range(nodes):
        label = "" if i % 7 == 6 else kinds[i % 3]
        rows.append(f"item-{i},{label},{(i % 3) * 10 + i % 5}.5,{['red', 'green', ''][i % 3] if i % 4 else 'blue'}")
    links = ["source,target"]
    links += [f"item-{i},item-{(i + step) % nodes}" for i in range(nodes) for step in (3, 6)]
    (folder / "nodes.csv").write_text("\n".join(rows) + "\n")
    (folder / "edges.csv").write_text("\n".join(links) + "\n")
    return folder


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_shop(tmp_path_factory.mktemp("data") / "shop")


@pytest.fixture(scope="module")
def run(shop: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "first"
    result = graphsde("fit", shop, "--out", out, "--set", "epochs=20")
    assert result.exit_code == 0, result.output
    assert "epochs" in result.stderr and "memory" in result.stderr
    return out


def test_check_speaks_plain_words_and_json(shop: Path) -> None:
    words = graphsde("check", shop).stdout
    assert "60 nodes" in words and "8 nodes unlabelled" in words
    report = answer("check", shop, "--json")
    assert {f["code"] for f in report["findings"]} >= {"W-SYMMETRISED"}


def test_all_epochs_of_every_member(shop: Path, tmp_path: Path) -> None:
    small = ["--set", "members=2", "--set", 'base_settings={"epochs": 4, "hidden": 3}']
    answer("fit", shop, "--model", "ensemble", *small, "--out", tmp_path / "run", "--no-early-stop", "--json")
    model = gs.load_model(tmp_path / "run")
    assert model.settings.base_settings["early_stop"] is False and model.settings.base_settings["hidden"] == 3
    refused = graphsde("fit", shop, "--model", "label-propagation", "--out", tmp_path / "lp", "--no-early-stop")
    assert refused.exit_code == 2 and "leave --no-early-stop out" in refused.stderr


def test_fit_evaluate_predict_report(shop: Path, run: Path, tmp_path: Path) -> None:
    metrics = answer("evaluate", run, "--json")
    for name in ("accuracy", "micro_auroc", "misclassification_auroc", "aurc", "nll", "ece", "brier", "n_test"):
        assert name in metrics
    assert "accuracy" in graphsde("evaluate", run).stdout

    table = tmp_path / "out.csv"
    assert graphsde("predict", run, "--out", table).exit_code == 0
    columns = pa_csv.read_csv(table).to_pydict()
    assert columns["id"][:2] == ["item-0", "item-1"] and set(columns["label"]) <= {"book", "toy", "tool"}
    assert "p:toy" in columns and len(columns["id"]) == 60

    assert graphsde("report", run).exit_code == 0
    page = (run / "report.html").read_text()
    assert "item-" in page and "<script" in page


def test_predict_on_a_new_file_with_the_same_columns(run: Path, tmp_path: Path) -> None:
    larger = write_shop(tmp_path / "larger", nodes=75)
    out = tmp_path / "new.parquet"
    assert graphsde("predict", run, "--graph", larger, "--out", out).exit_code == 0
    assert pq.read_table(out).num_rows == 75


def test_predict_on_other_columns_is_refused(run: Path, tmp_path: Path) -> None:
    other = write_shop(tmp_path / "other")
    nodes = other / "nodes.csv"
    nodes.write_text(nodes.read_text().replace("price", "weight", 1))
    result = graphsde("predict", run, "--graph", other, "--out", tmp_path / "x.csv")
    assert result.exit_code == 65 and "E-SCHEMA" in result.stderr and "missing: price" in result.stderr
    assert not (tmp_path / "x.csv").exists()


def test_a_spreadsheet_formula_is_defused_in_csv_only(tmp_path: Path) -> None:
    graph = block_graph()
    ids = [f"=cmd({i})" for i in range(30)]
    named = gs.from_arrays(
        graph.features, graph.adjacency.matrix, labels=graph.labels, node_ids=ids, class_names=["+a", "-b", "@c"],
        train_mask=graph.train_mask, val_mask=graph.val_mask, test_mask=graph.test_mask,
    )  # fmt: skip
    gs.write_tables(named, tmp_path / "graph")
    out = tmp_path / "run"
    assert graphsde("fit", tmp_path / "graph", "--out", out, "--set", "epochs=3").exit_code == 0
    assert pq.read_table(out / "predictions.parquet").column("id")[0].as_py() == "=cmd(0)"
    assert graphsde("predict", out, "--out", tmp_path / "p.csv").exit_code == 0
    cells = pa_csv.read_csv(tmp_path / "p.csv").to_pydict()
    assert cells["id"][0] == "'=cmd(0)" and set(cells["label"]) <= {"'+a", "'-b", "'@c"}


def test_fit_again_says_so_and_another_fit_is_refused(shop: Path, run: Path) -> None:
    again = graphsde("fit", shop, "--out", run, "--set", "epochs=20")
    assert again.exit_code == 0 and "nothing to do" in again.stderr
    other = graphsde("fit", shop, "--out", run, "--set", "epochs=21")
    assert other.exit_code == 2 and "epochs: 20 then, 21 now" in other.stderr


@pytest.mark.parametrize(
    "kind", ["models", "drifts", "priors", "diffusions", "solvers", "scores", "metrics", "datasets", "splits", "shifts"]
)
def test_lists(kind: str) -> None:
    rows = answer("list", kind, "--json")
    assert len(rows) >= 3 and all(row["name"] and row["summary"] for row in rows)
    assert rows[0]["name"] in graphsde("list", kind).stdout


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["list", "model"], 2, "did you mean 'models'"),
        (["fit", "coraa", "--out", "x"], 65, "neither a benchmark nor a path"),
        (["fit", "digits", "--model", "gccn", "--out", "x"], 2, "did you mean 'gcn'"),
        (["fit", "digits", "--out", "x", "--set", "hiden=3"], 2, "did you mean 'hidden'"),
        (["fit", "digits", "--out", "x", "--set", "hidden"], 2, "key=value"),
        (["fit", "digits", "--out", "x", "--split", "fraction"], 2, "did you mean 'fractions'"),
        (["fit", "digits", "--out", "x", "--split", "planetoid"], 2, "shchur"),
        (["fit", "digits", "--out", "x", "--seed", "-1"], 2, "seed"),
        (["evaluate", "nowhere"], 65, "no run in"),
        (["predict", "nowhere", "--out", "x.csv"], 65, "no run in"),
        (["fit", "digits"], 2, "--out"),
        (["fly"], 2, "No such command"),
    ],
)
def test_wrong_usage_is_answered_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], code: int, text: str
) -> None:
    monkeypatch.chdir(tmp_path)  # a refused fit may leave the lock of its folder
    done = CliRunner().invoke(app, words, env={"COLUMNS": "200"})
    assert done.exit_code == code, done.output
    assert text in done.stderr and "Traceback" not in done.output


def test_an_unwritable_place_is_exit_code_74(run: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = graphsde("predict", run, "--out", tmp_path / "file" / "x.csv")
    assert result.exit_code == 74 and "E-IO" in result.stderr


def test_too_little_memory_is_exit_code_71(shop: Path, tmp_path: Path) -> None:
    result = graphsde("fit", shop, "--out", tmp_path / "r", "--set", "hidden=60000", env={"GRAPHSDE_MEMORY_LIMIT": "1"})
    assert result.exit_code == 71 and "E-MEM" in result.stderr


def test_an_internal_fault_is_one_line_and_exit_code_70(monkeypatch: pytest.MonkeyPatch) -> None:
    from graphsde.datasets import source

    def fault(*args: object, **options: object) -> None:
        raise ZeroDivisionError("\x1b[31mred")

    monkeypatch.setattr(source, "open_graph", fault)
    result = graphsde("check", "digits")
    assert result.exit_code == 70 and "bug in graphsde" in result.stderr and "\x1b" not in result.stderr


def test_doctor_examines_machine_and_run(run: Path) -> None:
    facts = answer("doctor", run, "--json")
    assert facts["run"]["problems"] == [] and facts["run"]["finished"]
    assert "digits" in facts["datasets"]
    (run / "model.safetensors").rename(run / "away")
    try:
        broken = graphsde("doctor", run, "--json")
        assert broken.exit_code == 65 and "model.safetensors is missing" in broken.stdout
    finally:
        (run / "away").rename(run / "model.safetensors")


def test_version() -> None:
    assert graphsde("--version").stdout.strip() == f"graphsde {gs.__version__}"


def test_demo_writes_a_report_and_shows_uncertain_images(tmp_path: Path) -> None:
    result = graphsde("demo", "--out", tmp_path / "demo", "--model", "label-propagation")
    assert result.exit_code == 0, result.output
    assert "least certain" in result.stdout and str(tmp_path / "demo" / "report.html") in result.stdout.replace(
        "\n", ""
    )
    assert (tmp_path / "demo" / "report.html").stat().st_size > 1_000_000


TELLS_WHEN_IT_LISTENS = """
import os, pathlib
from graphsde.base.interrupt import InterruptGuard
enter = InterruptGuard.__enter__

def entered(self):
    try:
        return enter(self)
    finally:
        pathlib.Path(os.environ["LISTENING"]).touch()

InterruptGuard.__enter__ = entered
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_ends_a_fit_with_its_code_and_a_way_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, code: int
) -> None:
    out = tmp_path / "run"
    command = ["-m", "graphsde", "fit", "digits", "--out", out]
    command += ["--set", "epochs=100000", "--set", "patience=100000"]
    (tmp_path / "tells.py").write_text(TELLS_WHEN_IT_LISTENS)
    monkeypatch.syspath_prepend(str(tmp_path))
    fit = start(*command, folder=tmp_path, GRAPHSDE_PLUGINS="tells", LISTENING=str(tmp_path / "listening"))
    deadline = time.monotonic() + 600
    while not (tmp_path / "listening").exists() and fit.process.is_alive() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert fit.process.pid is not None and fit.process.is_alive(), fit.errors.read_text()
    os.kill(fit.process.pid, number)
    assert fit.ended() == code
    words = fit.errors.read_text()
    assert "same command again" in words and "Traceback" not in words
    assert RunFolder(out).work.checkpoint.path.exists()


@needs_real_data
def test_cora_from_the_command_line(tmp_path: Path) -> None:
    out = tmp_path / "run"
    words = ("fit", "cora", "--model", "gcn", "--split", "planetoid", "--seed", 0, "--out", out, "--json")
    assert answer(*words)["n_test"] == 1000
    assert answer("evaluate", out, "--json")["accuracy"] > 0.79


@needs_real_data
def test_foreign_nodes_from_the_command_line(tmp_path: Path) -> None:
    out = tmp_path / "run"
    answer("fit", "cora", "--split", "label-leave-out", "--out", out, "--json")
    metrics = answer("evaluate", out, "--json")
    assert (metrics["n_id"], metrics["n_ood"]) == (316, 986)
    assert metrics["ood_auroc"] > 0.85 and "ood_auroc_propagated" in metrics and "ood_fpr95" in metrics
