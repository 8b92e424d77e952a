"""A whole study as a file: which searches and tables, on which graphs, with how many seeds; what of it is missing."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from graphsde.base import storage
from graphsde.base.errors import BadUsage
from graphsde.bench.cells import Cell, ModelSpec, canonical
from graphsde.bench.engines import Limits
from graphsde.bench.folder import BenchFolder
from graphsde.bench.kept_fits import keeping_fits
from graphsde.bench.paper import TABLES, PaperTable
from graphsde.bench.reproduce import cells_of, rows_to_be_searched, specs_of, with_found
from graphsde.bench.run import BenchRequest, run_bench
from graphsde.bench.search import (
    SearchRequest,
    Select,
    Trial,
    best_trial,
    nothing_left,
    place_of,
    read_trials,
    run_search,
    settings_of,
    untried_of,
    write_best,
)
from graphsde.bench.tasks.task import TASKS
from graphsde.datasets.source import open_graph
from graphsde.graph.graph import Graph
from graphsde.io.graph_yaml import load_plain_yaml
from graphsde.nn.settings import Settings

Say = Callable[[str], None]

# where nothing alike was ever run
UNKNOWN_SECONDS = 60.0
USUAL = "misclassification"
TUNED = " (tuned)"
# under the folder of results; a cache, which may be deleted
KEPT_FITS = ".fits"


class Searches(Settings):
    """Searches with equal budgets.

    Args:
        graphs, models: every pair is searched.
        trials, around, runs, cpu_minutes, sampler, select, prune, without: of a
            :class:`~graphsde.bench.search.SearchRequest`.
        also: settings to try in addition to the grid, by model.
        named: points to try first, by model; those of a search that has ended are tried when it is run again.
        held: settings that stay as they are in every trial, by model.
        members: ensembles that are not searched but take the settings of a member's search: ensemble to member.
        folder: where trials are kept, under the folder of results.
    """

    graphs: tuple[str, ...]
    models: tuple[str, ...]
    trials: int = 8
    around: int = 4
    runs: int = 2
    cpu_minutes: float = 120.0
    sampler: Literal["random", "tpe", "near"] = "random"
    select: Select = "nll"
    prune: bool = True
    without: tuple[str, ...] = ()
    also: dict[str, dict[str, list[Any]]] = Field(default_factory=dict)
    named: dict[str, list[dict[str, Any]]] = Field(default_factory=dict)
    held: dict[str, dict[str, Any]] = Field(default_factory=dict)
    members: dict[str, str] = Field(default_factory=dict)
    folder: str = "search-equal"

    @property
    def table(self) -> str:
        """What a list of steps calls it."""
        return "search"


class Step(Settings):
    """Some rows of a table.

    Args:
        table: as ``graphsde reproduce`` calls it.
        graphs: on which it is run.
        systems: rows by name, or groups of them; all rows if none is named.
        seeds: how many.
        minutes: of processor time that a cell may take.
        folder: under the folder of results, where its journals are not there themselves.
    """

    table: str
    graphs: tuple[str, ...]
    systems: tuple[str, ...] = ()
    seeds: int = Field(ge=1)
    minutes: float = 10.0
    folder: str = ""


def _kind(given: Any) -> str:
    """A step that names models is a search; any other is rows of a table."""
    models = given.get("models") if isinstance(given, Mapping) else getattr(given, "models", None)
    return "rows" if models is None else "search"


class Plan(Settings):
    """What is to be run, in order.

    Args:
        groups: names of systems, by the name of the group.
        steps: searches, and rows of tables; a row takes its settings from a search that comes before it.
        seconds: of a fit, by system and graph, where no journal knows them.
    """

    groups: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    steps: tuple[
        Annotated[Annotated[Searches, Tag("search")] | Annotated[Step, Tag("rows")], Discriminator(_kind)], ...
    ] = ()
    seconds: dict[str, dict[str, float]] = Field(default_factory=dict)

    def on(self, graphs: Sequence[str]) -> Plan:
        """The part of it that is about some graphs."""
        self._refuse_unknown("graph", graphs, {graph for one in self.steps for graph in one.graphs})
        steps = (one.model_copy(update={"graphs": _kept(one.graphs, graphs)}) for one in self.steps)
        return self.model_copy(update={"steps": tuple(steps)})

    def of(self, tables: Sequence[str]) -> Plan:
        """The steps of some tables; those of searches are called ``search``."""
        self._refuse_unknown("table", tables, {one.table for one in self.steps})
        return self.model_copy(update={"steps": tuple(one for one in self.steps if one.table in tables)})

    def _refuse_unknown(self, what: str, asked: Sequence[str], known: set[str]) -> None:
        if strange := [name for name in asked if name not in known]:
            raise BadUsage(f"the plan has no such {what}", found=", ".join(strange), expected=", ".join(sorted(known)))

    def systems_of(self, step: Step) -> list[str]:
        return list(dict.fromkeys(name for one in step.systems for name in self.groups.get(one, (one,))))


def _kept(planned: Sequence[str], asked: Sequence[str]) -> tuple[str, ...]:
    return tuple(graph for graph in planned if graph in asked)


def read_plan(path: Path) -> Plan:
    return Plan.parse(dict(load_plain_yaml(storage.read_text(path), path.name)), f"plan {path.name}")


@dataclass(frozen=True)
class Line:
    """How far one table is on one graph; a search counts its trials.

    Args:
        step: its number in the plan, from 1.
        wanted: cells that the plan asks for.
        failed: of those that are there.
        missing: that are not there.
        seeds: the fewest and the most seeds that a system has.
        hours: of one processor that the missing ones will take, by what such cells took; a fit that several cells
            share counts once.
    """

    step: int
    table: str
    graph: str
    systems: int
    seeds: str
    wanted: int
    failed: int
    missing: int
    hours: float

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


class Costs:
    """What cells have taken so far, in all journals of a folder.

    Args:
        results: where the journals are.
        hints: seconds of the standard task by system and graph, where no journal has them.
    """

    def __init__(self, results: Path, hints: Mapping[str, Mapping[str, float]]) -> None:
        kept: dict[tuple[str, str, str], list[float]] = {}
        newest: dict[tuple[str, str, str], int] = {}
        fitting: dict[str, list[float]] = {}
        for journal in sorted(results.rglob("journal.jsonl")):
            for record in BenchFolder(journal.parent).journal.read().records:
                cell = Cell(**record["cell"])
                spent = float(record["seconds"].get("cpu") or 0.0)
                fit = float(record["metrics"].get("fit_cpu_seconds") or 0.0)
                whole = spent + fit if fit > spent else spent  # it cost more than was spent: it had been kept
                version = cell.versions.get("model", 0)
                # settings may make a system much dearer; where these were never run, others are all that is known
                for label in {cell.label, cell.label.partition("[")[0]}:
                    key = (cell.task, cell.dataset, label)
                    if version > newest.get(key, -1):  # what earlier versions took says little about this one
                        newest[key], kept[key] = version, []
                    if version == newest[key]:
                        kept[key].append(whole)
                fitting.setdefault(cell.task, []).append(fit / whole if whole else 0.0)
        for label, graphs in hints.items():
            for graph, seconds in graphs.items():
                kept.setdefault((USUAL, graph, label), [seconds])
        self._known = {key: fmean(values) for key, values in kept.items()}
        pairs: dict[str, list[float]] = {}
        for (task, graph, label), seconds in self._known.items():
            if usual := self._known.get((USUAL, graph, label)):
                pairs.setdefault(task, []).append(seconds / usual)
        self._dearer = {task: fmean(ratios) for task, ratios in pairs.items()}
        self._fitting = {task: fmean(shares) for task, shares in fitting.items()}

    def without_fit(self, task: str, graph: str, label: str) -> float:
        """As :meth:`of`, of a cell whose fit another one has left."""
        return self.of(task, graph, label) * (1.0 - self._fitting.get(task, 0.0))

    def of(self, task: str, graph: str, label: str) -> float:
        """By the same task on this graph; else by the standard task, as much dearer as the task is for others."""
        plain = label.removesuffix(TUNED).partition("[")[0]  # settings that were searched cost about as much as others
        for name in (label, plain):
            if (task, graph, name) in self._known:
                return self._known[task, graph, name]
        standard = next((name for name in (label, plain) if (USUAL, graph, name) in self._known), plain)
        return self._dearer.get(task, 1.0) * self._standard(graph, standard)

    def _standard(self, graph: str, label: str) -> float:
        """On a graph where the system was never run: by the graph on which a GCN takes most nearly as long."""
        if (USUAL, graph, label) in self._known:
            return self._known[USUAL, graph, label]
        gcn = {other: seconds for (task, other, name), seconds in self._known.items() if (task, name) == (USUAL, "gcn")}
        elsewhere = [
            (abs(math.log(gcn[graph] / gcn[other])), seconds * gcn[graph] / gcn[other])
            for (task, other, name), seconds in self._known.items()
            if (task, name) == (USUAL, label) and gcn.get(graph) and gcn.get(other)
        ]
        return min(elsewhere)[1] if elsewhere else UNKNOWN_SECONDS


@dataclass(frozen=True)
class Study:
    """A plan and the folders that it is run in."""

    plan: Plan
    results: Path
    configs: Path

    @cached_property
    def _planned(self) -> dict[Any, list[Cell]]:
        """Cells by what was asked: to find them graphs are opened and models resolved."""
        return {}

    @cached_property
    def _graphs(self) -> dict[str, Graph]:
        return {}

    @cached_property
    def costs(self) -> Costs:
        return Costs(self.results, self.plan.seconds)

    def status(self) -> list[Line]:
        """Every search and table with what is there and what is missing."""
        found, fitted = [], set[str]()
        for number, step in enumerate(self.plan.steps, start=1):
            if isinstance(step, Searches):
                found += [self._searched(number, step, graph) for graph in step.graphs]
            else:
                found += [self._line(number, step, table, graph, fitted) for table, graph in self._parts(step)]
        return found

    def run(self, hours: float, workers: int | None, say: Say) -> list[tuple[Step, PaperTable]]:
        """Do what is missing, in order, until the time is used up; tables that have new cells are returned."""
        until = time.monotonic() + 3600 * hours
        touched: dict[str, tuple[Step, PaperTable]] = {}
        with keeping_fits(self.results / KEPT_FITS):  # tables ask different things of the same fits
            for step in self.plan.steps:
                if isinstance(step, Searches):
                    for graph, model in itertools.product(step.graphs, step.models):
                        if time.monotonic() < until:
                            self._search(step, model, graph, workers, until, say)
                    continue
                for table, graph in self._parts(step):
                    while (left := until - time.monotonic()) > 0 and (missing := self._missing(step, table, graph)):
                        seeds, labels = next_cells(missing, self._seconds, left * (workers or 1))
                        say(f"{table.name} on {graph}: seeds {', '.join(map(str, seeds))} of {', '.join(labels)}")
                        self._run(step, table, graph, seeds, labels, workers, say)
                        touched[table.name] = step, table
        return list(touched.values())

    def _parts(self, step: Step) -> Iterator[tuple[PaperTable, str]]:
        for graph in step.graphs:
            for table in TABLES.get(step.table):
                yield with_found(table, self.configs, [graph]), graph

    def folder(self, step: Step, table: PaperTable) -> BenchFolder:
        return BenchFolder(self.results / step.folder / table.name.replace(":", "-"))

    def _cells(self, step: Step, table: PaperTable, graph: str) -> list[Cell]:
        found = tuple((row.name, canonical(row.found[graph])) for row in table.systems if graph in row.found)
        key = (step, table.name, graph, found)
        if key not in self._planned:
            self._planned[key] = cells_of(table, [graph], self.plan.systems_of(step), range(step.seeds))
        return self._planned[key]

    def _latest(self, step: Step, table: PaperTable) -> Mapping[str, Any]:
        return self.folder(step, table).journal.read().latest

    def _seconds(self, cell: Cell) -> float:
        return self.costs.of(cell.task, cell.dataset, cell.label)

    def _missing(self, step: Step, table: PaperTable, graph: str) -> list[Cell]:
        latest = self._latest(step, table)
        return [cell for cell in self._cells(step, table, graph) if cell.id not in latest]

    def _first_or_kept(self, cell: Cell, fitted: set[str]) -> float:
        """Seconds of a missing cell, given the fits that cells before it leave; its own is added to them."""
        if cell.dataset not in self._graphs:
            self._graphs[cell.dataset] = open_graph(cell.dataset)
        shared = TASKS.get(cell.task)(**cell.options).shared_fit(self._graphs[cell.dataset])
        fit = canonical([cell.dataset, cell.model, dict(cell.settings), cell.seed, shared])
        if shared is not None and fit in fitted:
            return self.costs.without_fit(cell.task, cell.dataset, cell.label)
        fitted.add(fit)
        return self._seconds(cell)

    def _line(self, number: int, step: Step, table: PaperTable, graph: str, fitted: set[str]) -> Line:
        cells, latest = self._cells(step, table, graph), self._latest(step, table)
        missing = [cell for cell in cells if cell.id not in latest]
        lacking = {(cell.label, cell.seed) for cell in missing}
        have = [
            len({cell.seed for cell in cells if cell.label == label and (label, cell.seed) not in lacking})
            for label in dict.fromkeys(cell.label for cell in cells)
        ]
        hours = sum(self._first_or_kept(cell, fitted) for cell in missing) / 3600
        waiting = rows_to_be_searched(table, graph, self.plan.systems_of(step))
        each = step.seeds * (len(cells) // (len(have) * step.seeds) if have else 1)  # cells of one system
        hours += sum(each * self.costs.of(table.task, graph, name) for name in waiting) / 3600
        told = f"{min(have, default=0)} to {max(have, default=0)} of {step.seeds}"
        return Line(
            step=number,
            table=table.name,
            graph=graph,
            systems=len(have) + len(waiting),
            seeds=f"{told}; {len(waiting)} to be searched first" if waiting else told,
            wanted=len(cells) + each * len(waiting),
            failed=sum(latest[cell.id]["status"] != "done" for cell in cells if cell.id in latest),
            missing=len(missing) + each * len(waiting),
            hours=hours,
        )

    def _run(
        self,
        step: Step,
        table: PaperTable,
        graph: str,
        seeds: Sequence[int],
        labels: Sequence[str],
        workers: int | None,
        say: Say,
    ) -> None:
        specs = specs_of(table, graph, self.plan.systems_of(step))
        # cells come seed by seed and, within one, in the order of the models
        wanted = [s for s, cell in zip(specs, self._cells(step, table, graph), strict=False) if cell.label in labels]
        request = BenchRequest(
            task=table.task,
            datasets=(graph,),
            models=tuple(wanted),
            seeds=tuple(seeds),
            options=table.options,
            workers=workers,
            limits=Limits(cpu_seconds=60 * step.minutes),
            renew=True,
        )
        run_bench(request, self.folder(step, table).path, say=say)

    def _request(self, searches: Searches, model: str, graph: str, workers: int | None = 1) -> SearchRequest:
        return SearchRequest(
            graph,
            ModelSpec.parse(model, searches.held.get(model)),
            trials=searches.trials,
            around=searches.around,
            runs=searches.runs,
            sampler=searches.sampler,
            prune=searches.prune,
            select=searches.select,
            without=searches.without,
            also=searches.also.get(model, {}),
            named=searches.named.get(model, ()),
            cpu_minutes=searches.cpu_minutes,
            workers=workers,
        )

    def _search(self, searches: Searches, model: str, graph: str, workers: int | None, until: float, say: Say) -> None:
        request = self._request(searches, model, graph, workers)
        done = run_search(request, self.results / searches.folder / place_of(model, graph), say=say, until=until)
        if not _finished(searches, request, done):
            return
        best = best_trial(done, searches.select)
        write_best(self.configs / f"{place_of(model, graph)}.yaml", request, best, len(done))
        for ensemble in (name for name, member in searches.members.items() if member == model):
            spec = ModelSpec.parse(ensemble, {"base_settings": searches.held.get(model, {})})
            own = replace(best, settings=settings_of(spec.name, best.chosen, spec.settings))
            write_best(self.configs / f"{place_of(ensemble, graph)}.yaml", replace(request, model=spec), own, len(done))

    def _searched(self, number: int, searches: Searches, graph: str) -> Line:
        """Trials of all models on a graph; a search that has used up its time has finished too."""
        total, missing, failed, seconds, counts = searches.trials + searches.around, 0, 0, 0.0, []
        for model in searches.models:
            done = read_trials(self.results / searches.folder / place_of(model, graph), searches.select, searches.runs)
            counts.append(len(done))
            failed += sum(trial.value is None and not trial.pruned for trial in done)
            request = self._request(searches, model, graph)
            if not _finished(searches, request, done):
                rest = max(total - len(done), len(untried_of(request, done)))
                missing += rest
                each = self.costs.of("tuning", graph, model) * searches.runs
                seconds += min(rest * each, 60 * searches.cpu_minutes - sum(trial.cpu_seconds for trial in done))
        told = f"{min(counts)} to {max(counts)} of {total} trials"
        wanted = sum(counts) + missing
        return Line(number, searches.table, graph, len(counts), told, wanted, failed, missing, seconds / 3600)


def _finished(searches: Searches, request: SearchRequest, done: Sequence[Trial]) -> bool:
    spent = sum(trial.cpu_seconds for trial in done) >= 60 * searches.cpu_minutes
    some = any(trial.value is not None for trial in done)
    tried = len(done) >= searches.trials + searches.around and not untried_of(request, done)
    return some and (spent or tried or nothing_left(request, done))


def next_cells(missing: Sequence[Cell], seconds: Callable[[Cell], float], room: float) -> tuple[list[int], list[str]]:
    """Seeds and systems to run next: whole seeds for as long as they fit into ``room`` processor seconds.

    Where not even one does, the systems of the first that do; one is always begun.
    """
    by_seed: dict[int, dict[str, float]] = {}
    for cell in missing:
        own = by_seed.setdefault(cell.seed, {})
        own[cell.label] = own.get(cell.label, 0.0) + seconds(cell)
    (first, systems), *others = by_seed.items()
    labels: list[str] = []
    spent = 0.0
    for label, each in systems.items():
        if labels and spent + each > room:
            return [first], labels
        labels.append(label)
        spent += each
    seeds = [first]
    for seed, own in others:
        if set(own) != set(systems) or (len(seeds) + 1) * spent > room:
            break
        seeds.append(seed)
    return seeds, labels
