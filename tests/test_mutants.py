"""The mutation tester itself: a planted survivor lives, a planted victim dies, and no source file is touched."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

STUDIES = Path(__file__).resolve().parents[1] / "studies"
SOURCE = '''"""Two functions."""


def clipped(x, low=0, high=9):
    """Between two ends."""
    return min(max(x, low), high)


def share(part, whole):
    if part <= 0:
        return 0.0
    return part / whole


def forever(n):
    while n > 0:
        n = n - 1
    return n


def unseen(x):
    return x + 1
'''
TESTS = """from pack.core import clipped, forever, share


def test_share():
    assert share(1, 4) == 0.25
    assert share(-1, 4) == 0.0


def test_clipped():
    assert [clipped(x) for x in (-1, 5, 10)] == [0, 5, 9]


def test_forever():
    assert forever(3) == 0
"""
DRIVER = """
import json, sys
from pathlib import Path
root = Path(sys.argv[1])
import mutants
from mutation_operators import mutants_of
from mutation_runner import Project
import mutation_runner
mutation_runner.GRACE = 0.5
path = "src/pack/core.py"
project = Project(root, (path,), ("tests/test_core.py",))
tests = mutants.coverage(project, root / "coverage.json")
wanted = [one for one in mutants_of(path, project.text(path)) if one.operator in sys.argv[2].split(",")]
lines = mutants.run(project, wanted, tests, root / "runs.jsonl")
print("LINES " + json.dumps(lines))
"""


def driven(root: Path, operators: str) -> tuple[list[dict[str, Any]], str]:
    done = subprocess.run(
        [sys.executable, "-c", DRIVER, str(root), operators],
        capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(STUDIES), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.rpartition("LINES ")[2]), done.stdout


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for file, text in {"src/pack/__init__.py": "", "src/pack/core.py": SOURCE, "tests/test_core.py": TESTS}.items():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(text)
    return tmp_path


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the tool needs os.fork")
def test_victims_die_and_a_survivor_is_reported(project: Path) -> None:
    lines, _ = driven(project, "comparison,min/max,arithmetic")
    became = {(one["before"], one["after"]): one for one in lines}
    victim = became["part / whole", "(part * whole)"]
    assert victim["outcome"] == "killed" and victim["by"] == "tests/test_core.py::test_share"
    assert became["max(x, low)", "(min(x, low))"]["by"] == "tests/test_core.py::test_clipped"
    # nobody tries a part of 0: at that end of the comparison 0/whole is 0 as well, and no test can tell
    assert became["part <= 0", "(part < 0)"]["outcome"] == "alive"
    assert became["n - 1", "(n + 1)"]["by"] == "no answer in time"
    # no test runs its line, so those of the file are tried
    assert became["x + 1", "(x - 1)"]["outcome"] == "alive"
    assert (project / "src/pack/core.py").read_text() == SOURCE


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the tool needs os.fork")
def test_what_is_known_is_not_run_again_unless_its_tests_change(project: Path) -> None:
    _, first = driven(project, "comparison")
    again, second = driven(project, "comparison")
    assert "1/2" in first and "/2 " not in second
    alive = next(one for one in again if one["outcome"] == "alive")
    assert alive["before"] == "part <= 0" and len((project / "runs.jsonl").read_text().splitlines()) == 2
    (project / "tests/test_core.py").write_text(TESTS + "    assert share(0, 0) == 0.0\n")
    lines, third = driven(project, "comparison")
    assert [one["outcome"] for one in lines] == ["killed", "killed"] and third.count("killed by") == 1


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(STUDIES))
    import mutants

    return mutants


def test_operators_by_hand(tool: Any) -> None:
    from mutation_operators import mutants_of

    def after(line: str) -> set[str]:
        return {one.after for one in mutants_of("a.py", f"def f(a, b):\n    {line}\n")}

    assert after("return a <= 2") == {"(a < 2)", "(3)"}
    assert after("return 0.5 * a") == {"(0.5 / a)", "(0.5)", "(a)", "(1.0)"}
    assert after("return -a") == {"(a)"}
    assert after("return range(a)") == {"(range(a - 1))"}
    assert after("a += b") == {"pass"}
    assert after("return g(a, b, alpha=a)") == {"(g(b, a, alpha=a))", "(g(a, b))"}
    assert after("return a if b else 0") == {"(0 if b else a)", "(1)"}
    assert after("raise ValueError(a + 1)") == after('"text"') == after("assert a < b") == set()
    assert after("x: Literal[3] = a") == after("return f'{a + 1}'") == set()
    assert after("return a - 1e-9") == {"(a + 1e-09)"}


def test_the_sample_is_reproducible_and_every_dangerous_mutant_is_still_there(tool: Any) -> None:
    project = tool.this_project()
    chosen = tool.sample(project)
    assert [one.id for one in tool.sample(project)] == [one.id for one in chosen]
    assert len({one.id for one in chosen}) == len(chosen) >= 150 + len(tool.KNOWN["dangerous"])
    assert {one.path for one in chosen} <= set(project.sources)
    for one in chosen:
        text = project.text(one.path)
        compile(one.apply(text), one.path, "exec")
        assert one.apply(text) != text
    assert all(one["reason"].strip() for one in tool.KNOWN["equivalent"])
    # more of the same sample begin with the same ones
    assert tool.drawn(chosen, 5, 0) == tool.drawn(chosen, 9, 0)[:5] != tool.drawn(chosen, 5, 1)
