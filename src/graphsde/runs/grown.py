"""A graph that has grown since a run was made: known nodes keep their roles, new ones have none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from graphsde.data.encoding import FeatureEncoder
from graphsde.data.graph import Graph
from graphsde.data.ids import locate
from graphsde.errors import BadInput, shorten
from graphsde.models import Model
from graphsde.storage import io_error

SHOWN = 5


def roles_in(predictions: Path) -> tuple[list[int | str], dict[str, list[int | str]]]:
    """Ids of all nodes of a run and ids by role, from its table of predictions: its graph may be gone by now."""
    import pyarrow as pa
    import pyarrow.parquet as pa_parquet

    try:
        table = pa_parquet.read_table(predictions).to_pydict()
    except pa.ArrowInvalid as error:
        raise BadInput(f"{predictions.name} is damaged", code="E-CORRUPT", place=str(predictions)) from error
    except OSError as error:
        raise io_error("read", predictions, error) from error
    roles: dict[str, list[int | str]] = {}
    for node, role in zip(table["id"], table.get("split", [None] * len(table["id"])), strict=True):
        if role is not None:
            roles.setdefault(role, []).append(node)
    return table["id"], roles


def require_growth(known: list[int | str], graph: Graph, model: Model) -> int:
    """Refuse a graph that lacks nodes or columns of the run; how many nodes are new.

    Args:
        known: ids of the run's nodes.
        graph: the new one.
        model: the run's, which knows the columns.
    """
    missing = np.flatnonzero(locate(known, graph.node_ids) < 0)
    if len(missing):
        shown = ", ".join(shorten(str(known[row]), 60) for row in missing[:SHOWN])
        raise BadInput(
            f"{len(missing):,} of the {len(known):,} nodes of the run are not in {graph.name}: {shown}",
            code="E-NODE-UNKNOWN",
            expected="a graph that has all nodes of the run, under the same ids",
            fix="add them, or fit a new run on this graph",
        )
    for encoder in _encoders(model):
        encoder.transform(graph.subgraph(np.arange(min(2, graph.num_nodes))))  # refuses other columns
    return graph.num_nodes - len(known)


def _encoders(model: Any) -> list[FeatureEncoder]:
    """Of a model that reads features; an ensemble's members all have the same."""
    owners = [model, *getattr(model, "members", [])[:1]]
    found = [getattr(owner, "encoder", None) for owner in owners]
    return [encoder for encoder in found if isinstance(encoder, FeatureEncoder)]
