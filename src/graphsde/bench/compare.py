"""From a bench folder's records to results: mean, spread, interval, rank and verdict of every model."""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from graphsde.base.errors import BadInput, BadUsage
from graphsde.bench.cells import Cell
from graphsde.bench.direction import is_cost, judged_values, within_range
from graphsde.bench.statistics import (
    Comparison,
    against,
    average_ranks,
    bootstrap_interval,
    compare_pairs,
    critical_difference,
    leader_of,
    paired_ranks,
    verdicts,
)
from graphsde.bench.tasks.task import TASKS

# metrics that every task keeps besides its own
ASIDE = ("fit_cpu_seconds", "epochs", "n_", "val_")
MOST_SHOWN = 12


@dataclass
class Runs:
    """The runs of one model on one graph.

    Args:
        values: metric by seed; the mean if a task has several variants (classes left out).
        failed: causes of the cells that have no result.
    """

    values: dict[int, dict[str, float]] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Row:
    """One cell of a table, with everything needed to interpret it."""

    dataset: str
    model: str
    metric: str
    mean: float | None
    std: float | None
    n: int
    ci_low: float | None
    ci_high: float | None
    rank: float | None
    verdict: str
    failed: int
    causes: dict[str, int]

    def as_dict(self) -> dict[str, Any]:
        return dict(self.__dict__)


def collect(records: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, Runs]]:
    """Runs by dataset and model label; the last record of a cell counts."""
    latest = {record["id"]: record for record in records}
    found: dict[str, dict[str, Runs]] = defaultdict(lambda: defaultdict(Runs))
    variants: dict[tuple[str, str, int], dict[str, dict[str, float]]] = defaultdict(dict)
    asked: dict[str, set[str]] = defaultdict(set)
    seen: dict[tuple[str, str, int, str], str] = {}
    for record in latest.values():
        cell = Cell(**record["cell"])
        variant = json.dumps(cell.options, sort_keys=True)
        place = (cell.dataset, cell.label, cell.seed, variant)
        if seen.setdefault(place, record["id"]) != record["id"]:
            raise BadInput(
                f"'{cell.label}' is ambiguous: two different cells on {cell.dataset}, seed {cell.seed}",
                code="E-CORRUPT",
                found=f"{seen[place][:12]}, {record['id'][:12]}",
                fix="keep results of different settings, data or versions in different folders",
            )
        asked[cell.dataset].add(variant)
        if record["status"] == "done":
            metrics = {name: math.nan if value is None else float(value) for name, value in record["metrics"].items()}
            variants[cell.dataset, cell.label, cell.seed][variant] = metrics
        else:
            found[cell.dataset][cell.label].failed.append(str(record.get("cause") or "unknown"))
    for (dataset, label, seed), measured in variants.items():
        runs = found[dataset][label]
        if set(measured) == asked[dataset]:  # a mean over only some of the classes would be a different question
            runs.values[seed] = _mean_of(list(measured.values()))
    return {dataset: dict(models) for dataset, models in found.items()}


def compare(records: Iterable[Mapping[str, Any]], metrics: Sequence[str] | None = None) -> list[Row]:
    """Every model on every graph under every metric; the verdict is made per graph and metric.

    Args:
        records: of one bench folder.
        metrics: which ones; default: those of :func:`headline`.
    """
    records = list(records)
    if not records:
        raise BadInput("there are no finished cells to compare", code="E-EMPTY", fix="run graphsde bench first")
    wanted = tuple(metrics) if metrics else headline(records)
    rows = []
    for dataset, models in sorted(collect(records).items()):
        for metric in wanted:
            rows += _rows(dataset, metric, models)
    for metric in metrics or ():
        if not any(row.n for row in rows if row.metric == metric):
            known = sorted({name for record in records for name in record.get("metrics") or {}})
            raise BadUsage("unknown metric", code="E-NAME", found=metric, expected=", ".join(known))
    return rows


@dataclass(frozen=True)
class Standing:
    """Where one model stands among its rivals on one graph under one metric.

    Args:
        ahead, tied, behind: the rivals that it is ahead of, statistically tied with, and behind.
        fewest, most: pairs of runs that a test had.
    """

    dataset: str
    metric: str
    ahead: list[str]
    tied: list[str]
    behind: list[str]
    fewest: int
    most: int


def standings(records: Iterable[Mapping[str, Any]], subject: str, metrics: Sequence[str]) -> list[Standing]:
    """One model against every other, on every graph that has it, under every metric that can be ranked.

    Holm's correction is over the rivals of the model. :func:`compare` corrects over the rivals of the leader, which may
    find a difference that this one does not: a model that is behind the leader there is behind it here, too.
    """
    found = []
    for dataset, models in sorted(collect(records).items()):
        for metric in metrics:
            turned = judged_values(metric, _known(models, metric))
            if turned is None or not turned.get(subject):
                continue
            said = against(turned, subject, higher_is_better=True)
            if verdicts(turned, higher_is_better=True)[subject] == "behind":
                said[leader_of(turned, higher_is_better=True)] = "behind"
            pairs = [len(set(turned[subject]) & set(turned[name])) for name, word in said.items() if word != "too few"]
            by = {word: [name for name, own in said.items() if own == word] for word in ("ahead", "tied", "behind")}
            if pairs:
                found.append(Standing(dataset, metric, **by, fewest=min(pairs), most=max(pairs)))
    return found


