"""The committed list of what is guaranteed and by which tests; and an attack that runs those tests."""

from __future__ import annotations

import ast
import functools
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

from reliability.arena import Arena, Case, Verdict
from reliability.journal import ROOT

LIST = Path(__file__).with_name("guarantees.yaml")
NOTHING_RAN = 5  # pytest's exit code where no test was left to run


@dataclass(frozen=True)
class Guarantee:
    """One row of the page; the keys are explained at the top of the list."""

    group: str
    id: str
    statement: str
    tests: tuple[str, ...]
    figure: str = ""
    attack: str | None = None
    slow: bool = False
    journal: str | None = None


def guarantees() -> list[Guarantee]:
    listed = yaml.safe_load(LIST.read_text(encoding="utf-8"))
    return [
        Guarantee(group=part["group"], **{**one, "id": str(one["id"]), "tests": tuple(one["tests"])})
        for part in listed
        for one in part["guarantees"]
    ]


def is_a_test(name: str) -> bool:
    """Whether ``file::function`` is a test of this checkout."""
    file, _, function = name.partition("::")
    path = ROOT / file
    return path.is_file() and function in _functions(path)


@functools.cache
def _functions(path: Path) -> frozenset[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def named_tests(arena: Arena) -> Iterator[Case]:
    """The ordinary tests behind the guarantees, so that the page can say when they last passed."""
    return _cases([one for one in guarantees() if one.attack is None and not one.slow], arena)


def slow_tests(arena: Arena) -> Iterator[Case]:
    """Those that take longer than all the others together."""
    return _cases([one for one in guarantees() if one.slow], arena)


def _cases(asked: list[Guarantee], arena: Arena) -> Iterator[Case]:
    for one in asked[:1] if arena.quick else asked:
        yield Case(one.id, lambda g=one: _run(g))  # type: ignore[misc]


def _run(guarantee: Guarantee) -> Verdict:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--no-header", *guarantee.tests]
    command += ["-m", "slow"] if guarantee.slow else []
    path = os.pathsep.join([str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])])
    begin = time.perf_counter()
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": path}
    )
    last = done.stdout.strip().splitlines()[-1] if done.stdout.strip() else done.stderr[-200:]
    counts = ", ".join(re.findall(r"\d+ (?:passed|failed|skipped|error\w*)", last))
    found = [] if done.returncode == 0 and "passed" in counts else [last[:300]]
    if done.returncode == NOTHING_RAN:
        found = ["no test was run"]
    return Verdict(found, time.perf_counter() - begin, 0.0, counts)
