"""What is read from files, one function per kind of file: any bytes give a value or a typed error, nothing else."""

from __future__ import annotations

import contextlib
import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT_MARK = b"@ROOT@"
CORPUS = Path(__file__).resolve().parent / "corpus"
LARGEST_SEED = 2048


@dataclass(frozen=True)
class Target:
    """A file among good ones.

    Args:
        name: of the target, and of its folder in the corpus.
        base: the folder of good files that :func:`make_bases` writes.
        file: the one whose content is any; the first that fits where it is a pattern.
        read: everything that reads it, given the folder with the file and that of all good files.
        fresh: reading changes the folder, so that every input needs a copy.
    """

    name: str
    base: str
    file: str
    read: Callable[[Path, Path], Any]
    fresh: bool = False


class Prey:
    """A target with files of its own below ``folder``."""

    def __init__(self, target: Target, bases: Path, folder: Path) -> None:
        self.target, self.bases, self.folder = target, bases, folder
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(bases / target.base, folder)
        self.inside = next(path.relative_to(folder) for path in sorted(folder.rglob(target.file)) if path.is_file())
        self.good = (folder / self.inside).read_bytes()

    def feed(self, content: bytes) -> str | None:
        """The code of the typed error, or ``None`` where the content was taken; other errors leave."""
        from graphsde.base.errors import GraphsdeError

        if self.target.fresh:
            shutil.rmtree(self.folder)
            shutil.copytree(self.bases / self.target.base, self.folder)
        (self.folder / self.inside).write_bytes(content)
        _seal(self.folder)
        try:
            self.target.read(self.folder, self.bases)
        except GraphsdeError as error:
            if error.exit_code == 70 and error.code == "E-INTERNAL":
                raise
            return error.code
        return None


def _seal(folder: Path) -> None:
    """Let hashes that lie beside a file fit it again: a forger would, and what is behind the hash must hold too."""
    with contextlib.suppress(OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        path = folder / "model.json"
        described = json.loads(path.read_bytes())
        tensors = folder / "model.safetensors"
        now = hashlib.sha256(tensors.read_bytes()).hexdigest()
        if described["sha256"][tensors.name] != now:
            described["sha256"][tensors.name] = now
            path.write_text(json.dumps(described), encoding="utf-8")
    for manifest in folder.rglob("manifest.json"):
        with contextlib.suppress(OSError, ValueError, TypeError, KeyError, AttributeError):
            listed = json.loads(manifest.read_bytes())
            for name, facts in listed["files"].items():
                content = (manifest.parent / name).read_bytes()
                facts |= {"sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
            manifest.write_text(json.dumps(listed), encoding="utf-8")


def _graph(folder: Path, bases: Path) -> None:
    from graphsde.io.read import read

    read(folder)


def _graph_file(name: str) -> Callable[[Path, Path], None]:
    return lambda folder, bases: _graph(folder / name, bases)


def _run(*looks: str) -> Callable[[Path, Path], None]:
    """What verbs read from a run; one look that is refused must not hide the others."""

    def read(folder: Path, bases: Path) -> None:
        from graphsde.base.errors import GraphsdeError
        from graphsde.runs.folder import RunFolder

        run, refused = RunFolder(folder), None
        for look in looks:
            try:
                getattr(run, look)()
            except GraphsdeError as error:
                refused = error
        if refused is not None:
            raise refused

    return read


def _nothing_new(folder: Path, bases: Path) -> None:
    """``learn`` with what is known already reads the summary of the last round."""
    from graphsde.runs.learn import learn

    learn(folder, {8: "red"})


def _resume(folder: Path, bases: Path) -> None:
    from graphsde.datasets.source import GraphSource
    from graphsde.runs.fit import FitRequest, fit_run
    from graphsde.runs.folder import RunFolder

    source = GraphSource.typed(str(bases / "graph"))
    fit_run(FitRequest(source, "gcn", {"epochs": 4, "hidden": 2}, 0, 4), RunFolder(folder))


def _bench(folder: Path, bases: Path) -> None:
    from graphsde.bench.compare import compare
    from graphsde.bench.folder import BenchFolder
    from graphsde.bench.table import tabulate

    question, contents = BenchFolder(folder).read()
    tabulate(contents.records, question["options"])
    compare(list(contents.records), None)


def _search(folder: Path, bases: Path) -> None:
    from graphsde.bench.search import read_settings, read_trials

    read_trials(next(path for path in folder.iterdir() if path.is_dir() and path.name != "configs"))
    for path in folder.glob("configs/*.yaml"):
        read_settings(path)


def _labels(folder: Path, bases: Path) -> None:
    from graphsde.runs.new_labels import GivenLabels

    GivenLabels.read(folder / "labels.csv")


TARGETS: tuple[Target, ...] = (
    Target("nodes-csv", "tables", "nodes.csv", _graph),
    Target("edges-csv", "tables", "edges.csv", _graph),
    Target("graph-yaml", "tables", "graph.yaml", _graph),
    Target("graphml", "files", "graph.graphml", _graph_file("graph.graphml")),
    Target("npz", "files", "graph.npz", _graph_file("graph.npz")),
    Target("parquet", "parquet", "nodes.parquet", _graph),
    Target("labels-csv", "files", "labels.csv", _labels),
    Target("model-json", "run", "model.json", _run("load_model")),
    Target("model-safetensors", "run", "model.safetensors", _run("load_model")),
    Target("graph-json", "run", "graph.json", _run("load_graph")),
    Target("config-yaml", "run", "config.yaml", _run("read_config", "source", "load_graph")),
    Target("metrics-jsonl", "run", "metrics.jsonl", _run("read_metrics")),
    Target("labels-json", "run", "labels.json", _run("load_graph")),
    Target("learned-json", "run", "learned.json", _nothing_new, fresh=True),
    Target("checkpoint", "cut", "*checkpoint*.safetensors", _resume, fresh=True),
    Target("journal", "bench", "journal.jsonl", _bench),
    Target("bench-json", "bench", "bench.json", _bench),
    Target("choice-json", "search", "choice.json", _search),
    Target("search-yaml", "search", "*.yaml", _search),
)
BY_NAME = {target.name: target for target in TARGETS}


def seeds(prey: Prey) -> list[bytes]:
    """The good file, and what the corpus has kept of earlier hunts."""
    kept = sorted((CORPUS / prey.target.name).glob("*"))
    root = str(prey.bases).encode()
    return [prey.good, *(path.read_bytes().replace(ROOT_MARK, root) for path in kept)]


def keep(prey: Prey, content: bytes, prefix: str) -> Path | None:
    """Put an input into the corpus, without the place where it was found; too large ones are left out."""
    content = content.replace(str(prey.bases).encode(), ROOT_MARK)
    if len(content) > LARGEST_SEED:
        return None
    path = CORPUS / prey.target.name / f"{prefix}-{hashlib.sha256(content).hexdigest()[:12]}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path
