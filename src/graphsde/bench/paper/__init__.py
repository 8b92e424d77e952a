"""The tables of the paper; ``graphsde reproduce`` runs them."""

from graphsde.bench.paper.tables import TABLES, PaperTable, Printed, System, printed_figures

__all__ = ["TABLES", "PaperTable", "Printed", "System", "printed_figures"]
