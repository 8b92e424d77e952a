"""A handful of cases of each attack, in a process of their own: they fork, which a process with threads must not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from reliability.attacks import ATTACKS
from reliability.journal import ROOT, Journal, Line

ATTACKED = [name for name in ATTACKS if name not in ("tests", "slow")]


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> list[Line]:
    if not sys.platform.startswith("linux"):
        pytest.skip("the attacks watch processes by what Linux shows of them")
    journal = tmp_path_factory.mktemp("attacks") / "runs.jsonl"
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "reliability", *ATTACKED, "--quick", "--jobs", "1", "--journal", str(journal)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr  # 1: a guarantee is violated, which the test below reports
    return Journal(journal).lines()


@pytest.mark.parametrize("attack", ATTACKED)
def test_guarantees_hold(lines: list[Line], attack: str) -> None:
    mine = [line for line in lines if line.attack == attack]
    assert len(mine) >= 6
    assert [f"{line.case}: {line.outcome}" for line in mine if not line.kept] == []


def test_the_corpus_is_small() -> None:
    files = [path for path in (ROOT / "reliability" / "corpus").rglob("*") if path.is_file()]
    assert files and sum(path.stat().st_size for path in files) < 200_000
    assert not [path for path in files if b"/tmp/" in path.read_bytes() or b"/home/" in path.read_bytes()]


def test_every_attack_has_a_guarantee() -> None:
    from reliability.guarantees import guarantees

    assert {one.attack for one in guarantees() if one.attack} == set(ATTACKED)


def test_files_stay_small() -> None:
    for path in Path(ROOT / "reliability").glob("*.py"):
        assert len(path.read_text(encoding="utf-8").splitlines()) <= 600
