from __future__ import annotations

import csv
import shutil
from pathlib import Path

import numpy as np
import pytest

from cli_support import graphsde


@pytest.fixture(scope="session")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with 75 test nodes and 300 nodes without a label, and the labels of 40 of these, drawn at random."""
    folder = tmp_path_factory.mktemp("looks")
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 2, 600)
    rows = [f"{i},{'ab'[kind[i]] if i < 300 else ''},{kind[i] + 0.3 * rng.normal():.3f}" for i in range(600)]
    (folder / "graph").mkdir()
    (folder / "graph" / "nodes.csv").write_text("id,label,x\n" + "\n".join(rows) + "\n")
    edges = [f"{i},{rng.choice(np.flatnonzero(kind == kind[i]))}" for i in range(600)]
    (folder / "graph" / "edges.csv").write_text("source,target\n" + "\n".join(edges) + "\n")
    done = graphsde("fit", folder / "graph", "--model", "logistic-hops", "--no-controls", "--out", folder / "run")
    assert done.exit_code == 0, done.output
    asked = folder / "cal.csv"
    assert graphsde("ask", folder / "run", "--for", "calibration", "--budget", 40, "--out", asked).exit_code == 0
    drawn = [row["id"] for row in csv.DictReader(asked.open())]
    lines = [f"{node},{'ab'[kind[int(node)]]},calibration,{rank}" for rank, node in enumerate(drawn, 1)]
    asked.write_text("id,label,role,rank\n" + "\n".join(lines) + "\n")
    return folder


@pytest.fixture
def run(fitted: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(fitted / "run", tmp_path / "run"))
