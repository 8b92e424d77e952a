"""Fixtures of the tests of benches."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import graphsde as gs
from graphsde.base.plugins import VARIABLE

from support import block_graph


@pytest.fixture(scope="session")
def graph_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bench") / "graph"
    gs.write_tables(block_graph(), folder)
    return folder


@pytest.fixture
def plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers know the tasks of the tests."""
    from bench_support import HERE, SOURCE

    monkeypatch.setenv(VARIABLE, "bench_parts")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, (SOURCE, HERE))))


@pytest.fixture
def command_line(plugins: None) -> Iterator[object]:
    from bench_support import CommandLine

    yield CommandLine()
