"""What the files say about one node: the columns that stand out."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp

from graphsde.data.graph import Graph
from graphsde.view.app.words import plain

MOST_FACTS = 12


def node_facts(graph: Graph, node: int) -> list[tuple[str, str]]:
    """Text columns, then the numbers farthest from zero, by name; at most a dozen."""
    facts = [
        (plain(name), plain(column[node])) for name, column in graph.categorical.items() if column[node] is not None
    ]
    row = sp.csr_array(graph.features[[node]])
    order = np.argsort(-np.abs(row.data), kind="stable")[: max(0, MOST_FACTS - len(facts))]
    for at in order.tolist():
        column = int(row.indices[at])
        name = f"column {column + 1}" if graph.feature_names is None else graph.feature_names[column]
        facts.append((plain(name), f"{float(row.data[at]):.4g}"))
    return facts[:MOST_FACTS]
