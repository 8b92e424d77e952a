"""Where cells run: in this process, in worker processes, on a cluster."""

# isort: off
from graphsde.runs.engines import processes, serial, ray_cluster  # noqa: F401  (registers them, in this order)

# isort: on
from graphsde.runs.engines.base import ENGINES, Engine, Limits, register_engine

__all__ = ["ENGINES", "Engine", "Limits", "register_engine"]
