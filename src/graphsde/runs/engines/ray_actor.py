"""What runs on a Ray node: a worker with one processor that keeps graphs between cells."""

from __future__ import annotations

import json
import os
from typing import Any


class CellActor:
    """Takes a cell as JSON and the parts of its graph, answers with the outcome as JSON.

    Args:
        plugins: modules to import first, see :func:`~graphsde.runs.plugins.load_plugins`.
    """

    def __init__(self, plugins: str) -> None:
        from graphsde.runs.plugins import load_plugins
        from graphsde.runs.worker import limit_memory

        load_plugins(plugins)
        limit_memory()

    def ready(self) -> int:
        return os.getpid()

    def run(self, cell_text: str, cpu_seconds: float, parts: dict[str, Any]) -> str:
        from graphsde.runs.cells import Cell
        from graphsde.runs.execute import holds_graph, keep_graph, run_cell
        from graphsde.runs.shipping import unpack_graph

        cell = Cell(**json.loads(cell_text))
        if not holds_graph(cell):
            keep_graph(cell.dataset, unpack_graph(parts))
        return json.dumps(run_cell(cell, cpu_seconds).as_dict(), allow_nan=False)
