"""Calibrating a run again: what got worse is said, with the command that goes back."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import graphsde as gs
from cli_support import graphsde
from graphsde.runs.calibrate import calibrate_run
from graphsde.runs.folder import RunFolder


def saved(folder: Path, factor: float) -> Path:
    """A run with logits that are too large by a factor, and 24 validation nodes: enough for a temperature, too few for
    an offset per class."""
    rng = np.random.default_rng(0)
    nodes, classes = 1200, 6
    logits = rng.normal(size=(nodes, classes)) * 1.5
    probs = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    labels = np.array([rng.choice(classes, p=row) for row in probs])
    role = np.arange(nodes)
    graph = gs.from_arrays(
        np.ones((nodes, 1)), np.stack([role, (role + 1) % nodes]), labels=labels, class_names=list("abcdef"),
        train_mask=role < 100, val_mask=(role >= 100) & (role < 124), test_mask=role >= 124,
    )  # fmt: skip
    prediction = gs.Prediction.from_logits(factor * logits, graph)
    return gs.save_run(prediction, graph, folder / "run")


def test_a_calibrator_that_made_things_worse_is_named_with_the_way_back(tmp_path: Path) -> None:
    run = saved(tmp_path, 3.0)
    assert "warning" not in graphsde("calibrate", run, "--by", "temperature").stderr
    before = (run / "predictions.parquet").read_bytes()
    told: list[str] = []
    outcome = calibrate_run(RunFolder(run), "vector", say=told.append)
    assert outcome.after["nll"] > outcome.before["nll"]
    (warned,) = [one for one in told if "NLL got worse" in one]
    assert f"from {outcome.before['nll']:.4g} to {outcome.after['nll']:.4g}" in warned
    command = warned.partition("go back to what the run had: ")[2].split()
    assert command == ["graphsde", "calibrate", str(run), "--by", "temperature"]
    back = graphsde(*command[1:])
    assert back.exit_code == 0 and "warning" not in back.stderr  # better is not remarked on
    assert (run / "predictions.parquet").read_bytes() == before


def test_without_a_former_calibrator_the_way_back_is_none(tmp_path: Path) -> None:
    run = saved(tmp_path, 1.0)
    assert f"graphsde calibrate {run} --by none" in graphsde("calibrate", run, "--by", "vector").stderr
