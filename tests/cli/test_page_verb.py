"""``graphsde app`` before it serves anything: what is refused, and how."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from graphsde.cli.app import app


def graphsde(*words: object, **environment: str) -> Any:
    return CliRunner().invoke(app, ["app", *map(str, words)], env={"GRAPHSDE_TOKEN": "", **environment})


def test_without_the_extra_one_line_and_69(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "streamlit", None)
    result = graphsde(tmp_path)
    assert result.exit_code == 69 and result.stderr.count("\n") == 1 and "graphsde[app]" in result.stderr


def test_other_hosts_are_refused_without_a_token(tmp_path: Path) -> None:
    pytest.importorskip("streamlit", reason="the extra 'app' is not installed")
    result = graphsde(tmp_path, "--host", "0.0.0.0", "--port", "0")
    assert result.exit_code == 2 and "GRAPHSDE_TOKEN" in result.stderr
    result = graphsde(tmp_path, "--host", "0.0.0.0", "--port", "0", GRAPHSDE_TOKEN="short")
    assert result.exit_code == 2 and "at least 16" in result.stderr and "short" not in result.stderr


def test_a_folder_that_can_not_be_made(tmp_path: Path) -> None:
    pytest.importorskip("streamlit", reason="the extra 'app' is not installed")
    (tmp_path / "file").write_text("")
    result = graphsde(tmp_path / "file" / "runs", "--port", "0")
    assert result.exit_code == 74 and "can't make the folder" in result.stderr


def test_ports_have_a_range() -> None:
    assert graphsde("--port", "70000").exit_code == 2
