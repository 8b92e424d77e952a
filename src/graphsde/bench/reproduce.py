"""Our results against the paper's, cell by cell; tables as Markdown."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from graphsde.bench.cells import Cell, ModelSpec, canonical, own_settings, plan_cells
from graphsde.bench.direction import aim_of, within_range
from graphsde.bench.paper import PaperTable, Printed, System
from graphsde.bench.search import kept_settings, tuned
from graphsde.bench.statistics import bootstrap_interval
from graphsde.datasets.source import open_graph
from graphsde.graph.graph import Graph

# if the paper prints no spread: the observed difference between two runs of one system, in points
UNSTATED_SPREAD = 0.03


@dataclass(frozen=True)
class Beside:
    """One of our values and the published one, in its unit; a row that is ours alone has no ``system``."""

    table: str
    dataset: str
    system: str
    model: str
    metric: str
    printed: float | None
    printed_std: float | None
    printed_text: str
    mean: float | None
    std: float | None
    n: int
    ci_low: float | None
    ci_high: float | None
    failed: int
    agreement: str
    note: str

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def with_found(table: PaperTable, configs: Path | None, graphs: Sequence[str] = ()) -> PaperTable:
    """The table with the settings that searches have left in ``configs`` for its tuned rows.

    A row that is to be tuned is there on the graphs that have been searched, and on no other. ``graphs`` are looked for
    besides those of the table itself.
    """
    systems, known = [], dict.fromkeys((*table.datasets, *graphs))
    for system in table.systems:
        if system.tuned:
            searched = [] if configs is None else [g for g in known if kept_settings(configs, system.model, g)]
            spec = tuned(ModelSpec.parse(system.model), system.model, searched, configs or Path())
            system = replace(system, found=spec.found, found_on=spec.found_on)
        systems.append(system)
    return replace(table, systems=tuple(systems))


def cells_of(table: PaperTable, datasets: Sequence[str], models: Sequence[str], seeds: Sequence[int]) -> list[Cell]:
    """The cells that a table needs."""
    cells = []
    for dataset in datasets:
        graph = open_graph(dataset)
        specs = specs_of(table, dataset, models, graph)
        cells += plan_cells(table.task, table.options, [dataset], specs, seeds, {dataset: graph})
    return cells


def specs_of(table: PaperTable, dataset: str, models: Sequence[str], graph: Graph | None = None) -> list[ModelSpec]:
    """The models that a table needs on a graph; rows that share one name it once.

    A search that ended where it began shares its cells with the row that was not tuned.
    """
    found: dict[tuple[str, str], ModelSpec] = {}
    graph = graph or open_graph(dataset)
    for spec in map(spec_of, _rows(table, dataset, models)):
        found.setdefault((spec.name, canonical(own_settings(spec.on(dataset), graph))), spec)
    return list(found.values())


def spec_of(system: System) -> ModelSpec:
    spec = ModelSpec.parse(system.model, system.settings)
    if not system.tuned:
        return spec
    return replace(spec, found=dict(system.found), found_on=dict(system.found_on), called=system.name)


def beside(
    table: PaperTable,
    records: Iterable[Mapping[str, Any]],
    datasets: Sequence[str],
    models: Sequence[str],
    seeds: Sequence[int],
    graphs: dict[str, Graph] | None = None,
) -> list[Beside]:
    """Every row of the table on every graph under every metric, with what was measured so far.

    Graphs are kept in ``graphs``, if it is given.
    """
    records = list(records)
    rows = []
    for dataset in datasets:
        for system, found in by_system(table, records, dataset, models, seeds, graphs):
            rows += [_beside(table, dataset, system, metric, found) for metric in table.metrics]
    return rows


def records_of(
    table: PaperTable, records: Iterable[Mapping[str, Any]], dataset: str, models: Sequence[str], seeds: Sequence[int]
) -> list[Mapping[str, Any]]:
    """The records of the cells that a table needs on one graph, in the order of its rows."""
    return [record for _, found in by_system(table, records, dataset, models, seeds) for record in found]


def by_system(
    table: PaperTable,
    records: Iterable[Mapping[str, Any]],
    dataset: str,
    models: Sequence[str],
    seeds: Sequence[int],
    graphs: dict[str, Graph] | None = None,
) -> Iterator[tuple[System, list[Mapping[str, Any]]]]:
    """The rows that a table has on one graph, each with its records."""
    records, graphs = list(records), {} if graphs is None else graphs
    planned = dict[str, list[Cell]]()  # rows of one model by several scores have the same cells
    for system in _rows(table, dataset, models):
        spec = spec_of(system)
        if (key := canonical(asdict(spec))) not in planned:
            planned[key] = plan_cells(table.task, table.options, [dataset], [spec], seeds, graphs)
        cells = planned[key]
        found = of_whole_seeds(standing(cells, records), len(cells) // max(1, len(seeds)))
        yield replace(system, former=former_version(found, cells)), found


def of_whole_seeds(records: Sequence[Mapping[str, Any]], each: int) -> list[Mapping[str, Any]]:
    """Without seeds of which some of the ``each`` cells were not run yet: a mean over some of the classes that a table
    leaves out in turn would be another question."""
    counts = Counter(record["cell"]["seed"] for record in records)
    return [record for record in records if counts[record["cell"]["seed"]] >= each]


def standing(cells: Sequence[Cell], records: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """What a journal has of a row: of the present results version, else of the one before.

    Never of both: what an earlier version of the code found stands until the row is run again.
    """
    latest = {record["id"]: record for record in records}
    if found := [latest[cell.id] for cell in cells if cell.id in latest]:
        return found
    asked = {(record["address"], record["cell"]["data"]): record for record in latest.values()}
    former = [asked[key] for cell in cells if (key := (cell.address, cell.data)) in asked]
    return [record for record in former if record["cell"]["versions"] == former[0]["cell"]["versions"]]


def former_version(found: Sequence[Mapping[str, Any]], cells: Sequence[Cell]) -> str:
    """Which version made a row that has not been run by the present one; empty for one that has."""
    if not found:
        return ""
    then, now = found[0]["cell"]["versions"], cells[0].versions
    return ", ".join(f"version {then.get(kind, 0)} of the {kind}" for kind in now if then.get(kind, 0) != now[kind])


def _rows(table: PaperTable, dataset: str, models: Sequence[str]) -> list[System]:
    """The systems asked for that can be run on a graph: tuned ones only where they have been searched."""
    return [row for row in _asked(table, models) if not row.tuned or dataset in row.found]


def rows_to_be_searched(table: PaperTable, dataset: str, models: Sequence[str]) -> list[str]:
    """The systems asked for that wait for a search on a graph, by name."""
    return [row.name for row in _asked(table, models) if row.tuned and dataset not in row.found]


def _asked(table: PaperTable, models: Sequence[str]) -> list[System]:
    """By our name or, where none of ours has it, by the printed one; all if none is named."""
    ours = {system.name for system in table.systems}
    return [
        s for s in table.systems if not models or s.name in models or (s.printed in models and s.printed not in ours)
    ]


def _beside(table: PaperTable, dataset: str, system: System, metric: str, records: list[Mapping[str, Any]]) -> Beside:
    ours = table.metric_of(system, metric)
    x = np.array(_by_seed(records, ours), dtype=np.float64) * table.scale
    printed = table.printed_figure(dataset, system, metric) or Printed(None, None, "")
    mean = float(x.mean()) if x.size else None
    std = float(x.std(ddof=1)) if x.size > 1 else None
    low, high = within_range(ours, bootstrap_interval(x.tolist()), table.scale) if x.size > 1 else (None, None)
    return Beside(
        table.name,
        dataset,
        system.printed or "",
        row_name(system),
        metric,
        printed.mean,
        printed.std,
        printed.text,
        mean,
        std,
        int(x.size),
        low,
        high,
        sum(record["status"] != "done" for record in records),
        _agreement(table, ours, mean, std, printed),
        system.note,
    )


def _agreement(table: PaperTable, ours: str, mean: float | None, std: float | None, printed: Printed) -> str:
    if not table.comparable:
        return ""
    return agreement(mean, std, printed.mean, printed.std, table.scale, higher_is_better=aim_of(ours) == "higher")


def _by_seed(records: Sequence[Mapping[str, Any]], metric: str) -> list[float]:
    """One value per seed; where a task has several cells for a seed (classes left out), the mean of them all."""
    seeds: dict[int, list[float | None]] = {}
    for record in records:
        value = record["metrics"].get(metric) if record["status"] == "done" else None
        seeds.setdefault(record["cell"]["seed"], []).append(value)
    whole = max(map(len, seeds.values()), default=0)
    kept = [[one for one in values if one is not None] for values in seeds.values() if len(values) == whole]
    return [sum(values) / whole for values in kept if len(values) == whole]


def row_name(system: System) -> str:
    """Our model, with what distinguishes this row from others of the same model."""
    told = system.name if system.score is None else f"{system.name} by {system.score}"
    told = told if system.value is None else f"{told}, {system.value}"
    return f"{told} ({system.former})" if system.former else told


def agreement(
    mean: float | None,
    std: float | None,
    printed: float | None,
    printed_std: float | None,
    scale: float = 1.0,
    *,
    higher_is_better: bool = True,
) -> str:
    """``agrees`` within one joint standard deviation, else ``better`` or ``worse``, as ours is; empty without a pair.

    If no spread is published, within our own or three points, whichever is more.

    Example:
        >>> agreement(0.82, 0.01, 0.815, 0.005), agreement(0.9, 0.01, 0.815, 0.005)
        ('agrees', 'better')
    """
    if mean is None or printed is None:
        return ""
    own = std or 0.0
    joint = max(UNSTATED_SPREAD * scale, own) if printed_std is None else math.hypot(printed_std, own)
    if abs(mean - printed) <= joint:
        return "agrees"
    return "better" if (mean > printed) == higher_is_better else "worse"


def markdown_table(rows: Sequence[dict[str, Any]], columns: Sequence[str] | None = None) -> str:
    """Rows as a Markdown table; ``|`` in a cell is escaped."""
    if not rows:
        return ""
    names = list(columns or rows[0])
    lines = ["| " + " | ".join(names) + " |", "|" + "---|" * len(names)]
    for row in rows:
        cells = ["" if row.get(name) is None else str(row[name]).replace("|", "\\|") for name in names]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def beside_table(rows: Sequence[Beside], intervals: bool = True) -> str:
    """Our and the published values, graph by graph: mean ± standard deviation (95 % interval of the mean), and theirs.

    Wide tables are easier to read without ``intervals``.
    Metrics that the paper does not publish are in a separate table. A row appears with its first run; a published
    system of which we have run nothing has one row without figures of ours.
    """
    begun = {(row.dataset, row.model) for row in rows if row.n or row.failed}
    seen = {(row.dataset, row.system) for row in rows if (row.dataset, row.model) in begun}
    for row in rows:
        if row.printed_text and (row.dataset, row.system) not in seen:
            seen.add((row.dataset, row.system))
            begun.add((row.dataset, row.model))
    rows = [row for row in rows if (row.dataset, row.model) in begun]
    metrics = list(dict.fromkeys(row.metric for row in rows))
    printed = [metric for metric in metrics if any(row.printed_text for row in rows if row.metric == metric)]
    others = [metric for metric in metrics if metric not in printed]
    published = any(row.printed_text for row in rows)
    parts = []
    for dataset in dict.fromkeys(row.dataset for row in rows):
        own = [row for row in rows if row.dataset == dataset]
        tables = [_table(own, chosen, intervals, published) for chosen in (printed, others) if chosen]
        parts.append(f"**{dataset}**\n\n" + "\n".join(tables))
    return "\n".join(parts)


def _table(rows: Sequence[Beside], metrics: Sequence[str], intervals: bool, published: bool) -> str:
    groups: dict[tuple[str, str], dict[str, Beside]] = {}
    for row in rows:
        groups.setdefault((row.system, row.model), {})[row.metric] = row
    lines = []
    for (system, model), found in groups.items():
        most = max(row.n for row in found.values())
        line: dict[str, Any] = {"published as": system, "ours": model} if published else {"ours": model}
        for metric in metrics:
            row = found[metric]
            line[metric] = _our_cell(row, most, intervals)
            if any(other.printed_text for other in rows if other.metric == metric):
                line[f"{metric} published"] = _printed(row)
        line["n"], line["failed"] = most, next(iter(found.values())).failed
        lines.append(line)
    return markdown_table(lines)


def _our_cell(row: Beside, most: int, intervals: bool) -> str:
    if row.mean is None:
        return "—"
    digits = _digits(row)
    text = f"{row.mean:,.{digits}f}"
    if row.std is not None:
        text += f" ± {row.std:,.{digits}f}"
        if intervals:
            less = max(0, digits - 1)
            text += f" ({row.ci_low:,.{less}f} to {row.ci_high:,.{less}f})"
    return text if row.n == most else f"{text}, n = {row.n}"


def _printed(row: Beside) -> str:
    if row.printed is None:
        return row.printed_text
    digits = _digits(row)
    spread = "" if row.printed_std is None else f" ± {row.printed_std:.{digits}f}"
    return f"{row.printed:.{digits}f}{spread}" + (f"; ours {row.agreement}" if row.agreement else "")


def _digits(row: Beside) -> int:
    """Enough for shares, for per cent and for bytes."""
    largest = max(abs(value) for value in (row.mean, row.printed) if value is not None)
    return 4 if largest <= 2 else 2 if largest < 1000 else 0
