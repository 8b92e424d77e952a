"""What the small studies share: run the missing cells, read the journal, mean and spread, tables inside pages."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from graphsde.bench.cells import ModelSpec
from graphsde.bench.folder import BenchFolder
from graphsde.bench.run import BenchRequest, Progress, run_bench


def run_cells(
    task: str, options: dict[str, Any], graphs: Sequence[str], models: Sequence[str], seeds: Sequence[int], out: Path
) -> None:
    """One cell at a time, what the journal has is skipped."""
    console = Console(stderr=True)

    def show(state: Progress) -> None:
        if state.cell is not None and state.outcome is not None:
            console.print(f"{state.finished}/{state.total}", state.cell.dataset, state.cell.label, state.outcome.status)

    request = BenchRequest(
        task=task,
        datasets=tuple(graphs),
        models=tuple(ModelSpec.parse(model, {}) for model in models),
        seeds=tuple(seeds),
        options=options,
        engine="serial",
        renew=True,  # rows of an earlier version are run again
    )
    run_bench(request, out, progress=show, say=console.print)


def records_of(folder: Path, graph: str, model: str, seeds: Sequence[int]) -> list[dict[str, Any]]:
    """Metrics of the finished cells, of the newest version alone."""
    latest = {record["id"]: record for record in BenchFolder(folder).read()[1].records}
    own = [
        record
        for record in latest.values()
        if record["status"] == "done"
        and (record["cell"]["dataset"], record["cell"]["model"]) == (graph, model)
        and record["cell"]["seed"] in seeds
    ]
    versions = [record["cell"]["versions"] for record in own]
    newest = max(versions, key=lambda one: (one["model"], one["task"]), default={})
    return [record["metrics"] for record, version in zip(own, versions, strict=True) if version == newest]


def mean_and_spread(values: Sequence[float]) -> str:
    if not values:
        return "—"
    mean = math.fsum(values) / len(values)
    if len(values) == 1:
        return f"{100 * mean:.1f} %"
    spread = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))
    return f"{100 * mean:.1f} ± {100 * spread:.1f} %"


def append_line(journal: Path, line: dict[str, Any]) -> None:
    """Add one finished run to a journal of lines."""
    journal.parent.mkdir(parents=True, exist_ok=True)
    with open(journal, "a", encoding="utf-8") as stream:
        stream.write(json.dumps(line, sort_keys=True) + "\n")


def read_lines(journal: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in journal.read_text(encoding="utf-8").splitlines()] if journal.is_file() else []


def with_table(text: str, command: str, table: str) -> str:
    """A page with the table that ``command`` makes between its two marks."""
    head, rest = text.split(f"<!-- made by: {command} -->")
    return f"{head}<!-- made by: {command} -->\n{table}<!-- end -->{rest.split('<!-- end -->', 1)[1]}"
