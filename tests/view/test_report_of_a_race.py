"""The report says who won where settings were chosen by a race."""

from __future__ import annotations

from pathlib import Path

import graphsde as gs
from graphsde.datasets.source import GraphSource
from graphsde.runs.fit import FitRequest, fit_run
from graphsde.runs.folder import RunFolder
from graphsde.view.report.run import report_on_run

from support import block_graph


def test_it_names_the_winner(tmp_path: Path) -> None:
    gs.write_tables(block_graph(per_class=20), tmp_path / "graph")
    source = GraphSource(str(tmp_path / "graph"))
    for name, settings, told in (("gcn", {"race": True, "epochs": 60}, True), ("gcn", {"epochs": 5}, False)):
        folder = RunFolder(tmp_path / f"run-{told}")
        outcome = fit_run(FitRequest(source, name, settings), folder)
        page = report_on_run(folder).read_text(encoding="utf-8")
        assert ("won among 5" in page) == told == bool(outcome.model.standings)  # type: ignore[attr-defined]
