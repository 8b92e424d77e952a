"""One cell after the other, in this very process."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence

from graphsde.runs.cells import Cell
from graphsde.runs.engines.base import Engine, Finished, Limits, Say, register_engine
from graphsde.runs.execute import run_cell
from graphsde.runs.stopping import Stopper


@register_engine
class SerialEngine(Engine):
    """Nothing to start and easy to debug; a crash or a hang of a cell is one of the whole bench."""

    name, summary = "serial", "one cell after the other in this process"

    def run(self, cells: Sequence[Cell], limits: Limits, *, stopper: Stopper, say: Say) -> Finished:
        for cell in cells:
            with contextlib.redirect_stdout(sys.stderr):  # standard output is for results
                outcome = run_cell(cell, limits.cpu_seconds)
            yield cell, outcome
