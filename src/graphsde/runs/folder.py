"""The folder of a run: its files, their names, and what they must agree on."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import platform
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from graphsde._version import __version__
from graphsde.base import storage
from graphsde.base.device import device_for
from graphsde.base.errors import BadInput, shorten
from graphsde.base.lock import exclusive
from graphsde.base.memory import human_bytes, memory_limit
from graphsde.base.processor import processor_name
from graphsde.base.renames import as_currently
from graphsde.base.storage import damaged, read_document
from graphsde.datasets.source import GraphSource, is_benchmark
from graphsde.datasets.splits.split import FILES_SPLIT
from graphsde.graph.graph import Graph
from graphsde.io.graph_yaml import load_plain_yaml
from graphsde.io.table_export import write_table
from graphsde.metrics.evaluation import evaluate, judged_nodes
from graphsde.metrics.leaderboard import Leaderboard
from graphsde.models import Model, load_model
from graphsde.prediction import Prediction
from graphsde.prediction.columns import prediction_columns
from graphsde.runs import kept_evidence, kept_graph, kept_prediction
from graphsde.runs.bundle import LARGEST, LARGEST_WITHIN_LIMIT, Bundle
from graphsde.runs.label_book import LabelBook
from graphsde.runs.state import FURTHER_LABELS, MARK, State, has_state, read_state, require_whole
from graphsde.runs.work import FITTING, LEARNING, Work

if TYPE_CHECKING:
    from graphsde.runs.opened import OpenedRun

MOST_LOOKED_AT, MOST_LISTED = 500, 10  # entries of a folder of runs
LARGEST_CONFIG = 10_000_000
SAMPLES = 64
_TRIES = 5
Value = TypeVar("Value")


class _Described(BaseModel):
    model_config = ConfigDict(extra="allow", strict=True)


class _ModelPart(_Described):
    name: str
    settings: dict[str, Any]


class _GraphPart(_Described):
    model_config = ConfigDict(extra="forbid", strict=True)
    graph: str = Field(min_length=1)
    options: dict[str, Any] = {}
    split: str | None = None
    split_options: dict[str, Any] = {}
    seed: int = 0


class _Config(_Described):
    graph: _GraphPart
    model: _ModelPart
    samples: int = Field(SAMPLES, ge=1)


class _Facts(_Described):
    fingerprint: str
    split_hash: str
    split: str | None = None
    name: str = ""


class _EpochLine(_Described):
    kind: Literal["epoch"]
    epoch: int
    loss: float | None
    val_nll: float | None = None
    val_accuracy: float | None = None


class _EvaluationLine(_Described):
    kind: Literal["evaluation"]
    fit_seconds: float
    best_epoch: int | None


class _Environment(_Described):
    graphsde: str
    python: str
    command: list[str]
    started: str
    packages: dict[str, str]


_METRIC_LINE: TypeAdapter[_EpochLine | _EvaluationLine] = TypeAdapter(_EpochLine | _EvaluationLine)


class RunFolder:
    """A run on disk.

    ``config.yaml`` has the request (fully resolved), ``graph.json`` which data it was, ``environment.json``
    where it ran, ``model.json`` and ``model.safetensors`` what was learned, ``metrics.jsonl`` how it went,
    ``predictions.parquet`` the prediction for every node, ``controls.json`` the comparison with controls;
    ``manifest.json`` guards them all. What would be slow to compute again is kept in ``graph.safetensors``,
    ``prediction.safetensors`` and ``evidence.safetensors``. A run that has learned further labels has ``labels.json``,
    ``learned.json`` and its rounds before under ``history/``. ``report.html`` is made from these and can be made again.

    Args:
        path: the folder.
        say: called with one-line messages for the user.
    """

    def __init__(self, path: str | Path, *, say: Callable[[str], None] = lambda text: None) -> None:
        self.path, self.say = Path(path), say
        self.config, self.graph = self.path / "config.yaml", self.path / "graph.json"
        self.environment, self.metrics = self.path / "environment.json", self.path / "metrics.jsonl"
        self.predictions, self.report = self.path / "predictions.parquet", self.path / "report.html"
        self.controls = self.path / "controls.json"
        self.work = Work(self.path, FITTING)
        self._read: State | None = None
        self._compared: tuple[tuple[int, int], ...] | None = None

    @property
    def started(self) -> bool:
        return self.finished or self.work.request() is not None or self.config.is_file()

    @property
    def finished(self) -> bool:
        return has_state(self.path)

    def locked(self) -> contextlib.AbstractContextManager[None]:
        """Only one process changes a run at a time; the lock of a dead process is released."""
        return exclusive(self.path)

    def state(self) -> State:
        """The run's state, every file of it compared with the manifest."""
        for _ in range(_TRIES):
            found = self._present()
            stamps = self._stamps(found)
            if found == self._read and stamps == self._compared:
                return found
            try:
                require_whole(self.path, found)
            except BadInput:
                if self._present() == found:
                    raise
                continue  # another process was just installing a new state
            self._read, self._compared = found, stamps
            return found
        raise self.restless()

    def consistently(self, read: Callable[[], Value]) -> Value:
        """The result of ``read``, all from one state: parts of two states must not be mixed."""
        for _ in range(_TRIES):
            before = self.state()
            value = read()
            if self.state() == before:
                return value
        raise self.restless()

    def restless(self) -> BadInput:
        return BadInput(
            f"{self.path} was changed by other processes while it was being read",
            code="E-RUN-CHANGED",
            place=str(self.path),
            fix="run the command again",
        )

    def open(self) -> tuple[Model, Graph]:
        """The model of a finished run and its graph."""
        return self.consistently(lambda: (self.load_model(), self.load_graph()))

    def opened(self) -> OpenedRun:
        """The run in its current state: model, graph and prediction, each read on first use."""
        from graphsde.runs.opened import OpenedRun

        return OpenedRun(self)

    def _present(self) -> State:
        if (self.path / LEARNING / "ready.json").is_file():
            raise BadInput(
                "an earlier version of graphsde was interrupted while saving a round of learning",
                code="E-UNFINISHED",
                place=str(self.path / LEARNING),
                fix="open the run once with that version",
            )
        found = read_state(self.path)
        if found is not None:
            return found
        if self.started:
            raise BadInput(
                f"the run in {self.path} is not finished", code="E-UNFINISHED", fix="run the same fit again: it resumes"
            )
        inside = self._runs_inside()
        raise BadInput(
            f"{self.path} is not a run, but holds runs" if inside else f"no run in {self.path}",
            code="E-NO-RUN",
            place=str(self.path),
            found=", ".join(inside) or None,
            fix=f"name one of them, such as {self.path / inside[0]}"
            if inside
            else "create one with: graphsde fit GRAPH --out " + str(self.path),
        )

    def _runs_inside(self) -> list[str]:
        """The first finished runs in a folder of runs."""
        try:
            names = sorted(os.listdir(self.path))[:MOST_LOOKED_AT]
        except OSError:
            return []
        runs = [shorten(name, 60) for name in names if has_state(self.path / name)]
        return [*runs[:MOST_LISTED], *(["…"] if len(runs) > MOST_LISTED else [])]

    def _stamps(self, state: State) -> tuple[tuple[int, int], ...]:
        """A stamp that changes when a file is written, so that files are verified only once."""
        stamps = []
        for name in state.files:
            try:
                status = (self.path / name).stat()
            except OSError:
                stamps.append((0, 0))
            else:
                stamps.append((status.st_mtime_ns, status.st_size))
        return tuple(stamps)

    def read_config(self) -> dict[str, Any]:
        self.state()
        return parse_config(self.config)

    def read_facts(self) -> dict[str, Any]:
        """Which data the run was made with."""
        self.state()
        return read_facts(self.graph)

    def read_metrics(self) -> list[dict[str, Any]]:
        """One line an epoch, then one line with the test metrics."""
        self.state()
        lines = []
        for number, line in enumerate(storage.read_text(self.metrics).splitlines(), start=1):
            try:
                lines.append(json.loads(line))
                _METRIC_LINE.validate_python(lines[-1])
            except (ValueError, RecursionError):
                raise damaged(self.metrics, f"line {number}") from None
        if not lines or lines[-1]["kind"] != "evaluation":
            raise damaged(self.metrics, "its last line is missing")
        return lines

    def read_environment(self) -> dict[str, Any]:
        """Where the run happened."""
        self.state()
        return read_document(self.environment, _Environment).model_dump()

    def read_controls(self) -> Leaderboard | None:
        """The comparison with controls; ``None`` if none were fitted, or the model has changed since."""
        files = self.state().files
        if self.controls.name not in files:
            return None
        board = read_document(self.controls, Leaderboard)
        return board if board.made_for == files.get("model.json") else None

    def load_model(self) -> Model:
        self.state()
        return load_model(self.path)

    def source(self) -> GraphSource:
        source = GraphSource(**self.read_config()["graph"])
        # a folder named photo or computers used to get the Amazon graphs' split
        if source.split is None and not is_benchmark(source.graph) and self.read_facts()["split"] == "shchur":
            return dataclasses.replace(source, split="shchur")
        # files that gave no roles used to get a share of calibration nodes
        if source.split is None and self.read_facts()["split"] == "fractions":
            return dataclasses.replace(source, split="fractions")
        return source

    def reading(self, path: str, options: dict[str, Any] | None) -> dict[str, Any]:
        """How to read another graph: like the run's own files, unless ``options`` say otherwise."""
        return {**({} if is_benchmark(path) else self.source().options), **(options or {})}

    def load_graph(self) -> Graph:
        """The graph of this run with its split and learned labels; refused if the data has changed since."""
        graph = self.with_further(LabelBook.of_run(self.path).apply(self.load_source()[0]))
        if (bundle := self.kept(kept_evidence.FILE)) is not None:
            kept_evidence.recall_evidence(bundle, graph, self.path / kept_evidence.FILE)
        return graph

    def with_further(self, graph: Graph) -> Graph:
        """``graph`` with the calibration labels that came after the fit."""
        if not (self.path / FURTHER_LABELS).is_file():
            return graph
        from graphsde.runs.further_labels import with_further_labels  # slow to import, and rarely needed

        return with_further_labels(self.path, graph)

    def load_source(self) -> tuple[Graph, dict[str, Any]]:
        """The graph with its split, without learned labels, and its facts.

        A kept graph is used if every file that it was read from is the same, byte for byte, or if all of them
        are gone.
        """
        then, source = self.read_facts(), self.source()
        bundle = self.kept(kept_graph.FILE)
        if bundle is not None and self._still_so(bundle, source.graph):
            kept = kept_graph.unpack_graph(bundle, then, self.path / kept_graph.FILE)
            return _within_limit(kept), then
        try:
            graph, facts = source.open()
        except BadInput as error:
            # files with roles but without training nodes used to get a new split
            if error.code != "E-SPLIT-EMPTY" or then["split"] != FILES_SPLIT:
                raise
            graph, facts = dataclasses.replace(source, split=FILES_SPLIT).open()
        for key, what in (("fingerprint", "data"), ("split_hash", "split")):
            if facts[key] != then[key]:
                raise BadInput(
                    f"the {what} of {facts['graph']} has changed since the run was made",
                    code="E-DATA-CHANGED",
                    found=facts[key][:12],
                    expected=then[key][:12],
                    fix=self._after_a_change(source.graph, kept=bundle is not None),
                )
        return _within_limit(graph), facts

    def _after_a_change(self, source: str, *, kept: bool) -> str:
        return (
            f"if you added labels, give them to the run: graphsde learn {self.path} LABELS.csv --graph {source} "
            "(columns id,label); for anything else fit again into another folder, or predict with --graph"
            + (f"; without {source}, the run uses the copy of the graph that it has kept" if kept else "")
        )

    def _still_so(self, bundle: Bundle, source: str) -> bool:
        """Whether a kept graph equals what reading its files again would give."""
        if kept_graph.is_gone(source):
            self.say(f"{source} no longer exists: using the graph saved in the run")
            return True
        return kept_graph.source_files(source) == bundle.values.get("files")

    def kept(self, name: str) -> Bundle | None:
        """A kept file; ``None`` if the run has none, or has no manifest to guard it."""
        return Bundle.read(self.path / name) if name in self.state().files else None


