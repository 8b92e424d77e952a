"""The folder of a run: its files, their names, and what they must agree on."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import platform
import sys
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import yaml

from graphsde._version import __version__
from graphsde.base import storage
from graphsde.base.errors import BadInput
from graphsde.base.lock import exclusive
from graphsde.base.renames import as_currently
from graphsde.datasets.source import GraphSource, is_benchmark
from graphsde.graph.graph import Graph
from graphsde.metrics.evaluation import evaluate, judged_nodes
from graphsde.models import Model, load_model
from graphsde.prediction import Prediction
from graphsde.runs.label_book import LabelBook
from graphsde.runs.rounds import finish_round


class RunFolder:
    """A run on disk.

    ``config.yaml`` says what was asked for (fully resolved), ``graph.json`` which data it was, ``environment.json``
    where it ran, ``model.json`` and ``model.safetensors`` what was learned, ``metrics.jsonl`` how it went,
    ``predictions.parquet`` what it says of every node, ``report.html`` what to look at. A run that has learned further
    labels has ``labels.json``, ``learned.json`` and its rounds before under ``history/``.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

        self.config, self.graph = self.path / "config.yaml", self.path / "graph.json"
        self.environment, self.metrics = self.path / "environment.json", self.path / "metrics.jsonl"
        self.predictions, self.report = self.path / "predictions.parquet", self.path / "report.html"
        self.checkpoint = self.path / "checkpoint.safetensors"

    @property
    def started(self) -> bool:
        return self.config.is_file()

    @property
    def finished(self) -> bool:
        """``metrics.jsonl`` is written last; with it everything else is there."""
        return self.started and self.metrics.is_file() and (self.path / "model.json").is_file()

    def locked(self) -> contextlib.AbstractContextManager[None]:
        """Only one fit at a time; the lock of a process that died is free again."""
        return exclusive(self.path)

    def write_config(self, config: dict[str, Any]) -> None:
        storage.write_text(self.config, yaml.safe_dump(config, sort_keys=False, allow_unicode=True))

    def read_config(self) -> dict[str, Any]:
        self._require_run()
        try:
            config = as_currently(yaml.safe_load(storage.read_text(self.config)))
            config["model"]["name"]
            config["graph"]["graph"]
        except (yaml.YAMLError, UnicodeDecodeError, TypeError, KeyError, AttributeError) as error:
            raise BadInput("config.yaml is damaged", code="E-CORRUPT", place=str(self.config)) from error
        return config

    def write_environment(self) -> None:
        storage.write_json(self.environment, environment())

    def write_metrics(self, model: Model, evaluation: dict[str, Any]) -> None:
        """One line an epoch, then one line with the test metrics."""
        lines = [{"kind": "epoch", **record.as_dict()} for record in model.history]
        self.write_lines([*lines, {"kind": "evaluation", **without_nan(evaluation)}])

    def write_lines(self, lines: list[dict[str, Any]]) -> None:
        storage.write_text(self.metrics, "".join(json.dumps(line, allow_nan=False) + "\n" for line in lines))

    def read_metrics(self) -> list[dict[str, Any]]:
        self._require_run()
        try:
            return [json.loads(line) for line in storage.read_text(self.metrics).splitlines()]
        except json.JSONDecodeError as error:
            raise BadInput("metrics.jsonl is damaged", code="E-CORRUPT", place=str(self.metrics)) from error

    def load_model(self) -> Model:
        self._require_run()
        if not self.finished:
            raise BadInput(
                f"the run in {self.path} is not finished", code="E-UNFINISHED", fix="run the same fit again: it resumes"
            )
        return load_model(self.path)

    def source(self) -> GraphSource:
        source = GraphSource(**self.read_config()["graph"])
        if source.split is None and not is_benchmark(source.graph) and self.graph.is_file():
            # a folder that was called photo or computers used to get the Amazon graphs' split
            then = json.loads(storage.read_text(self.graph)).get("split")
            return dataclasses.replace(source, split="shchur") if then == "shchur" else source
        return source

    def reading(self, path: str, options: dict[str, Any] | None) -> dict[str, Any]:
        """How to read another graph: as the run's own files, unless ``options`` say otherwise."""
        return {**({} if is_benchmark(path) else self.source().options), **(options or {})}

    def load_graph(self) -> Graph:
        """The graph of this run with its split and what it has learned; refused where the data has changed since."""
        graph, facts = self.source().open()
        then = json.loads(storage.read_text(self.graph))
        for key, what in (("fingerprint", "data"), ("split_hash", "split")):
            if facts[key] != then[key]:
                raise BadInput(
                    f"the {what} of {facts['graph']} has changed since the run was made",
                    code="E-DATA-CHANGED",
                    found=facts[key][:12],
                    expected=then[key][:12],
                    fix="restore the data, fit again, or predict with --graph",
                )
        return LabelBook.of_run(self.path).apply(graph)

    def _require_run(self) -> None:
        finish_round(self.path)
        if not self.started:
            raise BadInput(
                f"there is no run in {self.path}",
                code="E-NO-RUN",
                place=str(self.config),
                fix="make one with: graphsde fit GRAPH --out " + str(self.path),
            )


def environment() -> dict[str, Any]:
    """Where a run happened: versions and machine, nothing personal."""
    import torch

    packages = {}
    for name in ("numpy", "scipy", "scikit-learn", "pyarrow", "torch"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            packages[name] = metadata.version(name)
    return {
        "graphsde": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "processors": os.cpu_count(),
        "torch_threads": torch.get_num_threads(),
        "packages": packages,
        "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def figures_of(prediction: Prediction, graph: Graph) -> dict[str, Any]:
    """Test metrics; none where no test node has a label."""
    return without_nan(evaluate(prediction, graph)) if judged_nodes(prediction, graph).any() else {}


def without_nan(values: dict[str, Any]) -> dict[str, Any]:
    """NaN is not JSON: a metric that is undefined becomes null."""
    return {key: None if isinstance(value, float) and value != value else value for key, value in values.items()}