def headline(records: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """What to show of a bench: the task's headline metrics, as far as measured.

    A sweep over unusual values has other metrics of the same kind, which then replace the missing
    ones; a task that has neither shows what it has.
    """
    usual = TASKS.get(records[0]["cell"]["task"]).headline
    measured = list(dict.fromkeys(name for record in records for name in record.get("metrics") or {}))
    shown: dict[str, None] = {}
    for name in usual:
        alike = [other for other in measured if other.partition("@")[0] == name.partition("@")[0] and "@" in name]
        shown |= dict.fromkeys([name] if name in measured else alike)
    own = [name for name in measured if not name.startswith(ASIDE)]
    return tuple(shown) or tuple(own[:MOST_SHOWN]) or usual


def pairwise(records: Iterable[Mapping[str, Any]], dataset: str, metric: str, first: str, second: str) -> Comparison:
    """All tests between two models on the seeds that both have; costs are tested as factors, like verdicts."""
    models = collect(records)[dataset]
    known = _known(models, metric)
    one, two = known.get(first, {}), known.get(second, {})
    seeds = sorted(set(one) & set(two), key=int)
    sizes = models[first].values[int(seeds[0])] if seeds else {}
    ratio = sizes["n_test"] / sizes["n_train"] if {"n_test", "n_train"} <= set(sizes) else None
    values = [[runs[seed] for seed in seeds] for runs in (one, two)]
    found = compare_pairs(*values, test_to_train=ratio)
    judged = judged_values(metric, known) if is_cost(metric) else None
    if judged is None:
        return found
    factors = [[judged[label][seed] for seed in seeds] for label in (first, second)]
    return replace(compare_pairs(*factors, test_to_train=ratio), difference=found.difference)


def causes_of(records: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """How many cells have no result, by the full text of the cause, most frequent first."""
    latest = {record["id"]: record for record in records}
    found = Counter(str(r.get("cause") or "unknown") for r in latest.values() if r["status"] != "done")
    return dict(found.most_common())


def _rows(dataset: str, metric: str, models: Mapping[str, Runs]) -> list[Row]:
    values = _known(models, metric)
    turned = judged_values(metric, values)
    said = dict.fromkeys(values, "not judged") if turned is None else verdicts(turned, higher_is_better=True)
    ranks = {} if turned is None else paired_ranks(turned, higher_is_better=True)
    rows = []
    for label, runs in models.items():
        x = np.array([values[label][seed] for seed in sorted(values[label], key=int)])
        # one run has no spread: an interval of no width would look like certainty
        low, high = within_range(metric, bootstrap_interval(x.tolist())) if x.size > 1 else (None, None)
        causes = Counter(cause.partition(":")[0] for cause in runs.failed)
        rows.append(
            Row(
                dataset,
                label,
                metric,
                float(x.mean()) if x.size else None,
                float(x.std(ddof=1)) if x.size > 1 else None,
                int(x.size),
                low,
                high,
                ranks.get(label),
                said[label],
                len(runs.failed),
                dict(causes),
            )
        )
    return sorted(rows, key=lambda row: (row.rank is None, row.rank, row.model))


def _mean_of(measured: list[dict[str, float]]) -> dict[str, float]:
    names = [name for name in measured[0] if all(name in one for one in measured)]
    return {name: float(np.mean([one[name] for one in measured])) for name in names}


def _known(models: Mapping[str, Runs], metric: str) -> dict[str, dict[str, float]]:
    """A metric by model and seed, if defined."""
    known = {}
    for label, runs in models.items():
        values = {str(seed): run.get(metric, math.nan) for seed, run in runs.values.items()}
        known[label] = {seed: value for seed, value in values.items() if not math.isnan(value)}
    return known


@dataclass(frozen=True)
class Ranking:
    """Mean ranks over blocks, and the critical difference.

    Args:
        metric: ranked by.
        models: in the order of ``ranks``.
        ranks: mean rank of each, 1 being best.
        blocks: how many.
        over: ``graphs``; ``seeds`` if there is a single graph: then the diagram is about that graph only.
        distance: Nemenyi's critical difference.
    """

    metric: str
    models: list[str]
    ranks: np.ndarray
    blocks: int
    over: Literal["graphs", "seeds"]
    distance: float


def rank_models(records: Iterable[Mapping[str, Any]], metric: str) -> Ranking | None:
    """Rank by the mean over the seeds that every model has, graph by graph; ``None`` if there are too few blocks.

    A graph is one block, however many seeds were run on it: seeds of one graph are not independent, and counting them
    as blocks would make the critical difference too small (Demšar, 2006, requires independent data sets).
    """
    found = collect(records)
    models = sorted({label for by_model in found.values() for label in by_model})
    tables = [table for by_model in found.values() if len(table := _common(by_model, models, metric))]
    over: Literal["graphs", "seeds"] = "graphs" if len(tables) > 1 else "seeds"
    blocks = (
        [table.mean(axis=0) for table in tables] if over == "graphs" else [row for table in tables for row in table]
    )
    if len(models) < 2 or len(blocks) < 2:
        return None
    ranks = average_ranks(np.array(blocks), higher_is_better=True)
    return Ranking(metric, models, ranks, len(blocks), over, critical_difference(len(models), len(blocks)))


def _common(by_model: Mapping[str, Runs], models: list[str], metric: str) -> np.ndarray:
    """Values of the seeds that every model has, signed so that more is better.  # [seeds, models]"""
    known = _known(by_model, metric)
    turned = judged_values(metric, {label: known.get(label, {}) for label in models})
    if turned is None:
        raise BadUsage(f"'{metric}' has no better direction, so models can't be ranked by it", found=metric)
    seeds = sorted(set.intersection(*[set(own) for own in turned.values()])) if turned else []
    return np.array([[turned[label][seed] for label in models] for seed in seeds]).reshape(len(seeds), len(models))
