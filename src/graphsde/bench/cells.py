"""The unit of a bench: one task, one graph, one model, one seed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any

from graphsde.base.errors import BadInput, BadUsage
from graphsde.base.renames import as_currently, as_formerly
from graphsde.bench.tasks.task import TASKS, Task
from graphsde.datasets.source import open_graph
from graphsde.graph.graph import Graph
from graphsde.models import MODELS, Model


@dataclass(frozen=True)
class Cell:
    """What to do, in plain values; enough to do it again anywhere.

    Args:
        task, options: what to measure, and how, including the variant.
        dataset: a benchmark's name or an absolute path.
        model, settings: the model, and settings that differ from its defaults for this graph.
        seed: of the model and of random splits.
        data: fingerprint of the graph.
        versions: results versions of task and model.
        called: the model's name in tables, if that is not its name and settings; not part of the cell's identity.
    """

    task: str
    options: dict[str, Any]
    dataset: str
    model: str
    settings: dict[str, Any]
    seed: int
    data: str = ""
    versions: dict[str, int] = field(default_factory=dict)
    called: str = ""

    def __post_init__(self) -> None:
        for name, value in as_currently(vars(self)).items():  # a journal may predate a rename
            object.__setattr__(self, name, value)

    @property
    def address(self) -> str:
        """Hash of the question alone: two cells with the same address should have the same result."""
        return self._hash_without("data", "versions", "called")

    @property
    def id(self) -> str:
        """Hash of question, data and versions."""
        return self._hash_without("called")

    def _hash_without(self, *left_out: str) -> str:
        """By former names: a rename must not change the cell."""
        kept = as_formerly({key: value for key, value in asdict(self).items() if key not in left_out})
        return hashlib.sha256(canonical(kept).encode()).hexdigest()[:32]

    @property
    def label(self) -> str:
        """The model's name in tables: its name, its preset if set, and other settings."""
        if self.called:
            return self.called
        usual = getattr(MODELS.get(self.model), "default_preset", None) if self.model in MODELS else None
        preset = self.settings.get("preset", unnamed_preset(self.model))
        others = sorted(key for key in self.settings if key != "preset")
        name = self.model if preset in (None, usual) else f"{self.model}@{preset}"
        return f"{name}[{','.join(f'{key}={self.settings[key]}' for key in others)}]" if others else name

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def make_task(self) -> Task:
        return TASKS.get(self.task)(**self.options)

    def make_model(self, **settings: Any) -> Model:
        given = {**self.settings, "seed": self.seed, **settings}
        return as_written(MODELS.get(self.model), given)


def unnamed_preset(model: str) -> str | None:
    """What a cell without a preset means: the default when cells were first written, so that
    they stay the same when the default changes."""
    cls = MODELS.get(model) if model in MODELS else None
    return getattr(cls, "first_default_preset", getattr(cls, "default_preset", None))


def as_written(cls: type[Model], settings: dict[str, Any]) -> Model:
    """A model from the settings of a cell."""
    made = cls(**settings)
    before = unnamed_preset(cls.name)
    if "preset" in settings or before is None or getattr(made.settings, "preset", None) != cls.default_preset:  # type: ignore[attr-defined]
        return made
    return cls(**{**settings, "preset": before})


