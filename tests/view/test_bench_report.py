"""The report of a bench folder: complete, offline, harmless, and right in what it says."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from picture_gallery import bench_records, record
from typer.testing import CliRunner

from graphsde.base.errors import BadInput
from graphsde.bench.compare import compare
from graphsde.cli.app import app
from graphsde.view.report.bench import bench_commands, leaders, render_bench_report

QUESTION: dict[str, Any] = {"task": "misclassification", "options": {}}


@pytest.fixture(scope="module")
def html() -> str:
    return render_bench_report(QUESTION, bench_records(), "benches/a b")


def own_part(html: str) -> str:
    """The page without the drawing library, which mentions addresses in its comments."""
    return html.split("<footer>")[0]


def test_the_page_is_offline_and_small(html: str) -> None:
    assert len(html.encode()) < 10_000_000
    assert not re.search(r"https?://|//cdn", own_part(html))
    assert not re.search(r"<(script|img|link|iframe)[^>]+src=", html)
    assert "default-src 'none'" in unescape(html[:2000]) and 'name="viewport"' in html


def test_tables_have_mean_spread_n_interval_verdict_and_failures(html: str) -> None:
    text = re.sub(r"\s+", " ", own_part(html))
    for row in compare(bench_records()):
        if row.mean is not None:
            assert f'<bdi>{row.model}</bdi></th><td class="num">{row.mean:.4f}' in text
    assert "1 × E-DIVERGED" in text and "60 done, 1 failed" in text
    assert "the loss is &lt;not&gt; finite" in text  # the cause, made harmless
    for key in ("figure-ranking", "figure-metric-0", "figure-metric-4"):
        assert f'id="{key}"' in text
    assert "graphsde compare &#39;benches/a b&#39;" in text


def test_a_sentence_for_every_graph() -> None:
    rows = compare(bench_records())
    ahead = "On digits gcn has the best accuracy (0.820 ± 0.008, n = 6), significantly ahead of every rival"
    assert leaders(rows).startswith(ahead)
    same = [
        record("misclassification", model, seed, {"accuracy": 0.5 + 0.1 * ((seed + place) % 2)})
        for place, model in enumerate(("gcn", "mlp"))
        for seed in range(4)
    ]
    assert re.search(r"statistically tied with (gcn|mlp)\.$", leaders(compare(same)))
    alone = [record("misclassification", "gcn", 0, {"accuracy": 0.5})]
    assert leaders(compare(alone)).endswith("it is the only one with results.")


DEPTH = {"difficulty": [0.0, 1.0], "steps": [5.0, 5.0], "error": [0.1, 0.2], "entropy": [1.0, 2.0]}


@pytest.mark.parametrize(
    ("task", "curves", "key"),
    [
        ("active", {"labels": [5.0, 10.0], "accuracy": [0.5, 0.6]}, "figure-accuracy-digits"),
        ("noise", {"severity": [0.0, 1.0], "accuracy": [0.5, 0.4], "nll": [1.0, 2.0]}, "figure-nll-digits"),
        ("adaptive-depth", DEPTH, "figure-steps-digits"),
    ],
)
def test_tasks_with_series_have_curves(task: str, curves: dict[str, list[float]], key: str) -> None:
    records = [record(task, "lgnsde", seed, {"accuracy": 0.5, "accuracy@0.5": 0.5}, curves) for seed in range(3)]
    assert f'id="{key}"' in render_bench_report({"task": task, "options": {}}, records, "out")


def test_a_bench_in_which_everything_failed_still_has_a_report() -> None:
    records = [record("misclassification", "gcn", seed, cause="E-MEM: no room") for seed in range(2)]
    page = own_part(render_bench_report(QUESTION, records, "out"))
    assert "no cell has accuracy" in page and "E-MEM: no room" in page and "0, 1" in page


def test_an_empty_bench_is_refused() -> None:
    with pytest.raises(BadInput, match="no finished cells"):
        render_bench_report(QUESTION, [], "out")


def test_commands_name_what_was_run() -> None:
    records = [record("misclassification", model, seed) for model in ("gcn", "lgnsde@paper") for seed in (0, 3)]
    for one in records[:2]:
        one["cell"]["settings"] = {"epochs": 3}
    first, compared, reported = bench_commands({"task": "noise", "options": {"draws": 2}}, records, "out")
    assert "--models gcn,lgnsde@paper" in first and "--seeds 0,3" in first and "--option draws=2" in first
    assert "--set gcn.epochs=3" in first and compared == "graphsde compare out" and reported == "graphsde report out"


def test_from_the_command_line(tmp_path: Path) -> None:
    def graphsde(*words: object) -> Any:
        return CliRunner().invoke(app, [str(word) for word in words])

    out = tmp_path / "bench"
    words = ["bench", "misclassification", "--datasets", "digits", "--models", "mlp,gcn", "--seeds", "2"]
    assert graphsde(*words, "--engine", "serial", "--set", "epochs=2", "--out", out).exit_code == 0
    result = graphsde("report", out, "--figures", tmp_path / "figures")
    assert result.exit_code == 0, result.output
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "gcn[epochs=2]" in page and len(page) < 10_000_000
    names = {path.name for path in (tmp_path / "figures").iterdir()}
    assert {"ranking.png", "ranking.csv", "metric-0.png", "metric-0.csv"} <= names
    # the command on the page goes on with the bench: nothing is left to do
    command = re.search(r"<pre><code>(graphsde bench .*?)</code>", page)
    assert command is not None
    again = graphsde(*command.group(1).split()[1:], "--engine", "serial")
    assert again.exit_code == 0 and "4 cells already done, 0 to run" in again.output, again.output


def test_a_run_has_its_figures_as_files(tmp_path: Path) -> None:
    from graphsde.runs.folder import RunFolder

    runner = CliRunner()
    run = tmp_path / "run"
    words = ["fit", "digits", "--model", "lgnsde", "--set", "epochs=2", "--set", "hidden=4", "--out", str(run)]
    assert runner.invoke(app, words).exit_code == 0
    result = runner.invoke(app, ["report", str(run), "--samples", "4", "--figures", str(tmp_path / "f")])
    assert result.exit_code == 0, result.output
    names = {path.stem for path in (tmp_path / "f").glob("*.png")}
    assert names == {path.stem for path in (tmp_path / "f").glob("*.csv")}
    expected = {"entropy", "risk-coverage", "reliability", "scatter", "paths", "training", "graph", "noise", "theory"}
    assert expected <= names
    assert np.all([path.stat().st_size < 2_000_000 for path in (tmp_path / "f").iterdir()])
    assert RunFolder(run).report.is_file()
