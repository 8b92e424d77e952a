"""Work in a process of its own: followed, cancelled, and told in words when it fails."""

from __future__ import annotations

import shutil
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphsde.base.errors import BadUsage
from graphsde.datasets.benchmarks import load
from graphsde.datasets.source import GraphSource
from graphsde.runs.folder import RunFolder
from graphsde.view.app.jobs import Jobs
from graphsde.view.app.labelling import round_curve
from graphsde.view.app.library import OpenRun
from graphsde.view.app.work import work


def fitting(out: Path, **changes: Any) -> dict[str, Any]:
    request = {
        "kind": "fit",
        "name": out.name,
        "out": str(out),
        "source": asdict(GraphSource("digits")),
        "model": "gcn",
        "settings": {"epochs": 3},
        "seed": 0,
        "samples": 1,
    }
    return request | changes


def test_a_fit_is_followed_and_cancelled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graphsde.view.app.jobs.PATIENCE", 600.0)  # a busy machine may save slowly
    jobs = Jobs(tmp_path / "jobs")
    out = tmp_path / "run"
    long = fitting(out, settings={"epochs": 5000, "early_stop": False})
    job = jobs.start(long)
    with pytest.raises(BadUsage, match="another fit"):
        jobs.start(fitting(tmp_path / "second"))
    limit = time.monotonic() + 600
    while not job.progress().history and job.running and time.monotonic() < limit:
        time.sleep(0.1)
    seen = job.progress()
    assert seen.state == "running" and seen.epochs == 5000 and 0 < seen.share < 1 and "memory" in seen.said[0]
    job.cancel()
    assert job.progress().state == "cancelled" and job.progress().error is None
    assert RunFolder(out).work.checkpoint.path.exists() and not RunFolder(out).finished, "what was reached is saved"
    jobs.forget()
    assert jobs.current is None


def request_in(folder: Path, request: dict[str, Any]) -> Path:
    from graphsde.base import storage

    storage.write_json(folder / "request.json", request)
    return folder


def test_a_failure_is_told_in_words(tmp_path: Path) -> None:
    folder = request_in(tmp_path / "job", fitting(tmp_path / "run", source=asdict(GraphSource("no such graph"))))
    assert work(folder) == 65
    text = (folder / "progress.jsonl").read_text()
    assert "E-NOT-A-FILE" in text and "Traceback" not in text
    assert work(request_in(tmp_path / "other", {"kind": "fit"})) == 70


def test_labels_are_learned_and_the_curve_moves(runs: Path, tmp_path: Path) -> None:
    run = tmp_path / "paths"
    shutil.copytree(runs / "paths", run)
    graph = load("digits")
    assert graph.labels is not None and graph.test_mask is not None
    nodes = [node for node in range(graph.num_nodes) if graph.test_mask[node]][:5]
    labels = [[node, graph.class_names[graph.labels[node]]] for node in nodes]
    request = {"kind": "learn", "name": "paths", "run": str(run), "labels": labels}
    folder = request_in(tmp_path / "job", request)
    assert work(folder) == 0, (folder / "progress.jsonl").read_text()
    assert "5 new labels in round 1" in (folder / "progress.jsonl").read_text()
    opened = OpenRun(run, samples=4)
    before, after = round_curve(opened).rounds
    assert (before.labels, after.labels) == (200, 205) and before.doubt != after.doubt
    # both points are about the test nodes of today
    earlier = OpenRun(run / "history" / "0", samples=4)
    rest = opened.graph.test_mask
    assert rest is not None and rest.sum() == graph.test_mask.sum() - 5
    for point, then in ((before, earlier.prediction), (after, opened.prediction)):
        assert point.quality == pytest.approx(float((then.index == graph.labels)[rest].mean()))


def test_numbers_are_learned_and_the_error_is_told(numbers: Path, tmp_path: Path) -> None:
    run = tmp_path / "patients"
    shutil.copytree(numbers, run)
    graph = load("diabetes")
    assert graph.values is not None
    nodes = np.flatnonzero(graph.role("test"))[:3].tolist()
    request = {
        "kind": "learn",
        "name": "patients",
        "run": str(run),
        "labels": [[n, float(graph.values[n])] for n in nodes],
    }
    folder = request_in(tmp_path / "job", request)
    assert work(folder) == 0, (folder / "progress.jsonl").read_text()
    assert "RMSE on the same test nodes" in (folder / "progress.jsonl").read_text()
    opened, earlier = OpenRun(run), OpenRun(run / "history" / "0")
    before, after = round_curve(opened).rounds
    rest = opened.graph.role("test")
    assert after.labels == before.labels + 3 and rest.sum() == graph.role("test").sum() - 3
    for point, then in ((before, earlier.prediction), (after, opened.prediction)):
        error = np.sqrt(np.square(then.mean - graph.values)[rest].mean())
        assert point.quality == pytest.approx(float(error), rel=1e-6)