@dataclass(frozen=True)
class ModelSpec:
    """A model as named on the command line: ``gcn``, ``lgnsde@open-world``, with settings from ``--set``.

    Args:
        name: of the model.
        settings: on every graph.
        found: settings found by a search, by graph; ``settings`` take precedence.
        found_on: fingerprints of the graphs that they were found on, if known.
        called: its name in tables, if that is not its name and settings.
    """

    name: str
    settings: dict[str, Any] = field(default_factory=dict)
    found: dict[str, dict[str, Any]] = field(default_factory=dict)
    found_on: dict[str, str] = field(default_factory=dict)
    called: str = ""

    def on(self, dataset: str) -> ModelSpec:
        """The model as set for one graph."""
        return ModelSpec(self.name, {**self.found.get(dataset, {}), **self.settings}, called=self.called)

    def require_graph(self, dataset: str, graph: Graph) -> None:
        """Settings that were found on another graph of the same name are refused."""
        before = self.found_on.get(dataset, graph.fingerprint)
        if before != graph.fingerprint:
            raise BadInput(
                f"the settings of '{self.called}' were not found on {dataset} but on another graph",
                code="E-DATA-CHANGED",
                found=graph.fingerprint[:12],
                expected=before[:12],
                fix="search again on this graph, or pass the settings with --set",
            )

    @classmethod
    def parse(cls, text: str, settings: dict[str, Any] | None = None) -> ModelSpec:
        name, at, preset = text.partition("@")
        MODELS.entry(name)
        given = dict(settings or {})
        if at:
            given["preset"] = preset
        return cls(name, given)


def plan_cells(
    task: str,
    options: dict[str, Any],
    datasets: Iterable[str],
    models: Sequence[ModelSpec],
    seeds: Iterable[int],
    graphs: dict[str, Graph] | None = None,
) -> list[Cell]:
    """All cells of a bench, in table order.

    Every graph is opened for its fingerprint, once if ``graphs`` is given to keep them in. Seeds are the outermost loop
    within a graph, so that an interrupted bench has all models for the seeds it has.
    """
    base = TASKS.get(task)(**options)
    given = base.options.model_dump(mode="json", exclude_defaults=True)
    cells = []
    seeds = list(seeds)
    if len(set(seeds)) != len(seeds):
        raise BadUsage("duplicate seed", found=seeds)
    for dataset in datasets:
        kept = graphs if graphs is not None else {}
        graph = kept[dataset] = kept.get(dataset) or open_graph(dataset)
        base.require_target(graph)
        variants = base.variants(graph)
        for spec in models:
            spec.require_graph(dataset, graph)
        asked = [(spec, own_settings(spec.on(dataset), graph)) for spec in models]
        for variant in variants:  # report what can't work before any work is done: the splits, then the models
            TASKS.get(task)(**given | variant).prepare(graph, seeds[0])
        for spec, settings in asked:
            base.require_model(partial(MODELS.get(spec.name), **settings))
        for seed in seeds:
            for variant in variants:
                for spec, settings in asked:
                    versions = {"task": base.version, "model": MODELS.get(spec.name).version}
                    question = (task, given | variant, dataset, spec.name, settings, seed)
                    cells.append(Cell(*question, graph.fingerprint, versions, spec.called))
    if len({cell.id for cell in cells}) != len(cells):
        raise BadUsage("duplicate model", fix="list each model once")
    return cells


def own_settings(spec: ModelSpec, graph: Graph) -> dict[str, Any]:
    """The given settings without those that change nothing on this graph: an explicit default must not
    make another cell."""
    cls, before = MODELS.get(spec.name), unnamed_preset(spec.name)
    if "device" in spec.settings:
        raise BadUsage("the device is not part of a cell", found="device", fix="use --device instead of --set")
    asked = cls(**spec.settings)
    anchor: dict[str, Any] = {}
    if before is not None:
        named = asked.settings.preset  # type: ignore[attr-defined]
        given = "preset" in spec.settings or named == cls.default_preset  # type: ignore[attr-defined]
        anchor = {"preset": named if given else before}
    plain = cls(**anchor)
    plain.resolve(graph)
    asked.resolve(graph)
    usual, wanted = plain.settings.model_dump(mode="json"), asked.settings.model_dump(mode="json")
    kept = {key: wanted[key] for key in spec.settings if key != "preset" and wanted[key] != usual[key]}
    return {**{key: value for key, value in anchor.items() if value != before}, **kept}


def canonical(value: Any) -> str:
    """JSON in which equal values have equal bytes."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
