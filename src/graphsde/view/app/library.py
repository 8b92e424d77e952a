"""The runs in a folder, and an opened run."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from graphsde.base.errors import BadUsage, GraphsdeError
from graphsde.graph.graph import Graph
from graphsde.models import LGNSDE, Model
from graphsde.prediction import ClassPrediction, Trajectories, require
from graphsde.runs.folder import RunFolder
from graphsde.runs.state import MANIFEST

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
def _facts(path: Path, version: tuple[int, int]) -> RunFacts:
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
    """A finished run with its model, graph and class prediction, each read on first use."""

    def __init__(self, path: Path, samples: int = SAMPLES) -> None:
        self.folder = RunFolder(path)
        self.samples = samples
        self._opened = self.folder.opened()

    @property
    def model(self) -> Model:
        return self._opened.model

    @property
    def graph(self) -> Graph:
        return self._opened.graph

    @cached_property
    def prediction(self) -> ClassPrediction:
        return require(self._opened.prediction(self.samples), ClassPrediction, "the page")

    @property
    def has_paths(self) -> bool:
        """Whether the model moves along paths that can be drawn."""
        return isinstance(self.model, LGNSDE) and self.prediction.kind in ("samples", "gaussian")

    def paths(self, node: int) -> Trajectories | None:
        if not isinstance(self.model, LGNSDE) or not self.has_paths:
            return None
        # a member without noise has one path
        return self.model.trajectories(self.graph, [node], samples=min(self.prediction.num_samples, 32))


def version_of(path: Path) -> tuple[int, int]:
    """Changes whenever the run at ``path`` was fitted again."""
    manifest = path / MANIFEST
    status = (manifest if manifest.is_file() else path / "model.json").stat()
    return status.st_mtime_ns, status.st_size
