"""The runs in a folder, and an opened run."""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from graphsde.base.errors import BadUsage, GraphsdeError
from graphsde.graph.graph import Graph
from graphsde.models import LGNSDE, Model
from graphsde.prediction import Prediction, Trajectories
from graphsde.runs.folder import RunFolder
from graphsde.runs.state import FURTHER_LABELS, MANIFEST
from graphsde.view.app.words import plain
from graphsde.view.report.content import number, percent

MOST_RUNS = 500
SAMPLES = 64
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True)
class RunFacts:
    """One entry in the list of runs."""

    name: str
    path: Path
    graph: str
    model: str
    seed: int
    metrics: dict[str, Any]

    def in_words(self) -> str:
        """In one line: what was fitted to what, and how well it does on test nodes."""
        tested = f"{self.metrics.get('n_test', 0):,} test nodes"
        accuracy, error = self.metrics.get("accuracy"), self.metrics.get("rmse")
        found = ""
        if accuracy is not None:
            found = f": {percent(accuracy)} of {tested} right"
        elif error is not None:
            found = f": RMSE {number(error)} on {tested}"
        return f"{self.model} on {plain(self.graph)}, seed {self.seed}{found}"


def list_runs(folder: Path) -> list[RunFacts]:
    """Finished runs directly in ``folder`` (or the folder itself, if it is a run), newest first.

    Unreadable runs are left out: one broken folder must not hide the others.
    """
    candidates = [folder] if RunFolder(folder).finished else []
    if folder.is_dir():
        candidates += [path for path in sorted(folder.iterdir()) if not path.name.startswith(".") and path.is_dir()]
    found = []
    for path in candidates[:MOST_RUNS]:
        if RunFolder(path).finished:
            try:
                found.append(_facts(path, version_of(path)))
            except (GraphsdeError, OSError, ValueError, KeyError, TypeError, IndexError):
                continue
    return sorted(found, key=lambda facts: -(facts.path / "model.json").stat().st_mtime)


@lru_cache(maxsize=2 * MOST_RUNS)
def _facts(path: Path, version: tuple[int, ...]) -> RunFacts:
    """Cached per version of a run: the list is rebuilt on every click."""
    folder = RunFolder(path)
    config, lines = folder.read_config(), folder.read_metrics()
    graph = folder.read_facts()
    metrics = {key: value for key, value in lines[-1].items() if key != "kind"}
    settings = config["model"]["settings"]
    return RunFacts(
        path.name, path, str(graph["name"]), str(config["model"]["name"]), int(settings.get("seed", 0)), metrics
    )


def graphs_of_runs(folder: Path) -> set[str]:
    """Sources of the runs in ``folder``, finished or not: names of benchmarks and paths."""
    found = set()
    for path in folder.iterdir() if folder.is_dir() else ():
        try:
            found.add(RunFolder(path).source().graph)
        except (GraphsdeError, OSError, ValueError, KeyError, TypeError):
            continue  # not a run, or one that can't be resumed anyway
    return found


def new_run(folder: Path, name: str) -> Path:
    """The folder of a new run; refused if the name is unsafe or taken."""
    if not _NAME.fullmatch(name) or ".." in name:
        raise BadUsage(
            f"'{name}' is not a valid name for a run",
            code="E-PATH",
            found=name,
            expected="letters, digits, '-', '_' and '.', at most 64, starting with a letter or digit",
        )
    path = folder / name
    if path.exists():
        raise BadUsage(f"'{name}' already exists", code="E-RUN-EXISTS", fix="choose another name")
    return path


def free_name(folder: Path, wish: str) -> str:
    """``wish``, made safe, with a number if it is taken."""
    base = re.sub(r"[^A-Za-z0-9._-]+", "-", wish).strip("-._")[:50].replace("..", ".") or "run"
    names = [base, *(f"{base}-{number}" for number in range(2, 10_000))]
    return next(name for name in names if not (folder / name).exists())


class OpenRun:
    """A finished run with its model, graph and prediction, each read when it is first looked at.

    Args:
        path: its folder.
        samples: how many to predict with; those that the fit has kept where not given.
    """

    def __init__(self, path: Path, samples: int | None = None) -> None:
        self.folder = RunFolder(path)
        self.samples = samples
        self._opened = self.folder.opened()

    @property
    def model(self) -> Model:
        return self._opened.model

    @property
    def num_samples(self) -> int:
        """How many are predicted with."""
        return self.samples or self._opened.samples

    @cached_property
    def graph(self) -> Graph:
        """With names of its nodes; a column called ``name`` is taken for them where nothing else was said."""
        graph = self._opened.graph
        names = graph.categorical.get("name")
        return graph if names is None or graph.node_names is not None else replace(graph, node_names=names)

    @cached_property
    def prediction(self) -> Prediction:
        return self._opened.prediction(self.samples)

    @property
    def class_names(self) -> tuple[str, ...]:
        """The classes that the model knows; none where it predicts numbers."""
        return tuple(getattr(self.prediction, "class_names", ()))

    def paths(self, node: int) -> Trajectories | None:
        """How the class probabilities of a node arise; ``None`` for a model without paths of them."""
        model, prediction = self.model, self.prediction
        if not isinstance(model, LGNSDE) or prediction.kind not in ("samples", "gaussian") or not self.class_names:
            return None
        # a member without noise has one path
        return model.trajectories(self.graph, [node], samples=min(prediction.num_samples, 32))


def version_of(path: Path) -> tuple[int, ...]:
    """Changes whenever the run at ``path`` was fitted again, or was given further calibration labels."""
    manifest, further = path / MANIFEST, path / FURTHER_LABELS
    status = (manifest if manifest.is_file() else path / "model.json").stat()
    with contextlib.suppress(OSError):
        return status.st_mtime_ns, status.st_size, further.stat().st_mtime_ns
    return status.st_mtime_ns, status.st_size