def _within_limit(graph: Graph) -> Graph:
    """The graph, in memory-mapped files if a memory limit requires it."""
    if memory_limit() is None:
        return graph
    from graphsde.graph.settled import settled_within_limit

    return settled_within_limit(graph)


def parse_config(path: Path) -> dict[str, Any]:
    """A run's configuration in current names."""
    text = storage.read_text(path)
    if len(text) > LARGEST_CONFIG:
        raise damaged(path, f"larger than {LARGEST_CONFIG:,} bytes")
    try:
        values = as_currently(load_plain_yaml(text, path.name))
        return values | {"samples": _Config.model_validate(values).samples}
    except BadInput as error:
        raise damaged(path, error.message) from error
    except (ValueError, TypeError, AttributeError) as error:
        raise damaged(path, type(error).__name__) from error


def read_facts(path: Path) -> dict[str, Any]:
    """Which data a run was made with, from its ``graph.json``."""
    return read_document(path, _Facts).model_dump()


@dataclasses.dataclass(frozen=True)
class RunContent:
    """Everything that a finished fit leaves.

    Args:
        config: the request.
        facts: which data it was.
        model: what was learned.
        prediction: of ``graph``.
        graph: with its split and the labels that were learned.
        metrics: test metrics and cost.
        controls: the comparison with them.
        source: the graph as read, and the digests of its files from before that; ``None`` if these are not
            known, or the previous state has the same graph.
        say: called with what can't be kept.
    """

    config: dict[str, Any]
    facts: dict[str, Any]
    model: Model
    prediction: Prediction
    graph: Graph
    metrics: dict[str, Any]
    controls: Leaderboard | None = None
    source: tuple[Graph, dict[str, str] | None] | None = None
    say: Callable[[str], None] = lambda text: None

    def write(self, into: Path) -> tuple[str, ...]:
        """Write every file, and return those of the previous state that are now outdated."""
        files = RunFolder(into)
        self.model.save(into)
        write_predictions(files, self.prediction, self.graph)
        storage.write_text(files.config, yaml.safe_dump(self.config, sort_keys=False, allow_unicode=True))
        storage.write_json(files.environment, environment() | {MARK: True})
        storage.write_json(files.graph, self.facts)
        epochs = [{"kind": "epoch", **record.as_dict()} for record in self.model.history]
        write_metrics(files, [*epochs, {"kind": "evaluation", **without_nan(self.metrics)}])
        if self.controls is not None:
            board = self.controls.model_copy(update={"made_for": storage.sha256(into / "model.json")})
            storage.write_json(files.controls, board.model_dump())
        outdated = keep_prediction(into, self.prediction, self.model, self.config["samples"], self.say)
        outdated += keep_evidence(into, self.graph, self.prediction, self.model, self.say)
        if self.source is not None:
            outdated += self._keep_graph(into, *self.source)
        return outdated

    def _keep_graph(self, into: Path, graph: Graph, before: dict[str, str] | None) -> tuple[str, ...]:
        """Only if its files have not changed since it was read."""
        known = before is not None and kept_graph.source_files(self.config["graph"]["graph"]) == before
        packed = kept_graph.pack_graph(graph, before, self.facts) if known and before is not None else None
        return _keep(packed, into / kept_graph.FILE, "the graph", "commands will read its files again", self.say)


