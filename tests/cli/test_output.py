"""Tables for people and for files."""

from __future__ import annotations

import pytest

from graphsde.cli.output import print_table

ROWS = [{"name": "euler", "summary": "word " * 60 + "end"}, {"name": "[bold]", "summary": "short"}]


def test_a_row_of_a_file_is_on_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    print_table(ROWS)
    lines = capsys.readouterr().out.splitlines()
    (row,) = [line for line in lines if "euler" in line]
    assert row.count("word") > 20  # a cell may be shortened, but it is not broken
    assert sum("word" in line for line in lines) == 1
    assert any("[bold]" in line for line in lines)


def test_a_width_that_is_asked_for_is_kept(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    print_table(ROWS)
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 60
