"""The benchmarks run and print what they guarantee; what they measure is no test's business."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from graphsde.datasets.source import GraphSource
from graphsde.runs.fit import FitRequest, fit_run
from graphsde.runs.folder import RunFolder
from warm_process import start

pytest.importorskip("torchsde", reason="torchsde, the peer, is not installed")
pytest.importorskip("torch_geometric", reason="torch_geometric, the peer, is not installed")
BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"


def printed(name: str, *words: object, folder: Path) -> str:
    """What a benchmark prints, once it has ended well."""
    done = start(BENCHMARKS / name, *words, folder=folder)
    assert done.ended() == 0, done.errors.read_text()
    return done.out.read_text()


@pytest.mark.slow
def test_solver_benchmark_prints_one_object() -> None:
    done = subprocess.run(
        [sys.executable, BENCHMARKS / "solver.py", "--quick", "--json"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    assert set(figures["epoch_speedup_vs_torchsde"]) == {"d64_L10", "d16_L100", "d256_L10"}
    assert set(figures["euler_like_for_like_by_size"]) == {"d64_L10", "d16_L100"}
    assert figures["euler_like_for_like"] == figures["euler_like_for_like_by_size"]["d64_L10"]
    assert set(figures) >= {
        "euler_like_for_like", "predict32_speedup", "epoch_over_gcn", "epoch_over_floor", "peak_ratio_L100_L10",
        "checkpoint_time_ratio", "n",
    }  # fmt: skip


def test_threads_are_timed_apart(tmp_path: Path) -> None:
    command = [sys.executable, BENCHMARKS / "solver.py", "--threads", "--quick", "--out", tmp_path]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "threads.json").read_text())["threads2_speedup"] > 0


@pytest.mark.slow
def test_the_written_gradient_can_be_switched_off() -> None:
    command = [sys.executable, BENCHMARKS / "solver.py", "--adjoint", "--quick", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    assert len(figures["adjoint"]) == 6 and figures["machine"]["cpu"]
    assert all(set(ratios) == {"drift", "nothing"} for ratios in figures["adjoint"].values())


def test_what_a_verb_costs_after_a_fit(tmp_path: Path) -> None:
    run = tmp_path / "run"
    fit_run(FitRequest(GraphSource("synthetic:200"), "gcn", {"epochs": 2}), RunFolder(run))
    assert float(printed("kept.py", run, "--verb", "evaluate", folder=tmp_path).split()[-1]) > 0


def test_the_wide_table_benchmark_prints_one_object(tmp_path: Path) -> None:
    words = ["--nodes", 60, "--words", 300, "--repeats", 1, "--json"]
    figures = json.loads(printed("wide_csv.py", *words, folder=tmp_path))
    assert len(figures["cpu_seconds"]) == 1 and figures["nodes"] == 60


def test_the_reading_benchmark_prints_one_object(tmp_path: Path) -> None:
    if not Path("/proc/self/clear_refs").exists():
        pytest.skip("peaks of memory are read from /proc")
    figures = json.loads(printed("reading.py", "--nodes", 300, "--columns", 3, "--json", folder=tmp_path))
    assert figures["edges"] == 3000 and set(figures["ids"]) == {"numbers", "text"}
    assert all(one["size_bytes"] > 300 * 3 * 4 and one["cpu_seconds"] >= 0 for one in figures["ids"].values())


def test_the_default_is_measured_beside_its_products(tmp_path: Path) -> None:
    figures = json.loads(printed("default.py", "--quick", "--json", "--out", tmp_path, folder=tmp_path))
    assert figures == json.loads((tmp_path / "default.json").read_text())
    found = figures["graphs"]["synthetic:200"]
    assert found["epoch_over_products"] > 0
    assert found["predict64_over_noise_free"] > 0 and found["validation32_over_epoch"] > 0


def test_what_a_race_costs_is_written_down(tmp_path: Path) -> None:
    words = printed("race.py", "--quick", "--out", tmp_path, folder=tmp_path)
    found = json.loads((tmp_path / "race.json").read_text())
    assert found["race_over_fit"]["synthetic:200"]["mean"] > 0 and found["quick"]
    assert found["machine"]["cpu"] in words
