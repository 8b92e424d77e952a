"""From a journal's records to the rows of a table."""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from graphsde.bench.cells import Cell


@dataclass(frozen=True)
class TableRow:
    """One metric of one model on one variant of one graph.

    Args:
        variant: options in which the cells of a task differ, as text; empty if they don't.
        model: its label.
        metric: ``None`` if no cell was measured.
        mean, std: over seeds; the standard deviation has ``n - 1`` in its denominator.
        n: seeds that have this metric.
        failed: seeds without a result.
    """

    dataset: str
    variant: str
    model: str
    metric: str | None
    mean: float | None
    std: float | None
    n: int
    failed: int

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


# the time of a fit depends on the machine; it is in the journal, not in a table of results
NOT_RESULTS = ("fit_cpu_seconds",)


@dataclass
class _Group:
    values: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    failed: int = 0


def tabulate(records: Iterable[Mapping[str, Any]], options: Mapping[str, Any] | None = None) -> list[TableRow]:
    """Rows sorted by graph, variant, model and metric; independent of the order of the records, bit by bit.

    Args:
        records: of one bench; of several with one id the last one counts.
        options: of the bench: what a cell has beyond them is its variant.
    """
    groups: dict[tuple[str, str, str], _Group] = defaultdict(_Group)
    for record in {record["id"]: record for record in records}.values():
        cell = Cell(**record["cell"])
        group = groups[cell.dataset, _variant(cell, options or {}), cell.label]
        if record["status"] != "done":
            group.failed += 1
            continue
        for name, value in record["metrics"].items():
            if name.partition("@")[0] in NOT_RESULTS:
                continue
            group.values[name] += [] if value is None else [value]
    rows = []
    for (dataset, variant, model), group in sorted(groups.items()):
        metrics: list[str | None] = [*sorted(group.values)] or [None]
        for metric in metrics:
            found = group.values[metric] if metric is not None else []
            rows.append(TableRow(dataset, variant, model, metric, _mean(found), _std(found), len(found), group.failed))
    return rows


def _variant(cell: Cell, options: Mapping[str, Any]) -> str:
    own = {name: value for name, value in cell.options.items() if name not in options or options[name] != value}
    return ", ".join(
        f"{name}={value if isinstance(value, str) else json.dumps(value, sort_keys=True)}"
        for name, value in sorted(own.items())
    )


def _mean(values: list[float]) -> float | None:
    # fsum rounds once, so that the order of the cells does not show
    return math.fsum(values) / len(values) if values else None


def _std(values: list[float]) -> float | None:
    if len(values) < 2:
        return None
    mean = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))
