"""What a shell offers while a command is typed, and the script that asks for it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from graphsde.cli.app import VERBS
from graphsde.cli.options import MOST_LOOKED_AT, graphs_and_runs, names_in, run_folders
from graphsde.cli.show import KINDS, rows_of

HEAVY = {"torch", "numpy", "scipy", "sklearn", "pyarrow", "pandas"}


def offered(*words: str, cwd: Path) -> list[str]:
    """What bash is told after ``words``, the last of which is being typed."""
    asked = {"COMP_WORDS": " ".join(["graphsde", *words]), "COMP_CWORD": str(len(words))}
    found = subprocess.run(
        [sys.executable, "-m", "graphsde"], env={**os.environ, **asked, "_GRAPHSDE_COMPLETE": "complete_bash"},
        cwd=cwd, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return found.stdout.split()


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for name, mark in (("runs/first", "manifest.json"), ("runs/second", "model.json"), ("table", "bench.json")):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / mark).write_text("{}")
    (tmp_path / "runs" / "first" / "history" / "0").mkdir(parents=True)
    (tmp_path / "runs" / "first" / "history" / "0" / "manifest.json").write_text("{}")
    (tmp_path / "runs" / "notes").mkdir()
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden" / "manifest.json").write_text("{}")
    return tmp_path


def test_verbs_names_and_runs_are_completed(place: Path) -> None:
    assert set(offered("re", cwd=place)) == {name for name in VERBS if name.startswith("re")}
    assert offered("fit", "digits", "--model", "label", cwd=place) == ["label-propagation"]
    assert offered("report", "r", cwd=place) == ["runs/first", "runs/second"]
    assert "--max-error" in offered("decide", "runs/first", "--max", cwd=place)


def test_names_are_those_of_the_lists() -> None:
    for kind in KINDS:
        assert [name for name, _ in names_in(kind)("")] == [row["name"] for row in rows_of(kind)]
    assert [name for name, _ in names_in("models")("gcn,lgns")] == ["gcn,lgnsde"]
    assert names_in("models")("nothing-like-it") == []


def test_runs_are_found_below_what_is_typed(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    assert run_folders("") == ["runs/first", "runs/second", "table"]  # neither hidden ones nor past rounds
    assert run_folders("runs/s") == ["runs/second"]
    assert run_folders(f"{place}/ta") == [f"{place}/table"]
    assert run_folders(".h") == [".hidden"]
    assert run_folders("nowhere/x") == []
    assert graphs_and_runs("ta") == ["table"] and "digits" in graphs_and_runs("d")


def test_a_large_disk_is_not_searched_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(MOST_LOOKED_AT + 20):
        (tmp_path / f"{number:04d}").mkdir()
        (tmp_path / f"{number:04d}" / "manifest.json").touch()
    monkeypatch.chdir(tmp_path)
    assert len(run_folders("")) == MOST_LOOKED_AT


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_for_the_program(shell: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "graphsde", "--show-completion"], capture_output=True, text=True, check=True,
        env={**os.environ, "_GRAPHSDE_COMPLETE": f"source_{shell}"},
    )  # fmt: skip
    assert "_GRAPHSDE_COMPLETE" in done.stdout and "graphsde" in done.stdout and "python" not in done.stdout


def test_completing_loads_nothing_heavy(place: Path) -> None:
    lines = ["import sys", "from graphsde.cli.options import names_in, run_folders"]
    lines += ["names_in('models')(''), run_folders('')", "print(*sys.modules)"]
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], cwd=place, capture_output=True, text=True)
    assert done.returncode == 0 and not {name.partition(".")[0] for name in done.stdout.split()} & HEAVY
