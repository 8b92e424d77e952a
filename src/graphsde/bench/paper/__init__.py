"""One declarative file per table of the paper; ``graphsde reproduce`` runs them."""

from graphsde.bench.paper import tables  # noqa: F401  (importing it registers them)
from graphsde.bench.paper.table import TABLES, PaperTable, Printed, System, printed_figures

__all__ = ["TABLES", "PaperTable", "Printed", "System", "printed_figures"]