def keep_prediction(
    into: Path, prediction: Prediction, model: Model, samples: int, say: Callable[[str], None]
) -> tuple[str, ...]:
    """Write what need not be computed again; returns the name of the file if it is not written."""
    packed = kept_prediction.pack_prediction(prediction, samples=samples, seed=model.settings.seed)
    return _keep(packed, into / kept_prediction.FILE, "the prediction", "commands will compute it again", say)


def keep_evidence(
    into: Path, graph: Graph, prediction: Prediction, model: Model, say: Callable[[str], None]
) -> tuple[str, ...]:
    """Write the reference of the score ``ood``; returns the name of the file if it is not written."""
    packed = kept_evidence.pack_evidence(graph, prediction, model)
    return _keep(packed, into / kept_evidence.FILE, "the evidence of the score ood", "it is computed on demand", say)


def _keep(packed: Bundle | None, path: Path, what: str, otherwise: str, say: Callable[[str], None]) -> tuple[str, ...]:
    most = LARGEST if memory_limit() is None else LARGEST_WITHIN_LIMIT
    if packed is not None and packed.bytes > most:
        say(f"{what} takes {human_bytes(packed.bytes)} and is not saved (limit {human_bytes(most)}): {otherwise}")
        packed = None
    if packed is None:
        return (path.name,)
    packed.write(path)
    return ()


