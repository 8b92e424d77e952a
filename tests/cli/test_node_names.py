"""Names of nodes are shown wherever their ids are."""

from __future__ import annotations

from pathlib import Path

import pytest

import graphsde as gs
from cli_support import answer, graphsde
from graphsde.io.csv_table import read_csv


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("named")
    gs.write_tables(gs.synthetic(200, classes=2, seed=1).with_masks(), folder / "graph")
    nodes = (folder / "graph" / "nodes.csv").read_text().splitlines()
    named = [f"{nodes[0]},title", *(f"{line},Page {row}" for row, line in enumerate(nodes[1:]))]
    (folder / "graph" / "nodes.csv").write_text("\n".join(named) + "\n")
    words = ["fit", folder / "graph", "--model", "label-propagation", "--out", folder / "run"]
    done = graphsde(*words, "--read", "node_name=title")
    assert done.exit_code == 0, done.output
    return folder / "run"


def test_tables(run: Path, tmp_path: Path) -> None:
    for verb, options in (("predict", []), ("ask", ["--budget", 3]), ("decide", ["--max-error", 0.2])):
        out = tmp_path / f"{verb}.csv"
        done = graphsde(verb, run, "--out", out, *options)
        assert done.exit_code == 0, done.output
        table = read_csv(out, wanted=("id",))
        assert table.names[:2] == ["id", "name"], verb
        ids, names = table.values("id").tolist(), table.values("name").tolist()
        assert names == [f"Page {node}" for node in ids]


def test_words(run: Path) -> None:
    asked = graphsde("ask", run, "--budget", 2)
    assert asked.exit_code == 0 and asked.stdout.count("Page") >= 2
    explained = graphsde("explain", run, 5, "--neighbours", 2)
    assert explained.exit_code == 0, explained.output
    assert "Node 5 is Page 5." in explained.stdout and explained.stdout.count("Page") >= 2


def test_documents(run: Path) -> None:
    asked = answer("ask", run, "--budget", 2, "--json")["questions"]
    assert [one["name"] for one in asked] == [f"Page {one['id']}" for one in asked]
    explained = answer("explain", run, 5, "--neighbours", 2, "--json")
    assert explained["name"] == "Page 5"
    assert [one["name"] for one in explained["neighbours"]] == [f"Page {one['id']}" for one in explained["neighbours"]]
