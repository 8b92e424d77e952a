"""What the small studies share: run the missing cells, read the journal, mean and spread in per cent."""

from __future__ import annotations

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
    )
    run_bench(request, out, progress=show, say=console.print)


def records_of(folder: Path, graph: str, model: str, seeds: Sequence[int]) -> list[dict[str, Any]]:
    """Metrics of the finished cells, the latest of each."""
    latest = {record["id"]: record for record in BenchFolder(folder).read()[1].records}
    return [
        record["metrics"]
        for record in latest.values()
        if record["status"] == "done"
        and (record["cell"]["dataset"], record["cell"]["model"]) == (graph, model)
        and record["cell"]["seed"] in seeds
    ]


def mean_and_spread(values: Sequence[float]) -> str:
    if not values:
        return "—"
    mean = math.fsum(values) / len(values)
    if len(values) == 1:
        return f"{100 * mean:.1f} %"
    spread = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))
    return f"{100 * mean:.1f} ± {100 * spread:.1f} %"
