"""Labels of test nodes: a table of all known labels does not use up the test set, and a small rest is pointed out."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path

import numpy as np
import pytest

import graphsde as gs
from cli_support import graphsde
from graphsde.base.errors import BadUsage
from graphsde.datasets.source import GraphSource
from graphsde.runs.fit import FitRequest, fit_run
from graphsde.runs.folder import RunFolder
from graphsde.runs.learn import learn
from graphsde.runs.new_labels import GivenLabels

from support import block_graph


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on 240 nodes: 40 unlabelled ones, 200 that a split has shared out."""
    folder = tmp_path_factory.mktemp("known")
    full = block_graph(per_class=80)
    labels = np.where(np.arange(240) % 6 == 5, -1, full.labels)
    bare = gs.from_arrays(full.features, full.adjacency.matrix, labels=labels, class_names=full.class_names)
    gs.write_tables(bare, folder / "graph")
    source = GraphSource.typed(str(folder / "graph"), split="stratified-60-15-25")
    fit_run(FitRequest(source, "gcn", {"epochs": 5, "hidden": 4}), RunFolder(folder / "run"))
    return folder


@pytest.fixture
def run(fitted: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(fitted / "run", tmp_path / "run"))


def roles(run: Path) -> dict[str, int]:
    return {role: int(mask.sum()) for role, mask in RunFolder(run).load_graph().masks.items()}


def test_the_graphs_own_file_teaches_nothing_and_leaves_the_test_alone(fitted: Path, run: Path) -> None:
    before = roles(run)
    assert before["test"] == 50
    own = fitted / "graph" / "nodes.csv"
    with pytest.raises(BadUsage, match="E-EMPTY: all 200 labels are already in use") as caught:
        learn(run, GivenLabels.read(own))
    assert "50 labels are those that test nodes already have" in str(caught.value)
    assert "--test-labels" in str(caught.value) and roles(run) == before


def test_of_a_longer_table_only_what_is_new_is_learned(fitted: Path, run: Path, tmp_path: Path) -> None:
    with (fitted / "graph" / "nodes.csv").open() as file:
        rows = list(csv.DictReader(file))
    table = tmp_path / "all.csv"
    table.write_text("id,label\n" + "".join(f"{row['id']},{row['label'] or 'class 0'}\n" for row in rows[:30]))
    told: list[str] = []
    learned = learn(run, GivenLabels.read(table), say=told.append)
    assert (learned.added, learned.from_test, learned.known) == (5, 0, 25)
    assert learned.kept_for_test == int(RunFolder(run).load_graph().role("test")[:30].sum()) > 0
    assert roles(run)["test"] == 50 and roles(run)["train"] == 125
    assert any(f"{learned.kept_for_test} labels are those that test nodes already have" in one for one in told)
    again = graphsde("learn", run, table)
    assert again.exit_code == 0 and "stay in the test set" in " ".join(again.stdout.split())


def test_questions_that_ask_wrote_and_a_flag_take_test_nodes(run: Path, tmp_path: Path) -> None:
    graph = RunFolder(run).load_graph()
    some = np.flatnonzero(graph.role("test"))[:4]
    named = [(int(graph.node_ids[node]), graph.class_names[graph.labels[node]]) for node in some]
    asked, plain = tmp_path / "questions.csv", tmp_path / "plain.csv"
    asked.write_text("id,label,rank,predicted\n" + "".join(f"{i},{c},{r},x\n" for r, (i, c) in enumerate(named[:2], 1)))
    plain.write_text("id,label\n" + "".join(f"{i},{c}\n" for i, c in named[2:]))
    told: list[str] = []
    first = learn(run, GivenLabels.read(asked), say=told.append)
    assert (first.added, first.from_test) == (2, 2) and roles(run)["test"] == 48
    assert any("only 48 nodes are left" in one and "at least 59" in one for one in told)
    assert graphsde("learn", run, plain).exit_code == 0 and roles(run)["test"] == 48  # nothing to do
    assert graphsde("learn", run, plain, "--test-labels").exit_code == 0
    assert roles(run)["test"] == 46


def test_the_last_test_node_is_not_taken(fitted: Path, run: Path) -> None:
    with pytest.raises(BadUsage, match="E-SPLIT-EMPTY: all 50 labelled test nodes"):
        learn(run, GivenLabels.read(fitted / "graph" / "nodes.csv", test_labels=True))
    assert roles(run)["test"] == 50
