"""One voice: documentation, messages and docstrings are free of the phrases listed in banned_phrases.yaml."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
LISTED: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("banned_phrases.yaml").read_text(encoding="utf-8"))
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md")] + sorted(ROOT.glob("docs/**/*.md"))
SOURCES = sorted((ROOT / "src" / "graphsde").rglob("*.py"))
# code blocks, comments, code spans (single or double back ticks) and the targets of links
NOT_PROSE = re.compile(r"^[ ]*```.*?^[ ]*```|<!--.*?-->|(`+)[^`]+\1|(?<=\])\([^)\s]*\)", flags=re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Rule:
    """A phrase to avoid, what to write instead, and a sentence that the rule finds."""

    phrase: str
    instead: str
    example: str

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        spaced = self.phrase.replace(" ", r"\s+")
        return re.compile(rf"(?<![\w-])(?:{spaced})(?![\w-])", flags=re.IGNORECASE)

    def lines(self, words: str) -> list[int]:
        """Line numbers, from 1, at which prose has the phrase."""
        return [words.count("\n", 0, found.start()) + 1 for found in self.pattern.finditer(words)]


def prose(text: str) -> str:
    """A text without code and targets of links, every word on its line."""
    return NOT_PROSE.sub(lambda found: "\n" * found[0].count("\n") + "·", text)


DOCS, SOURCE = ([Rule(**one) for one in LISTED[part]] for part in ("docs", "source"))


def strings(path: Path) -> Iterator[tuple[int, str]]:
    """Messages and docstrings of a file with their lines; a string of one word is a name, not prose."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value.split()) > 1:
            yield node.lineno, prose(node.value)


def in_page(path: Path, rules: list[Rule], known: list[str]) -> list[str]:
    words = prose(path.read_text(encoding="utf-8"))
    return [
        f"{path.name}:{line}: '{rule.phrase}', write: {rule.instead}"
        for rule in rules
        if rule.phrase not in known
        for line in rule.lines(words)
    ]


def in_source(path: Path, rules: list[Rule]) -> list[str]:
    return [
        f"{path.name}:{first + line - 1}: '{rule.phrase}', write: {rule.instead}"
        for first, words in strings(path)
        for rule in rules
        for line in rule.lines(words)
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_page_has_no_banned_phrase(page: Path) -> None:
    known = LISTED["not_yet"].get(page.relative_to(ROOT).as_posix(), [])
    assert in_page(page, DOCS, known) == []


def test_messages_and_docstrings_have_no_banned_phrase() -> None:
    assert [found for path in SOURCES for found in in_source(path, SOURCE)] == []


def test_exceptions_name_pages_and_rules_that_exist() -> None:
    for page, phrases in LISTED["not_yet"].items():
        assert (ROOT / page).is_file()
        assert set(phrases) <= {rule.phrase for rule in DOCS}


@pytest.mark.parametrize("rule", DOCS, ids=lambda rule: rule.phrase)
def test_a_rule_for_pages_can_fail(rule: Rule, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"# Title\n\n{rule.example}\n", encoding="utf-8")
    assert [line for line in in_page(page, [rule], []) if line.startswith("page.md:3:")]
    page.write_text(f"# Title\n\n`{rule.example}`\n\n```\n{rule.example}\n```\n\n{rule.instead}\n", encoding="utf-8")
    assert in_page(page, [rule], []) == []  # neither in code nor in what is advised


@pytest.mark.parametrize("rule", SOURCE, ids=lambda rule: rule.phrase)
def test_a_rule_for_source_can_fail(rule: Rule, tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(f'def f(x):\n    """Short.\n\n    {rule.example}\n    """\n', encoding="utf-8")
    assert [line for line in in_source(module, [rule]) if line.startswith("module.py:4:")]
    module.write_text(f'def f(x):\n    raise ValueError(f"{{x}}: {rule.example}")\n', encoding="utf-8")
    assert in_source(module, [rule])
    module.write_text(f"# {rule.example}\nname = 'foreign'\n", encoding="utf-8")
    assert in_source(module, [rule]) == []  # comments and names of one word are left alone


def test_a_phrase_is_found_across_lines() -> None:
    assert Rule("told from", "", "").lines("It can be told\n  from it.") == [1]
    assert Rule("beside", "", "").lines(prose("besides, [beside](beside.md)")) == [1]
