"""What verbs must not do: lose work, change their reading of a graph, or mislead a program about how they ended."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow.csv as pa_csv
import pytest

import graphsde as gs
from cli_support import answer, graphsde
from graphsde.base.errors import BadInput
from graphsde.runs.new_labels import GivenLabels

from support import as_before_guards, block_graph


@pytest.fixture(scope="module")
def blocks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data") / "blocks"
    gs.write_tables(block_graph(), folder)
    return folder


@pytest.fixture(scope="module")
def fitted(blocks: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "directed"
    answer(
        "fit", blocks, "--out", out, "--read", "directed=true", "--preset", "universal", "--set", "epochs=10", "--json"
    )
    return out


@pytest.fixture
def learned(blocks: Path, tmp_path: Path) -> Path:
    out = tmp_path / "run"
    quick = ["--set", "epochs=3", "--set", "hidden=4"]
    answer("fit", blocks, "--model", "gcn", "--out", out, *quick, "--json")
    (tmp_path / "new.csv").write_text("id,label\n8,class 0\n9,class 0\n")
    answer("learn", out, tmp_path / "new.csv", "--test-labels", "--json")
    return out


def test_a_demo_never_replaces_a_run_of_yours(learned: Path) -> None:
    before = (learned / "labels.json").read_bytes()
    refused = graphsde("demo", "--out", learned, "--model", "gcn")
    assert refused.exit_code == 2 and "E-RUN-EXISTS" in refused.stderr
    assert (learned / "labels.json").read_bytes() == before and (learned / "history").is_dir()


def test_labels_outlive_a_run_that_is_replaced(learned: Path, blocks: Path) -> None:
    words = ["--model", "gcn", "--set", "epochs=2", "--overwrite"]
    told = graphsde("fit", blocks, "--out", learned, *words)
    assert told.exit_code == 0 and "had learned 2 labels; they are kept in" in told.stderr
    kept = GivenLabels.read(learned / "replaced-labels.csv")
    assert (kept.ids, kept.names) == ([8, 9], ["class 0", "class 0"])
    assert "had learned" not in graphsde("fit", blocks, "--out", learned, *words).stderr


def test_damaged_labels_do_not_keep_a_run_from_being_replaced(learned: Path, blocks: Path) -> None:
    (learned / "labels.json").write_text("{")
    (learned / "replaced-labels.json").write_text("of an earlier day")
    told = graphsde("fit", blocks, "--out", learned, "--model", "gcn", "--set", "epochs=2", "--overwrite")
    assert told.exit_code == 0 and "replaced-labels-2.json" in told.stderr
    assert (learned / "replaced-labels-2.json").read_text() == "{"
    assert (learned / "replaced-labels.json").read_text() == "of an earlier day"


def test_a_run_with_options_of_a_benchmark_still_opens(tmp_path: Path) -> None:
    quick = ["--model", "label-propagation", "--out", tmp_path / "run"]
    answer("fit", "digits", *quick, "--json")
    as_before_guards(tmp_path / "run")
    config = (tmp_path / "run" / "config.yaml").read_text()
    (tmp_path / "run" / "config.yaml").write_text(config.replace("options: {}", "options: {impute: mean}", 1))
    assert answer("evaluate", tmp_path / "run", "--json")["n_test"] == 1297
    refused = graphsde("fit", "digits", *quick[:2], "--out", tmp_path / "other", "--read", "impute=mean")
    assert refused.exit_code == 2 and "is a benchmark" in refused.stderr
    again = graphsde("demo", "--out", tmp_path / "run", "--model", "label-propagation")
    assert again.exit_code == 2 and "holds another run" in again.stderr  # of the same graph, but not a demo's


def test_a_graph_is_read_as_the_run_read_its_own(fitted: Path, blocks: Path, tmp_path: Path) -> None:
    def probabilities(*words: object) -> list[float]:
        assert graphsde("predict", fitted, "--out", tmp_path / "p.csv", *words).exit_code == 0
        return pa_csv.read_csv(tmp_path / "p.csv").to_pydict()["p:class 0"]

    own = probabilities()
    assert probabilities("--graph", blocks) == own
    assert probabilities("--graph", blocks, "--read", "directed=false") != own
    refused = graphsde("predict", fitted, "--out", tmp_path / "p.csv", "--read", "directed=false")
    assert refused.exit_code == 2 and "--read only applies to another graph" in refused.stderr


def test_options_of_reading_are_refused_for_a_benchmark() -> None:
    for option in ("nonsense=1", "directed=true"):
        refused = graphsde("check", "digits", "--read", option)
        assert refused.exit_code == 2 and "is a benchmark" in refused.stderr


def test_what_can_be_read_can_be_checked(tmp_path: Path) -> None:
    graph = block_graph()
    gs.write_tables(gs.from_arrays(graph.features, graph.adjacency.edge_index()), tmp_path / "bare")
    found = answer("check", tmp_path / "bare", "--json")["findings"]
    assert [one["level"] for one in found if one["code"] == "E-NO-LABELS"] == ["problem"]


@pytest.mark.parametrize("words", [("list", "models"), ("list", "metrics")])
def test_a_reader_that_has_seen_enough_is_no_failure(words: tuple[str, ...]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "graphsde", *words], stdout=writing, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(writing)
    assert done.returncode == 0 and done.stderr == ""


def test_explain_speaks_of_the_prediction_that_the_run_has(fitted: Path) -> None:
    import pyarrow.parquet as pq

    table = pq.read_table(fitted / "predictions.parquet").to_pydict()
    row = max(range(30), key=lambda node: table["total"][node])
    found = answer("explain", fitted, table["id"][row], "--neighbours", 1, "--features", 1, "--json")
    assert found["predicted"] == table["label"][row] and found["samples"] == 64
    assert found["entropy"] == pytest.approx(table["total"][row], rel=1e-6)


def test_a_pair_by_plain_names(tmp_path: Path) -> None:
    quick = ["--seeds", 2, "--engine", "serial", "--set", "epochs=2", "--set", "early_stop=false"]
    answer(
        "bench", "misclassification", "--datasets", "digits", "--models", "gcn,mlp", *quick, "--out", tmp_path, "--json"
    )
    found = answer("compare", tmp_path, "--pair", "gcn,mlp", "--metric", "accuracy", "--json")
    assert found[0]["n"] == 2
    refused = graphsde("compare", tmp_path, "--pair", "gcn,mlpp")
    assert refused.exit_code == 2 and "gcn[" in refused.stderr
    assert graphsde("compare", tmp_path, "--metric", "nope").exit_code == 2


def test_an_id_that_may_mean_two_nodes_is_refused(tmp_path: Path) -> None:
    graph = block_graph()
    names = [f"n{row}" for row in range(30)]
    names[8], names[9] = "=x", "'=x"
    twin = gs.from_arrays(
        graph.features, graph.adjacency.edge_index(), labels=graph.labels, class_names=graph.class_names,
        node_ids=names, train_mask=graph.train_mask, val_mask=graph.val_mask, test_mask=graph.test_mask,
    )  # fmt: skip
    gs.write_tables(twin, tmp_path / "twin")
    answer("fit", tmp_path / "twin", "--model", "gcn", "--out", tmp_path / "run", "--set", "epochs=2", "--json")
    (tmp_path / "new.csv").write_text("id,label\n'=x,class 0\n")
    refused = graphsde("learn", tmp_path / "run", tmp_path / "new.csv")
    assert refused.exit_code == 65 and "matches two nodes" in refused.stderr


def test_what_is_suggested_is_a_slip_of_the_pen(tmp_path: Path, blocks: Path) -> None:
    shutil.copytree(blocks, tmp_path / "half")
    table = next((tmp_path / "half").glob("edges.*"))
    table.unlink()
    told = graphsde("check", tmp_path / "half").stderr
    assert "Fix: add the file." in told and "did you mean" not in told
    (tmp_path / "half" / "edge.csv").write_text("source,target\n")
    assert "Fix: did you mean 'edge.csv'?\n" in graphsde("check", tmp_path / "half").stderr
    assert "did you mean 'lgnsde'?\n" in graphsde("fit", blocks, "--model", "lgsde", "--out", tmp_path / "o").stderr


@pytest.mark.parametrize("words", [["check", ""], ["fit", "", "--out", "run"]])
def test_an_empty_path_is_not_the_current_folder(
    blocks: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    monkeypatch.chdir(blocks)  # where there is a graph that would be read
    refused = graphsde(*words)
    assert refused.exit_code == 65 and "E-NOT-A-FILE" in refused.stderr and "the path is empty" in refused.stderr
    assert graphsde("check", ".").exit_code == 0
    assert not (blocks / "run").exists()


def test_an_empty_path_of_another_graph(fitted: Path, blocks: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(blocks)
    refused = graphsde("predict", fitted, "--graph", "", "--out", fitted.parent / "out.csv")
    assert refused.exit_code == 65 and "the path is empty" in refused.stderr
    with pytest.raises(BadInput, match="the path is empty"):
        gs.read("")


@pytest.mark.parametrize(
    "verb",
    [
        ["predict", "--out", "out.csv"],
        ["decide", "--out", "out.csv"],
        ["evaluate"],
        ["calibrate"],
        ["report"],
        ["ask"],
        ["theory"],
        ["explain", "3"],
    ],
    ids=lambda verb: verb[0],
)
def test_more_samples_than_memory_holds(
    fitted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    name, *rest = verb
    refused = graphsde(name, fitted, *rest, "--samples", 10**12)
    assert refused.exit_code == 71, refused.output
    assert "E-MEM" in refused.stderr
    assert not list(tmp_path.iterdir())
