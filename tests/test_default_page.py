"""The page of the default model and the README's table are what the journal of the study makes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(autouse=True)
def _studies(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(str(ROOT / "studies"))
    yield
    for name in ("graphs", "default_page"):
        sys.modules.pop(name, None)


def test_page_and_readme_are_made_from_the_journal() -> None:
    import default_page
    import graphs

    records = graphs.records(ROOT / "results" / "default" / "runs.jsonl")
    assert len(records) > 800
    assert default_page.page_text(records) == default_page.PAGE.read_text("utf-8"), "python studies/default.py page"
    readme = default_page.README.read_text("utf-8")
    assert default_page.with_table(readme, records) == readme, "python studies/default.py page"
    changed = [
        one | {"accuracy": 0.5} if one["graph"] == "cora" and one["called"] == "lgnsde" else one for one in records
    ]
    assert "| Cora (10) | .500 /" in default_page.with_table(readme, changed)


def test_the_readme_is_short() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    assert len(text.splitlines()) <= 120
    assert text.count("![") == 1
