"""Small graphs and the place of the real data, shared by the tests."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from graphsde.graph.build import from_arrays
from graphsde.graph.graph import Graph


def real_data() -> Path | None:
    """The raw benchmark files: ``GRAPHSDE_DATA``, or ``../shared/data`` beside the checkout."""
    for folder in (os.environ.get("GRAPHSDE_DATA"), Path(__file__).resolve().parents[1] / ".." / "shared" / "data"):
        if folder and (Path(folder) / "Cora").is_dir():
            return Path(folder)
    return None


needs_real_data = pytest.mark.skipif(real_data() is None, reason="the benchmark files are not on this machine")


def more_data(name: str) -> Path:
    """A file of the folder ``more`` beside the benchmark files; the test is skipped where it is not there."""
    folder = real_data()
    if folder is None or not (folder / "more" / name).is_file():
        pytest.skip(f"more/{name} is not on this machine")
    return folder / "more" / name


def block_graph(seed: int = 0, per_class: int = 10, classes: int = 3, features: int = 8) -> Graph:
    """A small, easy graph: dense blocks, features that tell the class, half of the nodes for training."""
    rng = np.random.default_rng(seed)
    n = per_class * classes
    labels = np.repeat(np.arange(classes), per_class)
    means = rng.normal(size=(classes, features)) * 2
    x = (means[labels] + rng.normal(size=(n, features))).astype(np.float32)
    same = labels[:, None] == labels[None, :]
    upper = np.triu(rng.random((n, n)) < np.where(same, 0.4, 0.04), 1)
    role = np.arange(n) % 10
    return from_arrays(
        x,
        np.stack(np.nonzero(upper)),
        labels=labels,
        class_names=[f"class {c}" for c in range(classes)],
        train_mask=role < 4,
        val_mask=(role >= 4) & (role < 6),
        calibration_mask=role == 6,
        test_mask=role > 6,
        name="blocks",
    )


def as_before_guards(folder: Path) -> None:
    """Make a run or a model one of a version that wrote neither manifests nor digests of ``model.json``."""
    (folder / "manifest.json").unlink(missing_ok=True)
    if (path := folder / "environment.json").is_file():
        told = json.loads(path.read_text())
        told.pop("manifest", None)
        path.write_text(json.dumps(told))
    if (path := folder / "model.json").is_file():
        description = json.loads(path.read_text())
        description["sha256"].pop("model.json", None)
        path.write_text(json.dumps(description))
