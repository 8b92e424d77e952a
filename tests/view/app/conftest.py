from __future__ import annotations

from pathlib import Path

import pytest

from graphsde.datasets.source import GraphSource
from graphsde.runs.fit import FitRequest, fit_run
from graphsde.runs.folder import RunFolder
from graphsde.view.app.library import OpenRun

pytest.importorskip("streamlit", reason="the extra 'app' is not installed")


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two finished runs on the embedded graph; read only."""
    folder = tmp_path_factory.mktemp("page") / "runs"
    source = GraphSource("digits")
    fit_run(FitRequest(source, "lgnsde", {"epochs": 3, "hidden": 8}, samples=4), RunFolder(folder / "paths"))
    fit_run(FitRequest(source, "label-propagation"), RunFolder(folder / "spreading"))
    return folder


@pytest.fixture(scope="session")
def opened(runs: Path) -> OpenRun:
    return OpenRun(runs / "paths", samples=4)
