"""The benchmark of limits sees what a process and its children hold, and which of it no file backs."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

Script = Callable[[str], ModuleType]
HOLD = "import time; held = bytearray(b'x') * (96 << 20); time.sleep(1.5)"
MAPPED = """
import mmap, sys, time
with open(sys.argv[1], "r+b") as file:
    pages = mmap.mmap(file.fileno(), 0)
seen = sum(pages[i] for i in range(0, len(pages), 4096))
time.sleep(1.5)
"""

pytestmark = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="this system has no /proc")


def test_memory_of_a_process_and_of_its_children(script: Script) -> None:
    limits = script("limits")
    _, alone = limits.watch([sys.executable, "-c", HOLD])
    assert 96 << 20 <= alone.anonymous < 160 << 20 and alone.resident >= alone.anonymous
    below = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {HOLD!r}], check=True)"
    _, both = limits.watch([sys.executable, "-c", below])
    assert both.anonymous >= alone.anonymous


def test_pages_of_files_are_not_anonymous(script: Script, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(96 << 20))
    _, found = script("limits").watch([sys.executable, "-c", MAPPED, str(path)])
    assert found.resident >= 96 << 20 and found.anonymous < 48 << 20


def test_a_command_that_fails_is_no_measurement(script: Script) -> None:
    with pytest.raises(RuntimeError, match="out of luck"):
        script("limits").watch([sys.executable, "-c", "raise SystemExit('out of luck')"])


def test_the_page_marks_what_is_above_the_limit(script: Script, tmp_path: Path) -> None:
    page = script("page")
    rows = {
        "decide": {"cpu_seconds": 9.6, "anonymous_mib": 700, "resident_mib": 1800},
        "report": {"cpu_seconds": 20.0, "anonymous_mib": 2049, "resident_mib": 3000},
    }
    (tmp_path / "limits.json").write_text(json.dumps({"quick": False, "limit_mib": 2048, "verbs": rows}))
    lines = page.limits(page.Results(tmp_path)).splitlines()
    assert lines[2] == "| `decide` | 10 | 700 | 1,800 |"
    assert lines[3] == "| `report` | 20 | 2,049, **missed** | 3,000 |"


def test_every_verb_has_a_command(script: Script, tmp_path: Path) -> None:
    limits = script("limits")
    for verb in limits.NAMES:
        words = limits.command_of(verb, "synthetic:50", tmp_path / "run", tmp_path, "2G")
        assert words[3] == verb.split()[0] and ("--memory" in words) == (verb != "check")
