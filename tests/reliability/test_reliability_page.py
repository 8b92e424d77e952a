"""The page of guarantees: every named test exists, no cell is empty, and the committed page is the one that is made."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from reliability.guarantees import guarantees, is_a_test
from reliability.journal import KEPT, Journal, Line
from reliability.page import NOT_RUN, PAGE, attack_figure, render

from reliability import page


def test_every_named_test_exists() -> None:
    for one in guarantees():
        assert [name for name in one.tests if not is_a_test(name)] == [], one.id
    assert not is_a_test("tests/test_house.py::test_nothing_of_the_kind")


def test_ids_are_different_and_every_guarantee_has_a_figure() -> None:
    ids = [one.id for one in guarantees()]
    assert len(set(ids)) == len(ids)
    assert all(bool(one.figure) != (one.attack is not None) for one in guarantees())


def cells(page: str) -> list[list[str]]:
    rows = [line for line in page.splitlines() if line.startswith("| ") and not line.startswith("| id |")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]] for row in rows]


def test_no_cell_is_empty() -> None:
    for text in (render(guarantees(), []), PAGE.read_text(encoding="utf-8")):
        found = cells(text)
        assert [row[0] for row in found] == [one.id for one in guarantees()]
        assert all(len(row) == 5 and all(row) for row in found)


def test_the_page_is_the_one_that_the_journal_makes() -> None:
    assert render(guarantees(), Journal().lines()) == PAGE.read_text(encoding="utf-8"), "python -m reliability page"


def test_figures_come_from_the_journal() -> None:
    lines = [
        Line("kills", "one", KEPT, 0.5, 20.0, "2026-01-02T00:00:00", "abcdef0"),
        Line("kills", "two", "a mixture", 0.25, 30.0, "2026-01-03T00:00:00", "abcdef0"),
        Line("tests", "N1", KEPT, 3.0, 0.0, "2026-01-04T00:00:00", "abcdef0", "9 passed"),
        Line("slow", "F1 slow", KEPT, 3.0, 0.0, "2026-01-05T00:00:00", "abcdef0", "1 passed"),
    ]
    assert attack_figure(lines[:2]) == "2 cases, **1 violated**; at most 0.5 s and 30 MB each"
    rows = {row[0]: row for row in cells(render(guarantees(), lines))}
    assert rows["T1"][3].startswith("2 cases") and rows["T1"][4] == "2026-01-03 (abcdef0)"
    assert rows["N1"][3].endswith("9 passed") and rows["N1"][4] == "2026-01-04 (abcdef0)"
    assert rows["F1 slow"][3].endswith("1 passed") and rows["F1 slow"][4] == "2026-01-05 (abcdef0)"
    assert rows["N16 slow"][4] == NOT_RUN and "reliability slow" in rows["N16 slow"][3]
    assert rows["T2"][3] == NOT_RUN
    assert "two" in render(guarantees(), lines).partition("## Violations")[2]


def test_the_date_of_a_study_is_in_its_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not in the history of the repository: there it is another one after a rebase, and none in a shallow clone."""
    monkeypatch.setattr(page, "ROOT", tmp_path)
    (tmp_path / "runs.jsonl").write_text('{"date": "2026-01-05"}\n{"date": "2026-01-07"}\n{"id": "old"}\n', "utf-8")
    assert page._last_run("runs.jsonl") == "2026-01-07"
    (tmp_path / "runs.jsonl").write_text('{"id": "old"}\n', "utf-8")
    assert page._last_run("runs.jsonl") == NOT_RUN
