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


@pytest.fixture(scope="session")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that predicts a number; read only."""
    path = tmp_path_factory.mktemp("numbers") / "runs" / "patients"
    fit_run(FitRequest(GraphSource("diabetes"), "gcn", {"epochs": 8}), RunFolder(path))
    return path


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on sixty products with names and words; read only."""
    data = tmp_path_factory.mktemp("shop") / "shop"
    data.mkdir()
    words = [f"word{number}" for number in range(20)]
    products = [f"p{place},Product {place},{'ab'[place % 2]}" for place in range(60)]
    has = [[int((place * 7 + column * (1 + place % 2)) % 5 == 0) for column in range(20)] for place in range(60)]
    rows = [f"{product},{','.join(map(str, row))}" for product, row in zip(products, has, strict=True)]
    (data / "nodes.csv").write_text("\n".join([",".join(["id", "name", "label", *words]), *rows]) + "\n")
    pairs = [f"p{place},p{(place + step) % 60}" for place in range(60) for step in (2, 4)]
    (data / "edges.csv").write_text("\n".join(["source,target", *pairs]) + "\n")
    path = data.parent / "runs" / "shop"
    fit_run(FitRequest(GraphSource(str(data)), "label-propagation"), RunFolder(path), with_controls=False)
    return path