def write_predictions(files: RunFolder, prediction: Prediction, graph: Graph) -> None:
    write_table(prediction_columns(prediction, graph), files.predictions)


def write_metrics(files: RunFolder, lines: list[dict[str, Any]]) -> None:
    storage.write_text(files.metrics, "".join(json.dumps(line, allow_nan=False) + "\n" for line in lines))


def environment() -> dict[str, Any]:
    """Where a run was made: versions and machine, nothing personal."""
    import torch

    packages = {}
    for name in ("numpy", "scipy", "scikit-learn", "pyarrow", "torch"):
        with contextlib.suppress(metadata.PackageNotFoundError):
            packages[name] = metadata.version(name)
    return {
        "graphsde": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "processor": processor_name(),
        "processors": os.cpu_count(),
        "torch_threads": torch.get_num_threads(),
        "device": str(device_for()),
        "packages": packages,
        "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def figures_of(prediction: Prediction, graph: Graph) -> dict[str, Any]:
    """Test metrics; empty if no test node has a label."""
    return without_nan(evaluate(prediction, graph)) if judged_nodes(prediction, graph).any() else {}


def without_nan(values: dict[str, Any]) -> dict[str, Any]:
    """NaN is not JSON: an undefined metric becomes null."""
    return {key: None if isinstance(value, float) and value != value else value for key, value in values.items()}
