"""Where cells run: in this process, in worker processes, on a cluster."""

from graphsde.bench.engines import local, ray_cluster  # noqa: F401  (importing them registers them, in this order)
from graphsde.bench.engines.base import ENGINES, Engine, Limits, register_engine

__all__ = ["ENGINES", "Engine", "Limits", "register_engine"]
