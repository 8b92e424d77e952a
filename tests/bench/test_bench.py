"""A bench from request to table: what it skips, what it retries, what it refuses, what it prints."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bench_parts import Tiny, Trouble
from bench_support import MODELS as TWO_MODELS
from bench_support import bench, some_records, table, tiny_request, written
from typer.testing import CliRunner, Result

import graphsde as gs
from graphsde.base.errors import BadInput, BadUsage, UnknownName
from graphsde.base.plugins import load_plugins
from graphsde.bench.cells import ModelSpec
from graphsde.bench.folder import BenchFolder
from graphsde.bench.run import Progress, run_bench
from graphsde.bench.table import tabulate
from graphsde.cli.app import app
from graphsde.models import MODELS

from support import block_graph


def graphsde(*words: object, env: dict[str, str] | None = None) -> Result:
    return CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "200", **(env or {})})


def test_every_cell_is_run_once_and_reported_after_it_is_written(graph_folder: Path, tmp_path: Path) -> None:
    seen: list[Progress] = []

    def look(state: Progress) -> None:
        seen.append(state)
        on_disk = written(tmp_path) if state.finished else []
        assert len(on_disk) == state.finished
        assert state.cell is None or on_disk[-1]["id"] == state.cell.id

    summary = run_bench(tiny_request(graph_folder), tmp_path, progress=look)
    assert (summary.done, summary.skipped, summary.failed) == (6, 0, {})
    assert [state.finished for state in seen] == list(range(7)) and seen[-1].total == 6


def test_a_record_says_all_about_its_cell(graph_folder: Path, tmp_path: Path) -> None:
    bench(graph_folder, tmp_path)
    record = written(tmp_path)[0]
    assert record["cell"]["dataset"] == str(graph_folder) and record["cell"]["seed"] == 0
    assert record["status"] == "done" and record["cause"] is None and record["attempts"] == 1
    assert record["engine"] == "serial" and {"graphsde", "torch", "python", "processor"} <= set(record["environment"])
    assert record["metrics"]["undefined"] is None and record["metrics"]["n_test"] == 9
    assert len(record["curves"]["curve"]) == 3 and set(record["seconds"]) == {"cpu", "wall"}


def test_running_again_does_only_what_is_missing(graph_folder: Path, tmp_path: Path) -> None:
    bench(graph_folder, tmp_path)
    again = bench(graph_folder, tmp_path)
    assert (again.done, again.skipped) == (0, 6)
    more = bench(graph_folder, tmp_path, seeds=(0, 5), models=(*TWO_MODELS, ModelSpec("gcn", {"hidden": 5})))
    assert (more.done, more.skipped) == (4, 2)
    assert len(written(tmp_path)) == 10


def test_failed_cells_are_kept_and_run_again_only_on_request(graph_folder: Path, tmp_path: Path) -> None:
    work = {"task": "trouble", "seeds": (8, 9, 20), "options": {"folder": str(tmp_path)}, "models": TWO_MODELS[:1]}
    first = bench(graph_folder, tmp_path / "out", **work)
    assert (first.done, first.failed) == (1, {"error": 2})
    causes = {record["cell"]["seed"]: record["cause"] for record in written(tmp_path / "out")}
    assert causes[8] == "error: ZeroDivisionError: \\x1b[31mred" and "E-DIVERGED" in str(causes[9])
    second = bench(graph_folder, tmp_path / "out", **work)
    assert (second.done, second.skipped, second.failed_before) == (0, 3, 2)
    assert {(row.n, row.failed) for row in table(tmp_path / "out")} == {(1, 2), (0, 2)}
    Trouble.PLANS = {**Trouble.PLANS, 8: ("", 0)}
    try:
        third = bench(graph_folder, tmp_path / "out", retry_failed=True, **work)
    finally:
        Trouble.PLANS = {**Trouble.PLANS, 8: ("error", 99)}
    assert (third.done, third.skipped, third.failed) == (1, 1, {"error": 1})
    assert {row.failed for row in table(tmp_path / "out")} == {1}


CHANGES: dict[str, tuple[dict[str, Any], str, str]] = {
    "another task": ({"task": "trouble", "options": {}}, "E-BENCH-CHANGED", "task: tiny then, trouble now"),
    "other options": ({"options": {"shift": 2.0}}, "E-BENCH-CHANGED", "shift: 1.0 then, 2.0 now"),
    "default options": ({"options": {}}, "E-BENCH-CHANGED", "shift: 1.0 then, default now"),
    "task version": ({}, "E-BENCH-CHANGED", "version of task 'tiny' was 1 .* and is 2 now"),
    "model version": ({}, "E-BENCH-CHANGED", "version of model 'mlp' was 1 .* and is 7 now"),
    "data": ({}, "E-DATA-CHANGED", "has changed since"),
}


@pytest.mark.parametrize("what", CHANGES)
@pytest.mark.parametrize("seeds", [(0, 1, 2), (11,)], ids=["same seeds", "new seeds"])
def test_a_change_before_resuming_is_refused_with_the_difference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, seeds: tuple[int, ...]
) -> None:
    changes, code, words = CHANGES[what]
    data = tmp_path / "graph"
    gs.write_tables(block_graph(), data)
    bench(data, tmp_path / "out", options={"shift": 1.0})
    before = (tmp_path / "out" / "journal.jsonl").read_bytes()
    if what == "task version":
        monkeypatch.setattr(Tiny, "version", 2)
    if what == "model version":
        monkeypatch.setattr(MODELS.get("mlp"), "version", 7)
    if what == "data":
        graph = block_graph()
        gs.write_tables(graph.with_features(graph.features + 1), data)
    for engine in ("serial", "processes", "ray"):  # refused before any engine begins
        with pytest.raises((BadUsage, BadInput), match=words) as caught:
            bench(data, tmp_path / "out", **{"options": {"shift": 1.0}, "seeds": seeds, "engine": engine, **changes})
        assert caught.value.code == code
    assert (tmp_path / "out" / "journal.jsonl").read_bytes() == before


def test_a_setting_at_its_default_is_no_change(graph_folder: Path, tmp_path: Path) -> None:
    bench(graph_folder, tmp_path, options={"shift": 0.0})
    default = MODELS.get("mlp")().settings.hidden  # type: ignore[attr-defined]
    models = (ModelSpec("label-propagation"), ModelSpec("mlp", {"hidden": default}))
    again = bench(graph_folder, tmp_path, options={"shift": 0.0}, models=models)
    assert (again.done, again.skipped) == (0, 6)


def test_a_changed_graph_is_noticed_in_the_middle_of_a_bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = tmp_path / "graph"
    gs.write_tables(block_graph(), data)
    from graphsde.bench import execute

    monkeypatch.setattr(execute, "open_graph", lambda name: block_graph(seed=1))
    summary = bench(data, tmp_path / "out")
    assert summary.failed == {"error": 6} and "E-DATA-CHANGED" in str(written(tmp_path / "out")[0]["cause"])


def test_a_damaged_question_is_named(graph_folder: Path, tmp_path: Path) -> None:
    bench(graph_folder, tmp_path)
    for text in ("{", "[]", '{"format": 1, "task": "tiny"}', '{"format": 2, "task": "tiny", "options": {}}'):
        (tmp_path / "bench.json").write_text(text)
        with pytest.raises(BadInput, match=r"bench\.json"):
            bench(graph_folder, tmp_path)
    with pytest.raises(BadInput, match="no bench in"):
        BenchFolder(tmp_path / "nowhere").read()


def test_means_and_deviations_are_those_of_numpy(graph_folder: Path, tmp_path: Path) -> None:
    bench(graph_folder, tmp_path)
    rows = {(row.model, row.metric): row for row in table(tmp_path)}
    for model in ("mlp", "label-propagation"):
        values = [r["metrics"]["accuracy"] for r in written(tmp_path) if r["cell"]["model"] == model]
        row = rows[model, "accuracy"]
        assert row.mean == pytest.approx(np.mean(values), rel=1e-15)
        assert row.std == pytest.approx(np.std(values, ddof=1), rel=1e-14)
        assert (row.n, row.failed) == (3, 0)
    assert rows["mlp", "undefined"].mean is None and rows["mlp", "undefined"].n == 0


def test_a_table_does_not_depend_on_the_order_of_the_records() -> None:
    records, rng = some_records(40), np.random.default_rng(0)
    for seed, record in enumerate(records):
        record["metrics"] = {"a": 1 / (seed + 3)}  # sums of these depend on the order
    for _ in range(20):
        assert tabulate([records[i] for i in rng.permutation(40)]) == tabulate(records)


def test_variants_of_a_task_have_rows_of_their_own() -> None:
    records = some_records(4)
    for record, leave in zip(records, (0, 0, 1, 1), strict=True):
        record["cell"]["options"] = {"samples": 5, "leave": leave}
    assert {row.variant for row in tabulate(records, {"samples": 5})} == {"leave=0", "leave=1"}


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_what_is_not_finite_is_not_defined(
    graph_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: float
) -> None:
    monkeypatch.setattr("bench_parts.math.nan", value)
    bench(graph_folder, tmp_path, seeds=(0,))
    assert written(tmp_path)[0]["metrics"]["undefined"] is None


def test_plugins_are_imported_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_part.py").write_text("import os\nos.environ['MY_PART'] = 'loaded'\n")
    (tmp_path / "my_fault.py").write_text("1 / 0\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("MY_PART", "")
    monkeypatch.setenv("GRAPHSDE_PLUGINS", " my_part, ,my_part")
    load_plugins()
    assert os.environ["MY_PART"] == "loaded"
    for name, words in (("my_fault", "ZeroDivisionError"), ("nowhere_at_all", "No module named")):
        with pytest.raises(BadUsage, match=words) as caught:
            load_plugins(name)
        assert caught.value.code == "E-PLUGIN"


def test_from_the_command_line(graph_folder: Path, tmp_path: Path, plugins: None) -> None:
    words = ["bench", "tiny", "--datasets", graph_folder, "--models", "mlp,gcn", "--seeds", "3", "--engine", "serial"]
    out = tmp_path / "out"
    result = graphsde(*words, "--out", out, "--set", "gcn.hidden=5", "--set", "lr=0.5", "--option", "shift=2")
    assert result.exit_code == 0, result.output
    assert "6 cells done" in result.stdout and f"graphsde compare {out}" in result.stdout
    assert "gcn[hidden=5,lr=0.5]" in result.stdout and "mlp[lr=0.5]" in result.stdout and "±" in result.stdout
    again = graphsde(*words, "--out", out, "--set", "gcn.hidden=5", "--set", "lr=0.5", "--option", "shift=2", "--json")
    report = json.loads(again.stdout)
    assert (report["done"], report["skipped"], report["failed"]) == (0, 6, {})
    assert {row["metric"] for row in report["rows"]} == {"accuracy", "nll", "undefined", "n_test"}
    fresh = graphsde(*words, "--out", tmp_path / "fresh", "--json")
    assert json.loads(fresh.stdout)["done"] == 6  # what tasks print is not among the results
    other = graphsde(*words, "--out", out)
    assert other.exit_code == 2 and "shift: 2.0 then, default now" in other.stderr


@pytest.mark.parametrize(("kind", "name"), [("tasks", "misclassification"), ("engines", "processes")])
def test_tasks_and_engines_are_listed(kind: str, name: str) -> None:
    rows = json.loads(graphsde("list", kind, "--json").stdout)
    assert name in {row["name"] for row in rows} and all(row["summary"] for row in rows)
    assert name in graphsde("list", kind).stdout


def test_failures_are_counted_in_the_printed_table(graph_folder: Path, tmp_path: Path, plugins: None) -> None:
    words = ["bench", "trouble", "--datasets", graph_folder, "--models", "mlp", "--seeds", "8,20,21"]
    words += ["--engine", "serial", "--option", f"folder={tmp_path}", "--out", tmp_path / "out"]
    result = graphsde(*words)
    assert result.exit_code == 0 and "failed" in result.stdout and "1 × error" in result.stdout
    assert "failed, 1 ×: error: ZeroDivisionError" in result.stdout
    assert "1 cells failed in an earlier run" in graphsde(*words).stdout
    assert "failed, 1 ×: error: ZeroDivisionError" in graphsde("compare", tmp_path / "out").stdout


def test_a_bench_without_a_result_is_no_success(graph_folder: Path, tmp_path: Path, plugins: None) -> None:
    words = ["bench", "trouble", "--datasets", graph_folder, "--models", "mlp", "--seeds", "8,", "--engine", "serial"]
    for more in ([], ["--json"]):
        out = tmp_path / f"out{len(more)}"
        result = graphsde(*words, "--option", f"folder={tmp_path}", "--out", out, *more)
        assert result.exit_code == 70 and "E-NO-RESULT" in result.stderr and "ZeroDivisionError" in result.stderr
        assert not more or json.loads(result.stdout)["failed"] == {"error": 1}


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["tinny"], "did you mean 'tiny'"),
        (["tiny", "--models", "mpl"], "did you mean 'mlp'"),
        (["tiny", "--engine", "procesess"], "did you mean 'processes'"),
        (["tiny", "--seeds", "-1"], "is not valid"),
        (["tiny", "--seeds", "1,x"], "is not valid"),
        (["tiny", "--seeds", "1,1"], "duplicate seed"),
        (["tiny", "--seeds", "0"], "1 to 100,000"),
        (["tiny", "--models", "mlp,mlp"], "has a duplicate"),
        (["tiny", "--models", ","], "is empty"),
        (["tiny", "--option", "shfit=1"], "did you mean 'shift'"),
        (["tiny", "--set", "mlp=3"], "names a model, not a setting"),
        (["tiny", "--set", "mlp.hiden=3"], "did you mean 'hidden'"),
        (["tiny", "--cell-minutes", "0"], "cpu_seconds is 0"),
        (["tiny", "--seeds", f"{2**64},"], "too large"),
        (["active", "--option", "acquisition=entrpoy"], "did you mean 'entropy'"),
        (["noise", "--option", "severities=[-1]"], "severities"),
        (["ood", "--option", "leave=99"], "has no class 99"),
        (["backbones"], "only latent SDEs"),
        (["sensitivity"], "only latent SDEs"),
    ],
)
def test_wrong_usage_is_told_before_anything_runs(
    graph_folder: Path, tmp_path: Path, plugins: None, words: list[str], text: str
) -> None:
    defaults = {"--datasets": str(graph_folder), "--models": "mlp", "--seeds": "1", "--engine": "serial"}
    rest = [word for name, value in defaults.items() if name not in words for word in (name, value)]
    result = graphsde("bench", *words, *rest, "--out", tmp_path / "out")
    assert result.exit_code == 2 and text in result.stderr, result.output
    assert not (tmp_path / "out" / "bench.json").exists() and not (tmp_path / "out" / "journal.jsonl").exists()


def test_settings_reach_the_models_they_name(graph_folder: Path, tmp_path: Path) -> None:
    from graphsde.cli.bench import _models

    texts = ["lgnsde", "lgnsde@paper", "gcn"]
    values = {"hidden": 4, "lgnsde": {"hidden": 5, "solver": {"steps": 3}}, "lgnsde@paper": {"hidden": 6}}
    specs = _models(texts, values)
    assert [spec.settings["hidden"] for spec in specs] == [5, 6, 4]
    assert specs[1].settings["preset"] == "paper" and specs[1].settings["solver"] == {"steps": 3}
    with pytest.raises(UnknownName):
        _models(["nothing"], {})
