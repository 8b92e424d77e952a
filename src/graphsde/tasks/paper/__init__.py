"""One declarative file per table of the paper; ``graphsde reproduce`` runs them."""

from graphsde.tasks.paper import (  # noqa: F401  (importing them registers them)
    active,
    backbone,
    extended_ood,
    figures,
    noise,
    ood,
    prior_sweeps,
    standard,
    time,
)
from graphsde.tasks.paper.table import TABLES, PaperTable, Printed, System, printed_figures

__all__ = ["TABLES", "PaperTable", "Printed", "System", "printed_figures"]
