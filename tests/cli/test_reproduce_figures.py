"""``graphsde reproduce figure-…`` from cells to Markdown, CSV and an image, and on again from the journal."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.csv as pa_csv
import pytest
from typer.testing import Result

from cli_support import graphsde
from graphsde.bench.paper import TABLES
from graphsde.view.figures.paper import PAPER_FIGURES


def test_every_figure_has_a_plan_and_a_picture() -> None:
    assert {name for name in TABLES if name.startswith("figure-")} == set(PAPER_FIGURES)


@pytest.fixture(scope="module")
def entropy(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str], Result]:
    out = tmp_path_factory.mktemp("figures")
    words = [
        "reproduce",
        "figure-entropy",
        "--datasets",
        "digits",
        "--models",
        "gcn",
        "--seeds",
        "1",
        "--out",
        str(out),
    ]
    return out, words, graphsde(*words, "--engine", "serial")


def test_entropy_figure_writes_markdown_csv_and_png(entropy: tuple[Path, list[str], Result]) -> None:
    out, _, result = entropy
    assert result.exit_code == 0, result.output
    folder = out / "figure-entropy"
    assert {path.name for path in folder.iterdir()} == {"digits.csv", "digits.png", "figure.md"}
    assert not (out / "figure-entropy-errors" / "table.md").exists()  # it might be a table's
    assert (folder / "digits.png").read_bytes().startswith(b"\x89PNG")
    table = pa_csv.read_csv(folder / "digits.csv").to_pydict()
    assert set(table["series"]) == {"right", "wrong", "known", "OOD"}
    page = (folder / "figure.md").read_text(encoding="utf-8")
    assert (
        "![figure-entropy on digits](digits.png)" in page
        and "35 % more" in page
        and "**digits**" in page
        and "| gcn | " in page
    )


def test_a_second_run_does_nothing_new(entropy: tuple[Path, list[str], Result]) -> None:
    out, words, _ = entropy
    before = (out / "figure-entropy-errors" / "journal.jsonl").read_bytes()
    rows = json.loads(graphsde(*words, "--engine", "serial", "--json").stdout)
    assert (out / "figure-entropy-errors" / "journal.jsonl").read_bytes() == before
    assert {(row["table"], row["metric"]) for row in rows} == {
        (f"figure-entropy:{part}", metric) for part in ("errors", "ood") for metric in ("more entropy", "separation")
    }
    shown = graphsde(*words, "--show")
    assert shown.exit_code == 0 and "agreement" not in shown.stdout  # nothing is printed to agree with


def test_the_active_figure_shares_the_journals_of_the_tables() -> None:
    plans = TABLES.get("figure-active")
    assert [plan.name for plan in plans] == ["active-random", "active-entropy"]
    for plan in plans:
        (table,) = TABLES.get(plan.name)
        assert (plan.task, plan.options) == (table.task, table.options)
