"""Code blocks of the documentation: which there are, and how they are run.

A Python block is executed, with the names that earlier blocks of its page made. Of a block of commands, every
``graphsde …`` is run as it stands, on small graphs and with short trainings. What can't run says why:
``<!-- not run: reason -->`` on the line before a block (it is compiled or parsed all the same), or an entry in
:data:`PARSED_ONLY` for a verb.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PARSED_ONLY = {
    "app": "serves until it is stopped; tests/view/app runs it",
    "bench": "takes hours as it stands; tests/bench runs smaller ones",
    "compare": "compares what such a bench has left",
    "reproduce": "takes hours as it stands; tests/bench/test_reproduce.py runs smaller ones",
    "search": "takes hours as it stands; tests/bench/test_search.py runs smaller ones",
    "demo": "is a fit of digits and its report, as on other pages",
}
"""Verbs whose commands are parsed, not run."""

_BLOCK = re.compile(
    r"(?:^<!-- not run: (?P<why>[^\n]+) -->\n)?^(?P<fence>```+)(?P<info>[^\n`]*)\n(?P<body>.*?)^(?P=fence)[ \t]*$",
    flags=re.MULTILINE | re.DOTALL,
)
_COMMAND = re.compile(r"^(\$ )?(?:[A-Z_]+=\S+ )*(graphsde|make|pip|python|torchrun|export|head|source|\.venv/\S+)( |$)")


@dataclass(frozen=True)
class Block:
    """One fenced block.

    Args:
        line: where it begins.
        info: what stands after the fence: ``python``, ``yaml``, ``console`` or nothing.
        body: what is inside.
        why_not: why it is not run, where it is not.
        after: the block that follows at once, which may be what the command prints.
    """

    line: int
    info: str
    body: str
    why_not: str | None
    after: str

    def commands(self) -> list[tuple[str, str]]:
        """Commands with what is printed below each; none where the block is no block of commands."""
        rows = self.body.replace("\\\n", " ").splitlines()
        if self.info not in ("", "console") or not rows or not _COMMAND.match(rows[0]):
            return []
        found: list[tuple[str, list[str]]] = []
        for row in rows:
            prompt = rows[0].startswith("$ ")
            if row.startswith("$ ") or (not prompt and row.strip()):
                found.append((row.removeprefix("$ "), []))
            elif found:
                found[-1][1].append(row)
        told = [(command, "\n".join(printed)) for command, printed in found]
        if len(told) == 1 and not told[0][1]:
            told = [(told[0][0], self.after)]
        return told


def pages() -> list[Path]:
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    found = list(_BLOCK.finditer(text))
    made = []
    for place, one in enumerate(found):
        then = found[place + 1] if place + 1 < len(found) else None
        follows = then is not None and not text[one.end() : then.start()].strip() and not then["info"].strip()
        line = text.count("\n", 0, one.start("fence")) + 1
        after = then["body"] if then is not None and follows else ""
        made.append(Block(line, one["info"].strip(), one["body"], one["why"], after))
    return made


def words(command: str) -> tuple[dict[str, str], list[str]]:
    """Environment and words of a command, without its comment; ``[optional]`` parts are left out."""
    parts = shlex.split(re.sub(r"\[[^\]]*\]", "", command), comments=True)
    environment = {}
    while parts and re.fullmatch(r"[A-Z_]+=.*", parts[0]):
        name, _, value = parts.pop(0).partition("=")
        environment[name] = value
    return environment, parts


def every_block() -> Iterator[tuple[Path, Block]]:
    for page in pages():
        for block in blocks(page):
            yield page, block
