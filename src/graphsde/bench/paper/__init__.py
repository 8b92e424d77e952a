"""The tables of the paper; ``graphsde reproduce`` runs them."""

from graphsde.bench.paper import beyond  # noqa: F401  (registers its tables)
from graphsde.bench.paper.tables import TABLES, PaperTable, Printed, System, printed_figures

__all__ = ["TABLES", "PaperTable", "Printed", "System", "printed_figures"]
