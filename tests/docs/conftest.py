"""Small graphs and short trainings, so that every block and every notebook runs within seconds."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from graphsde.datasets import benchmarks
from graphsde.datasets.synthetic import synthetic
from graphsde.graph.graph import Graph
from graphsde.nn.training import Training

EPOCHS = 4
EMBEDDED = ("digits", "diabetes")


@pytest.fixture
def short_trainings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every training ends after a few epochs, whatever its settings say."""
    make = Training.__init__

    def shortened(self: Training, learner: Any, settings: Any, **rest: Any) -> None:
        make(self, learner, settings.model_copy(update={"epochs": min(settings.epochs, EPOCHS)}), **rest)

    monkeypatch.setattr(Training, "__init__", shortened)


@pytest.fixture
def small_benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A made-up graph of 200 nodes under the name of each benchmark that has to be downloaded."""
    known = benchmarks.DATASETS.get

    def small(kind: str) -> Callable[..., Graph]:
        if "fingerprint" not in benchmarks.DATASETS.entry(kind).facts or kind in EMBEDDED:
            return known(kind)
        return lambda **_: dataclasses.replace(synthetic(200, classes=4), name=kind)

    monkeypatch.setattr(benchmarks.DATASETS, "get", small)
    monkeypatch.setattr(benchmarks, "_proven", lambda graph, name, fingerprint: graph)
