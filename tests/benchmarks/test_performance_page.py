"""docs/performance.md and docs/scale.md have no figure in their tables that the committed results don't have."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
Script = Callable[[str], ModuleType]


def write(folder: Path, name: str, **found: Any) -> None:
    (folder / f"{name}.json").write_text(json.dumps({"quick": False, **found}))


def test_the_page_shows_the_committed_results() -> None:
    done = subprocess.run(
        [sys.executable, BENCHMARKS / "page.py", "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_every_table_is_made_from_results(script: Script) -> None:
    page = script("page")
    text = "".join(one.read_text(encoding="utf-8") for one in page.PAGES)
    marked = [found["name"] for found in page.MARKED.finditer(text)]
    assert sorted(marked) == sorted(page.TABLES)
    measured = [one for one in page.PAGES if one.name != "runs.md"]  # which has tables of words, too
    outside = page.MARKED.sub("", "".join(one.read_text(encoding="utf-8") for one in measured))
    assert not [line for line in outside.splitlines() if line.startswith("|")]


def test_goals_that_are_missed_are_marked(script: Script, tmp_path: Path) -> None:
    page = script("page")
    write(tmp_path, "solver", epoch_over_gcn=4.5, epoch_over_floor=2.0)
    rows = page.solver(page.Results(tmp_path)).splitlines()
    gcn = next(row for row in rows if "PyG GCN" in row)
    floor = next(row for row in rows if "matrix products alone" in row)
    assert "4.50, **missed**" in gcn and "≤ 4" in gcn and "not measured" in gcn
    assert "2.00 |" in floor and "missed" not in floor


def test_trials_are_no_results(script: Script, tmp_path: Path) -> None:
    page = script("page")
    (tmp_path / "memory.json").write_text(json.dumps({"quick": True, "added_mib": {"store": {"L10": 1.0}}}))
    assert page.memory(page.Results(tmp_path)) == "(not measured)"


def test_a_page_that_differs_is_noticed_and_mended(tmp_path: Path) -> None:
    write(tmp_path, "memory", added_mib={"store": {"L10": 71.4}})
    text = tmp_path / "page.md"
    text.write_text("before\n<!-- table: memory -->\nold\n<!-- end -->\nafter\n")
    command = [sys.executable, BENCHMARKS / "page.py", "--page", text, "--results", tmp_path]
    assert subprocess.run([*command, "--check"], capture_output=True, check=False).returncode == 1
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0
    assert "| store | 71 |  |  |" in text.read_text() and text.read_text().startswith("before\n")
    assert subprocess.run([*command, "--check"], capture_output=True, check=False).returncode == 0


def test_a_run_is_done_once_per_source_and_machine(script: Script, tmp_path: Path) -> None:
    everything = script("everything")
    here = {"revision": "a", "cpu": "c", "torch": "t", "torch_uses": "AVX512"}
    step = everything.Step("memory", "memory.py")
    assert not step.done(tmp_path, here)
    write(tmp_path, "memory", machine=here)
    assert step.done(tmp_path, here) and not step.done(tmp_path, {**here, "revision": "b"})
    write(tmp_path, "memory", machine=here, complete=False)
    assert not step.done(tmp_path, here)
    (tmp_path / "memory.json").write_text(json.dumps({"quick": True, "machine": here}))
    assert not step.done(tmp_path, here)


def test_a_run_by_other_instruction_sets_is_another(script: Script, tmp_path: Path) -> None:
    everything = script("everything")
    here = {"revision": "a", "cpu": "c", "torch": "t", "torch_uses": "AVX512"}
    write(tmp_path, "solver", machine={**here, "torch_uses": "AVX2"})
    assert not everything.Step("solver", "solver.py").done(tmp_path, here)
    assert everything.Step("solver", "solver.py", environment={"ATEN_CPU_CAPABILITY": "avx2"}).done(tmp_path, here)


def test_what_a_stopped_run_has_left_is_gone_on_with(script: Script, tmp_path: Path) -> None:
    report, here = script("_report"), script("_machine").machine()
    given = argparse.Namespace(out=tmp_path)
    assert report.kept("peers", given) == {}
    report.keep("peers", {"plain": {"cora": 1}, "quick": False, "complete": False, "machine": here}, given)
    assert report.kept("peers", given)["plain"] == {"cora": 1}
    report.keep("peers", {"quick": False, "complete": False, "machine": {**here, "revision": "other"}}, given)
    assert report.kept("peers", given) == {}
    report.keep("peers", {"quick": True, "complete": True, "machine": here}, given)
    assert report.kept("peers", given) == {}


def test_make_bench_is_short_enough(script: Script) -> None:
    everything = script("everything")
    steps = everything.steps()
    assert len({step.name for step in steps}) == len(steps)
    assert all((BENCHMARKS / step.script).exists() for step in steps)
