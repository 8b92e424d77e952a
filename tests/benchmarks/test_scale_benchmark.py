"""Growth: exponents of known laws, a journal that resumes, a picture."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
Script = Callable[[str], ModuleType]
linux = pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="peaks are read from Linux's /proc")


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0, 1.7])
def test_exponents_of_a_power_law(script: Script, power: float) -> None:
    sizes = [1e3, 1e4, 3e4, 1e6]
    found = script("scale").exponents(sizes, [2.5 * size**power for size in sizes])
    assert found["overall"] == pytest.approx(power, abs=2e-3)
    assert found["steps"] == pytest.approx([power] * 3, abs=2e-3)


def test_one_size_has_no_exponent(script: Script) -> None:
    assert script("scale").exponents([10.0], [1.0]) == {"overall": None, "steps": []}


def test_what_the_paper_claims(script: Script) -> None:
    claimed, sizes = script("_scale_picture").claimed, np.array([4.0, 16.0])
    assert claimed("steps", "epoch_seconds", sizes)[1] / claimed("steps", "epoch_seconds", sizes)[0] == pytest.approx(8)
    assert claimed("steps", "epoch_peak_gb", sizes).tolist() == [1.0, 1.0]
    assert claimed("nodes", "epoch_seconds", sizes).tolist() == sizes.tolist()
    assert claimed("degree", "epoch_seconds", sizes).tolist() == [5.0, 17.0]  # |E| + |V| edges and nodes for each node
    assert claimed("nodes", "epoch_peak_gb", sizes) is None


def test_a_journal_knows_what_is_left_to_measure(script: Script, tmp_path: Path) -> None:
    scale = script("scale")
    here = {"revision": "a", "cpu": "c", "torch": "t", "torch_uses": "AVX2"}
    point, other = scale.Point("paper", 10, 2, 3), scale.Point("default", 10, 2, 3)
    path = tmp_path / "deep" / "journal.jsonl"
    scale.Journal(path).add(point, {"epoch": {"seconds": 1.0}}, here)
    with path.open("a") as file:
        file.write('{"point": {"model": "def')  # stopped in the middle
    journal = scale.Journal(path)
    assert journal.has(point, here) and not journal.has(other, here)
    assert not journal.has(point, {**here, "revision": "b"})
    journal.add(point, {"epoch": {"seconds": 2.0}}, here)
    assert journal.last(point)["epoch"]["seconds"] == 2.0
    journal.add(point, {"failed": "out of memory"}, here)
    assert not journal.has(point, here)


def test_a_line_after_half_a_line_is_not_lost(script: Script, tmp_path: Path) -> None:
    scale = script("scale")
    here = {"revision": "a", "cpu": "c", "torch": "t", "torch_uses": "AVX2"}
    path, point = tmp_path / "journal.jsonl", scale.Point("paper", 10, 2, 3)
    path.write_text('{"point": {"mod')
    scale.Journal(path).add(point, {"epoch": {"seconds": 1.0}}, here)
    assert scale.Journal(path).has(point, here)


def test_the_large_point_is_one_of_those_measured(script: Script) -> None:
    scale = script("scale")
    assert scale.LARGE in scale.SWEEPS["nodes"]["paper"]
    assert (scale.LARGE.nodes * scale.LARGE.degree, scale.LARGE.width, scale.LARGE.steps) == (10**7, 64, 10)


@linux
@pytest.mark.slow
def test_a_quick_run_measures_draws_and_resumes(tmp_path: Path) -> None:
    journal, picture = tmp_path / "scale.jsonl", tmp_path / "scale.png"
    command = [sys.executable, BENCHMARKS / "scale.py", "--quick", "--json", "--journal", journal]
    done = subprocess.run([*command, "--picture", picture], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    rows = found["sweeps"]["nodes"]["default"]["rows"]
    assert [row["size"] for row in rows] == [100, 200]
    assert all(row["epoch_seconds"] > 0 and row["epoch_peak_gb"] > 0 and row["samples"] == 64 for row in rows)
    assert picture.stat().st_size > 0
    lines = journal.read_text()
    again = subprocess.run(command, capture_output=True, text=True, check=False)
    assert again.returncode == 0, again.stderr
    assert journal.read_text() == lines
    assert json.loads(again.stdout)["sweeps"] == found["sweeps"]
