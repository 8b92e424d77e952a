"""Every bad file that the library refuses is refused by ``graphsde check`` too: same code, exit 65, no traceback."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "io"))
from bad_files import BAD_FILES, Case

from graphsde.cli.app import app


@pytest.mark.parametrize("case", BAD_FILES, ids=lambda case: case.name)
def test_case(case: Case, tmp_path: Path) -> None:
    path = case.build(tmp_path / "graph")
    result = CliRunner().invoke(app, ["check", str(path), "--json"])
    assert "Traceback" not in result.output
    if case.expected.startswith("E-"):
        assert result.exit_code == 65 and result.stderr.startswith(case.expected + ":")
        assert result.stdout == "" and "\x1b" not in result.stderr and len(result.stderr) < 5000
    else:
        assert result.exit_code == 0, result.stderr
        codes = {finding["code"] for finding in json.loads(result.stdout)["findings"]} | {"ok"}
        assert case.expected in codes
    assert not list(tmp_path.rglob("marker"))
