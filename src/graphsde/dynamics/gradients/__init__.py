"""How gradients reach back through a solve: ``store`` (time), ``checkpoint`` (memory √L), ``reversible`` (memory 1).

All three are exact derivatives of the same discrete computation; they differ in memory and time alone.
"""

from collections.abc import Callable

from torch import Tensor

from graphsde.dynamics.gradients.checkpoint import run_checkpointed
from graphsde.dynamics.gradients.reversible import run_reversible
from graphsde.dynamics.gradients.store import run_stored
from graphsde.dynamics.plan import Plan

Runner = Callable[[Plan, Tensor], tuple[list[Tensor], Tensor | None]]

GRADIENTS: dict[str, Runner] = {"store": run_stored, "checkpoint": run_checkpointed, "reversible": run_reversible}

__all__ = ["GRADIENTS", "run_checkpointed", "run_reversible", "run_stored"]
