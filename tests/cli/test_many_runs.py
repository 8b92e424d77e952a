"""bench, compare, reproduce and search from the command line, on the embedded graph."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from cli_support import answer, graphsde
from graphsde.base.lock import exclusive
from graphsde.bench.cells import Cell
from graphsde.bench.search import Trial, best_trial, read_settings, read_trials, settings_of, space_of
from graphsde.io.write import write_tables
from graphsde.models.files import load_model

from support import block_graph

KEYS = {"dataset", "model", "metric", "mean", "std", "n", "ci_low", "ci_high", "rank", "verdict"}


@pytest.fixture(scope="module")
def bench_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("bench") / "out"
    words = ["bench", "misclassification", "--datasets", "digits", "--models", "gcn,mlp", "--seeds", "3"]
    found = answer(*words, "--engine", "serial", "--set", "epochs=3", "--out", out, "--json")
    assert (found["done"], found["skipped"], found["failed"]) == (6, 0, {})
    return out


def test_compare_gives_rows_with_verdicts(bench_folder: Path, tmp_path: Path) -> None:
    rows = answer("compare", bench_folder, "--json")
    assert set(rows[0]) >= KEYS
    assert {row["metric"] for row in rows} == {"accuracy", "micro_auroc", "aurc", "nll", "ece"}
    assert all(row["n"] == 3 and row["ci_low"] <= row["mean"] <= row["ci_high"] for row in rows)
    (only,) = [row for row in answer("compare", bench_folder, "--metric", "prr", "--json") if row["rank"] == 1]
    assert only["verdict"] in ("best", "tied")
    table = tmp_path / "rows.csv"
    shown = graphsde("compare", bench_folder, "--out", table, "--diagram", tmp_path / "cd.png")
    assert shown.exit_code == 0 and "tied" in shown.stdout and " ± " in shown.stdout, shown.output
    assert table.read_text().startswith('"dataset"') and (tmp_path / "cd.png").stat().st_size > 5000


def test_compare_prints_all_tests_of_a_pair(bench_folder: Path) -> None:
    labels = {row["model"] for row in answer("compare", bench_folder, "--json")}
    found = answer("compare", bench_folder, "--metric", "accuracy", "--pair", ",".join(sorted(labels)), "--json")
    assert found[0]["n"] == 3 and 0 <= found[0]["p_t"] <= 1 and found[0]["p_permutation"] is None
    wrong = graphsde("compare", bench_folder, "--pair", "gcn,nobody")
    assert wrong.exit_code == 2 and "two of" in wrong.output
    strange = graphsde("compare", bench_folder, "--metric", "accuracy", "--metric", "nosuch")
    assert strange.exit_code == 2 and "nosuch" in strange.output


def test_a_pair_may_have_commas_in_its_names_and_be_missing_on_a_graph(bench_folder: Path, tmp_path: Path) -> None:
    shutil.copytree(bench_folder, tmp_path / "b")
    words = ["bench", "misclassification", "--models", "gcn", "--engine", "serial", "--seeds", "1", "--out"]
    more = ["--set", "epochs=3", "--set", "hidden=5"]
    assert graphsde(*words, tmp_path / "b", "--datasets", "synthetic:200", *more).exit_code == 0
    assert graphsde(*words, tmp_path / "b", "--datasets", "digits", *more).exit_code == 0
    pair = "gcn[epochs=3,hidden=5],gcn[epochs=3]"
    found = answer("compare", tmp_path / "b", "--metric", "accuracy", "--pair", pair, "--json")
    assert {row["dataset"]: row["n"] for row in found} == {"digits": 1, "synthetic:200": 0}


def test_a_damaged_line_is_told_wherever_the_table_is_read(bench_folder: Path, tmp_path: Path) -> None:
    shutil.copytree(bench_folder, tmp_path / "b")
    journal = tmp_path / "b" / "journal.jsonl"
    journal.write_bytes(journal.read_bytes().replace(b"digits", b"digitz", 1))
    result = graphsde("compare", tmp_path / "b", "--json")
    assert result.exit_code == 0 and "line 1 of the journal is damaged" in result.stderr
    assert {row["n"] for row in json.loads(result.stdout)} == {2, 3}


def test_compare_without_a_bench(tmp_path: Path) -> None:
    result = graphsde("compare", tmp_path)
    assert result.exit_code == 65 and "no bench" in result.output


def test_reproduce_prints_ours_beside_the_paper(tmp_path: Path) -> None:
    words = ["reproduce", "standard", "--datasets", "digits", "--models", "gcn", "--seeds", "1", "--out", tmp_path]
    rows = answer(*words, "--engine", "serial", "--json")
    assert {row["metric"] for row in rows} > {"auroc", "aurc", "accuracy", "nll", "ece"}
    assert all(row["n"] == 1 and row["printed"] is None for row in rows)  # the paper knows no digits
    folder = tmp_path / "standard"
    assert "gcn" in (folder / "table.md").read_text() and (folder / "table.csv").is_file()
    assert answer(*words, "--show", "--json") == rows
    assert graphsde("reproduce", "standart").exit_code == 2
    wrong = graphsde("reproduce", "standard", "--models", "gnc", "--datasets", "digits", "--out", tmp_path / "other")
    assert wrong.exit_code == 2 and "gnc" in wrong.output and not (tmp_path / "other").exists()


def test_reproduce_runs_failed_cells_again_and_keeps_whole_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    graph = block_graph(per_class=20)
    write_tables(graph, tmp_path / "g")
    words = ["reproduce", "standard", "--datasets", "g", "--models", "gcn", "--seeds", "1", "--out", tmp_path / "r"]
    first = answer(*words, "--engine", "serial", "--cell-minutes", "1e-6", "--json")
    assert first[0]["failed"] == 1
    again = answer(*words, "--engine", "serial", "--retry-failed", "--json")
    assert again[0]["failed"] == 0 and again[0]["n"] == 1
    assert again[0]["dataset"] == str(tmp_path / "g")


def test_a_search_is_not_gone_on_with_as_another_one(tmp_path: Path) -> None:
    pytest.importorskip("optuna", reason="the extra 'cluster' is not installed")
    words = ["search", "--models", "gcn", "--engine", "serial", "--trials", "1", "--out", tmp_path / "s"]
    for name in ("a", "b"):
        write_tables(block_graph(per_class=20, seed=ord(name)), tmp_path / name / "g")
    assert graphsde(*words, "--datasets", tmp_path / "a" / "g", "--configs", tmp_path / "c").exit_code == 0
    for change, word in (
        (["--select", "accuracy"], "select: nll then, accuracy now"),
        (["--seed", "3"], "seed: 0 then, 3 now"),
        (["--sampler", "tpe"], "sampler"),
    ):
        refused = graphsde(*words, "--datasets", tmp_path / "a" / "g", *change)
        assert refused.exit_code == 2 and word in refused.output
    other = graphsde(*words, "--datasets", tmp_path / "b" / "g")
    assert other.exit_code == 2 and "dataset" in other.output
    both = graphsde(*words, "--datasets", f"{tmp_path / 'a' / 'g'},{tmp_path / 'b' / 'g'}")
    assert both.exit_code == 2 and "same name" in both.output
    bench = ["bench", "misclassification", "--models", "gcn", "--configs", tmp_path / "c", "--engine", "serial"]
    wrong = graphsde(*bench, "--seeds", "1", "--datasets", tmp_path / "b" / "g", "--out", tmp_path / "o")
    assert wrong.exit_code == 65 and "were not found on" in wrong.output
    write_tables(block_graph(per_class=21), tmp_path / "a" / "g")
    changed = graphsde(*words, "--datasets", tmp_path / "a" / "g")
    assert changed.exit_code == 2 and "E-DATA-CHANGED" in changed.output


def test_a_search_holds_its_folder(tmp_path: Path) -> None:
    words = ["search", "--models", "gcn", "--datasets", "digits", "--trials", "1", "--engine", "serial"]
    with exclusive(tmp_path / "s" / "gcn-digits"):
        refused = graphsde(*words, "--out", tmp_path / "s")
    assert refused.exit_code == 2 and "E-LOCKED" in refused.output
    assert not (tmp_path / "s" / "gcn-digits" / "trial-000").exists()


def test_search_starts_with_the_defaults_and_goes_on_where_it_was(tmp_path: Path) -> None:
    pytest.importorskip("optuna", reason="the extra 'cluster' is not installed")
    words = ["search", "--datasets", "digits", "--models", "gcn", "--engine", "serial", "--out", tmp_path / "s"]
    first = answer(*words, "--trials", "2", "--configs", tmp_path / "configs", "--json")
    trials = read_trials(tmp_path / "s" / "gcn-digits")
    assert len(trials) == 2 and trials[0].chosen == {} and set(trials[1].chosen) == set(space_of("gcn"))
    again = answer(*words, "--trials", "3", "--json")
    assert [trial.cell for trial in read_trials(tmp_path / "s" / "gcn-digits")][:2] == [t.cell for t in trials]
    assert first[0]["trials"] == 2 and again[0]["trials"] == 3
    assert again[0]["val_nll"] <= again[0]["val_nll_of_defaults"]
    assert read_settings(tmp_path / "configs" / "gcn-digits.yaml") == best_trial(trials).settings


def test_fit_takes_what_a_search_has_found(tmp_path: Path) -> None:
    recipe = tmp_path / "gcn-digits.yaml"
    recipe.write_text("model: gcn\nsettings: {hidden: 5, epochs: 40}\n")
    words = ["fit", "digits", "--config", recipe, "--no-controls", "--out"]
    assert graphsde(*words, tmp_path / "run", "--set", "epochs=2").exit_code == 0
    model = load_model(tmp_path / "run")
    assert (model.name, model.settings.hidden, model.settings.epochs) == ("gcn", 5, 2)
    for name in ("gat", "lgnsde"):  # the default is another model too, once it is named
        other = graphsde(*words, tmp_path / "other", "--model", name)
        assert other.exit_code == 2 and "another model's" in other.output
    recipe.write_text("model: ensemble\nsettings: {members: 2, base_settings: {hidden: 5, epochs: 40}}\n")
    assert graphsde(*words, tmp_path / "both", "--set", "base_settings.epochs=2").exit_code == 0
    both = load_model(tmp_path / "both").settings.base_settings
    assert (both["hidden"], both["epochs"]) == (5, 2)
    recipe.write_text("model: nobody\nsettings: {}\n")
    unknown = graphsde(*words, tmp_path / "other")
    assert unknown.exit_code == 65 and "not known" in unknown.output
    recipe.write_text("hidden: 5\n")
    damaged = graphsde(*words, tmp_path / "damaged")
    assert damaged.exit_code == 65 and "not a file of settings" in damaged.output
    assert not (tmp_path / "other").exists() and not (tmp_path / "damaged").exists()


def test_a_search_runs_in_other_processes(tmp_path: Path) -> None:
    pytest.importorskip("optuna", reason="the extra 'cluster' is not installed")
    words = ["search", "--datasets", "digits", "--models", "label-propagation", "--out", tmp_path, "--trials", "1"]
    [found] = answer(*words, "--engine", "processes", "--json")
    assert found["trials"] == 1 and found["val_nll"] > 0


def test_a_bench_takes_the_settings_of_a_search(tmp_path: Path) -> None:
    configs = tmp_path / "configs"
    configs.mkdir()
    (configs / "gcn-digits.yaml").write_text("model: gcn\nsettings: {hidden: 5, epochs: 2}\n")
    words = ["bench", "misclassification", "--datasets", "digits", "--seeds", "1", "--engine", "serial"]
    found = answer(*words, "--models", "gcn", "--configs", configs, "--out", tmp_path / "b", "--json")
    assert {row["model"] for row in found["rows"]} == {"gcn (tuned)"}
    [line] = (tmp_path / "b" / "journal.jsonl").read_text().splitlines()
    cell = json.loads(line)["record"]["cell"]
    assert cell["settings"] == {"hidden": 5, "epochs": 2}
    changed = graphsde(*words, "--models", "gcn", "--configs", configs, "--out", tmp_path / "b", "--set", "hidden=7")
    assert changed.exit_code == 2 and "had other settings" in changed.output
    plain = Cell(**{**cell, "called": ""})
    assert plain.id == Cell(**cell).id and plain.label != "gcn (tuned)"  # a name does not make another cell
    refused = graphsde(*words, "--models", "mlp", "--configs", configs, "--out", tmp_path / "c")
    assert refused.exit_code == 2 and "mlp-digits.yaml" in refused.output


def test_the_grid_in_the_words_of_a_model() -> None:
    assert "step" in space_of("lgnsde") and "step" not in space_of("gcn")
    chosen = {"step": 0.1, "dropout": 0.3, "hidden": 64}
    found = settings_of("lgnsde", chosen, {"preset": "paper"})
    assert found == {"preset": "paper", "steps": 10, "feature_dropout": 0.3, "decoder_dropout": 0.3, "hidden": 64}
    assert settings_of("ensemble", {"hidden": 32}, {})["base_settings"] == {"hidden": 32}


def test_a_trial_given_up_is_never_the_best() -> None:
    def trial(number: int, value: float | None) -> Trial:
        return Trial(number, {}, {}, value, "", (), 0.0, value is None)

    assert best_trial([trial(0, 0.5), trial(1, None), trial(2, 0.4), trial(3, 0.4)]).number == 2
    assert best_trial([trial(0, 0.5), trial(1, 0.7)], "accuracy").number == 1
