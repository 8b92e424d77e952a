"""The simulation of a cluster: closed forms, planted laws, and what was measured."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]
Script = Callable[[str], ModuleType]


def test_without_a_network_work_is_divided(script: Script) -> None:
    traffic = script("traffic")
    job, free = traffic.Job(12.0, 1e6, 256.0, 40.0, 30.0, 1e6), traffic.Network(0.0, 0.0)
    assert traffic.epoch(job, free, 1, 0.0)["seconds"] == 12.0
    for workers in (2, 8, 64):
        assert traffic.epoch(job, free, workers, 3.0)["seconds"] == pytest.approx(12.0 * traffic.IMBALANCE / workers)


def test_what_travels_is_rows_times_their_bytes(script: Script) -> None:
    traffic = script("traffic")
    network = traffic.Network(call=0.0, copy=0.0, bandwidth=1e9)
    found = traffic.epoch(traffic.Job(0.0, 1e6, 256.0, 20.0, 0.0), network, 4, halo_share=2.0)
    one_step = traffic.IMBALANCE * 2.0 * 1e6 / 4 * 256
    assert found["halo_bytes"] == pytest.approx(one_step)
    assert found["seconds"] == pytest.approx(20 * one_step / 1e9)
    waits = traffic.epoch(traffic.Job(0.0, 1e6, 256.0, 20.0, 5.0), traffic.Network(0.0, 0.0, latency=1e-3), 4, 2.0)
    assert waits["seconds"] == pytest.approx(20 * 1e-3 + 5 * 3 * 1e-3)  # sums go round a ring


def halo_rows(law: Callable[[int], float]) -> list[dict[str, object]]:
    sizes = {"nodes": 1000, "entries": 50_000}
    return [
        {"graph": "g", "method": "metis", "parts": p, "halo": 1000 * law(p), **sizes} for p in (2, 4, 8, 16, 32, 64)
    ]


def test_halos_between_and_beyond_what_was_measured(script: Script) -> None:
    halos = script("traffic").Halos(halo_rows(lambda parts: 0.1 * parts**0.7), "g")
    for parts in (2, 3, 8, 50, 64, 200, 1024):
        assert halos.share(parts) == pytest.approx(0.1 * parts**0.7)
    assert halos.share(1) == 0.0
    assert halos.share(10**6) == 50.0  # no more than one row an edge


def test_more_workers_stop_helping_where_latency_takes_over(script: Script) -> None:
    traffic = script("traffic")
    halos = traffic.Halos(halo_rows(lambda parts: 0.1), "g")
    job = traffic.Job(1.0, 1e5, 256.0, 0.0, 10.0)
    rows = traffic.simulate(job, traffic.Network(0.0, 0.0, latency=1e-4), halos, [2**power for power in range(12)])
    found = traffic.stops_helping(rows)
    # 1.05 / W = 10 · 1e-4 · W is the fastest, at W = 32; a double that is 1.25 times faster lies before it
    assert found is not None and 8 <= found <= math.sqrt(1.05 / 1e-3)
    assert traffic.stops_helping(rows[:3]) is None


def test_measured_workers_are_predicted() -> None:
    """What was measured, as it is committed: the simulation is right where it can be compared."""
    path = ROOT / "results" / "scale" / "traffic.json"
    if not path.is_file():
        pytest.skip("results/scale/traffic.json is not there: python benchmarks/traffic.py")
    found = json.loads(path.read_text(encoding="utf-8"))
    assert {row["workers"] for row in found["check"]} == {2, 4}
    for row in found["check"]:
        assert 1 / found["factor"] <= row["ratio"] <= found["factor"], row
